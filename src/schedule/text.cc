#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "schedule/kinds.h"

namespace trireme {
namespace {

constexpr std::string_view kMagic = "trireme-schedule 1";
constexpr std::string_view kRoundRobin = "placement=round_robin";  // what a header without placement means
constexpr std::string_view kVShaped = "placement=v";

constexpr std::array<std::pair<std::string_view, ActionKind>, 8> kLetters = {{
    // Two letters first: "SF" must not be read as an unknown "S".
    {"SF", ActionKind::kSendActivation},
    {"RF", ActionKind::kReceiveActivation},
    {"SB", ActionKind::kSendGradient},
    {"RB", ActionKind::kReceiveGradient},
    {"F", ActionKind::kForward},
    {"B", ActionKind::kBackward},
    {"I", ActionKind::kBackwardInput},
    {"W", ActionKind::kBackwardWeight},
}};

// A quotation of hostile text that keeps a message short and printable.
std::string Quoted(std::string_view text) {
  std::string quoted;
  for (const char letter : text.substr(0, 40)) {
    quoted += letter >= ' ' && letter <= '~' ? letter : '?';
  }
  return "'" + quoted + (text.size() > 40 ? "...'" : "'");
}

class Reader {
 public:
  Reader(const std::string& text, const std::string& origin) : rest_(text), origin_(origin) {
    Require(static_cast<std::int64_t>(text.size()) <= kLargestSchedule,
            "{}: {} bytes are more than a schedule may have ({})", origin, text.size(), kLargestSchedule);
  }

  Schedule Read() {
    Schedule schedule = Header();
    bool has_messages = false;
    for (int stage = 0; stage < schedule.stages; ++stage) {
      schedule.actions.push_back(StageLine(schedule, stage));
      has_messages |= std::any_of(schedule.actions.back().begin(), schedule.actions.back().end(),
                                  [](const Action& action) { return !IsCompute(action.kind); });
    }
    const std::string_view extra = NextLine();
    Expect(extra.empty(), "follows the last stage", extra);
    if (!has_messages) {
      AddMessages(schedule);
    }
    return schedule;
  }

 private:
  void Expect(bool condition, const char* problem, std::string_view text) const {
    if (!condition) {
      Fail("{} line {}: {} {}", origin_, line_, Quoted(text), problem);
    }
  }

  // The next line that holds more than blanks and a comment; empty at the end.
  std::string_view NextLine() {
    while (!rest_.empty()) {
      ++line_;
      const std::size_t end = std::min(rest_.find('\n'), rest_.size());
      std::string_view line = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      line = line.substr(0, line.find('#'));
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
        return line;
      }
    }
    return {};
  }

  // Takes the next word off `line`; empty at its end.
  static std::string_view NextWord(std::string_view& line) {
    const std::size_t first = std::min(line.find_first_not_of(" \t\r"), line.size());
    line.remove_prefix(first);
    const std::size_t length = std::min(line.find_first_of(" \t\r"), line.size());
    const std::string_view word = line.substr(0, length);
    line.remove_prefix(length);
    return word;
  }

  int Number(std::string_view digits, int most, std::string_view word) const {
    int value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    if (error != std::errc() || stop != end || value < 0 || value > most) {
      Fail("{} line {}: {} needs a whole number from 0 to {}", origin_, line_, Quoted(word), most);
    }
    return value;
  }

  int Count(std::string_view& line, std::string_view key, int most) const {
    const std::string_view word = NextWord(line);
    if (!word.starts_with(key) || word.size() <= key.size()) {
      Fail("{} line {}: {}N is expected, not {}", origin_, line_, key, Quoted(word));
    }
    const int value = Number(word.substr(key.size()), most, word);
    Expect(value > 0, "must be at least 1", word);
    return value;
  }

  Schedule Header() {
    std::string_view line = NextLine();
    const std::string_view whole = line;
    const std::string_view magic = NextWord(line);
    const std::string_view version = NextWord(line);
    Expect(std::string(magic) + " " + std::string(version) == kMagic,
           "is no schedule: the first line must begin with 'trireme-schedule 1'", whole);
    Schedule schedule;
    const std::string_view name = NextWord(line);
    Expect(name.starts_with("name=") && name.size() > 5 && name.size() <= 5 + 64,
           "should be name=NAME, 1 to 64 letters", name);
    schedule.name = name.substr(5);
    schedule.stages = Count(line, "stages=", kMaxVirtualStages);
    schedule.chunks = Count(line, "chunks=", kMaxVirtualStages);
    schedule.micro_batches = Count(line, "micro_batches=", kMaxPasses);
    const std::string_view placement = NextWord(line);
    Expect(placement.empty() || placement == kVShaped || placement == kRoundRobin,
           "follows the header's counts; known: placement=v, placement=round_robin", placement);
    schedule.placement_kind = placement == kVShaped ? PlacementKind::kVShaped : PlacementKind::kRoundRobin;
    const std::string_view extra = NextWord(line);
    Expect(extra.empty(), "follows the header", extra);
    const std::int64_t places = static_cast<std::int64_t>(schedule.stages) * schedule.chunks;
    Expect(places <= kMaxVirtualStages && places * schedule.micro_batches <= kMaxPasses,
           "counts more than 65,536 virtual stages or 4,000,000 passes", whole);
    return schedule;
  }

  std::vector<Action> StageLine(const Schedule& schedule, int stage) {
    std::string_view line = NextLine();
    const std::string_view whole = line;
    const std::string expected = fmt::format("{}:", stage);
    Expect(NextWord(line) == "stage" && NextWord(line) == expected,
           fmt::format("should be 'stage {} ...'", expected).c_str(), whole);
    std::vector<Action> actions;
    const std::size_t most =
        std::size_t{7} * static_cast<std::size_t>(schedule.chunks) * static_cast<std::size_t>(schedule.micro_batches);
    for (std::string_view word = NextWord(line); !word.empty(); word = NextWord(line)) {
      Expect(actions.size() < most, "is one action more than this stage can have", word);
      actions.push_back(ParseAction(word, schedule));
    }
    RefuseDoubled(actions, stage);
    return actions;
  }

  void RefuseDoubled(std::vector<Action> actions, int stage) const {
    const auto order = [](const Action& action) { return std::tuple(action.kind, action.chunk, action.micro_batch); };
    std::sort(actions.begin(), actions.end(), [&](const Action& a, const Action& b) { return order(a) < order(b); });
    const auto doubled = std::adjacent_find(actions.begin(), actions.end());
    Require(doubled == actions.end(), "{} line {}: {} stands twice in the list of stage {}", origin_, line_,
            doubled == actions.end() ? "" : ToString(*doubled), stage);
  }

  Action ParseAction(std::string_view word, const Schedule& schedule) const {
    for (const auto& [letters, kind] : kLetters) {
      if (word.starts_with(letters)) {
        const std::string_view numbers = word.substr(letters.size());
        const std::size_t point = numbers.find('.');
        Expect(point != std::string_view::npos, "lacks the point between chunk and micro batch, as in F0.3", word);
        return {.kind = kind,
                .chunk = Number(numbers.substr(0, point), schedule.chunks - 1, word),
                .micro_batch = Number(numbers.substr(point + 1), schedule.micro_batches - 1, word)};
      }
    }
    Fail("{} line {}: {} is no action; known: F B I W SF RF SB RB, as in F0.3", origin_, line_, Quoted(word));
  }

  std::string_view rest_;
  std::string origin_;
  int line_ = 0;
};

}  // namespace

std::string ToText(const Schedule& schedule) {
  std::string text = fmt::format("{} name={} stages={} chunks={} micro_batches={}", kMagic, schedule.name,
                                 schedule.stages, schedule.chunks, schedule.micro_batches);
  if (schedule.placement_kind == PlacementKind::kVShaped) {
    text += fmt::format(" {}", kVShaped);
  }
  text += '\n';
  for (std::size_t stage = 0; stage < schedule.actions.size(); ++stage) {
    text += fmt::format("stage {}:", stage);
    for (const Action& action : schedule.actions[stage]) {
      text += ' ';
      text += ToString(action);
    }
    text += '\n';
  }
  return text;
}

Schedule ParseSchedule(const std::string& text, const std::string& origin) {
  Schedule schedule = Reader(text, origin).Read();
  Validate(schedule);
  return schedule;
}

}  // namespace trireme
