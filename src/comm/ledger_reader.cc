#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/durable_file.h"
#include "base/error.h"
#include "comm/ledger.h"
#include "comm/ledger_file.h"

namespace trireme {
namespace {

constexpr std::int32_t kMostRanks = 1 << 17;
constexpr std::int64_t kMostStreams = 1 << 10;
// Above every time and count that a run has (2^61 ns are 73 years), and small enough that sums of a few cannot
// overflow.
constexpr std::int64_t kLargest = std::int64_t{1} << 61;

std::int64_t Bounded(std::int64_t value) { return std::clamp<std::int64_t>(value, -1, kLargest); }

// Text up to its first zero, control characters replaced: it may have been torn, or not be ours.
template <std::size_t kSize>
std::string Text(const std::array<char, kSize>& from) {
  std::string text(from.begin(), std::find(from.begin(), from.end(), '\0'));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return text;
}

// The first `most` bytes of a regular file, or what there is of them.
std::vector<std::byte> ReadHead(const std::string& path, std::size_t most) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  Require(file >= 0, "cannot open '{}': {}", path, std::generic_category().message(errno));
  std::vector<std::byte> bytes(most);
  std::size_t have = 0;
  while (have < most) {
    const ssize_t more = pread(file, bytes.data() + have, most - have, static_cast<off_t>(have));
    if (more <= 0) {
      break;
    }
    have += static_cast<std::size_t>(more);
  }
  close(file);
  bytes.resize(have);
  return bytes;
}

}  // namespace

class LedgerReader {
 public:
  LedgerReader(const std::string& path, LedgerPart part) {
    const std::size_t records = part == LedgerPart::kHead ? 0 : kLedgerRecords;
    // A phase may be changing under the reader's eyes; it takes nanoseconds, so that a second look is enough.
    for (int attempt = 0; attempt < 3 && (attempt == 0 || header_.stamp % 2 == 1); ++attempt) {
      bytes_ = ReadHead(path, sizeof(LedgerFileHeader) + records * sizeof(LedgerFileRecord));
      Require(bytes_.size() >= sizeof(LedgerFileHeader), "'{}' is no ledger: it has {} bytes, a ledger at least {}",
              path, bytes_.size(), sizeof(LedgerFileHeader));
      std::memcpy(&header_, bytes_.data(), sizeof header_);
    }
    CheckHeader(path);
    FillHead();
    if (part != LedgerPart::kHead) {
      FillCalls(part == LedgerPart::kRecent ? kRecentCalls : kLedgerRecords);
    }
  }

  RankRecord Take() { return std::move(result_); }

 private:
  void CheckHeader(const std::string& path) const {
    Require(header_.magic == kLedgerMagic, "'{}' is no ledger: it does not begin with TRLEDGER", path);
    Require(header_.version == kLedgerVersion && header_.header_bytes == sizeof(LedgerFileHeader) &&
                header_.record_bytes == sizeof(LedgerFileRecord) && header_.capacity == kLedgerRecords,
            "'{}' is a ledger of version {} with {} records of {} bytes; this program reads version {}", path,
            header_.version, header_.capacity, header_.record_bytes, kLedgerVersion);
    std::int64_t ranks = 1;
    for (const std::int32_t degree : {header_.tensor, header_.context, header_.pipeline, header_.data}) {
      Require(degree >= 1 && degree <= kMostRanks, "'{}' is damaged: a layout with a degree of {}", path, degree);
      ranks = std::min<std::int64_t>(ranks * degree, std::int64_t{kMostRanks} + 1);
    }
    Require(ranks <= kMostRanks && header_.rank >= 0 && header_.rank < ranks,
            "'{}' is damaged: rank {} of a layout of {} ranks", path, header_.rank, ranks);
  }

  void FillHead() {
    result_.rank = header_.rank;
    result_.layout.tensor = header_.tensor;
    result_.layout.context = header_.context;
    result_.layout.pipeline = header_.pipeline;
    result_.layout.data = header_.data;
    result_.pid = header_.pid;
    result_.thread = header_.thread;
    result_.process_start = header_.process_start;
    result_.host = Text(header_.host);
    result_.created_ns = Bounded(header_.created_ns);
    result_.beats = header_.beats;
    result_.steady = header_.steady == 1;
    result_.heartbeat_ns = Bounded(header_.heartbeat_ns);
    result_.step = Bounded(header_.step);
    result_.first_step = Bounded(header_.first_step);
    result_.phase = Text(header_.phase);
    result_.phase_ns = Bounded(header_.phase_ns);
    result_.end = header_.end <= static_cast<std::uint32_t>(LedgerEnd::kFailed) ? static_cast<LedgerEnd>(header_.end)
                                                                                : LedgerEnd::kRunning;
    result_.end_ns = Bounded(header_.end_ns);
    result_.message = Text(header_.message);
    for (const LedgerFileHeader::Group& group : header_.groups) {
      if (group.name[0] != 0) {
        result_.groups.push_back({Text(group.name), Bounded(group.started), Bounded(group.ended)});
      }
    }
  }

  void FillCalls(std::size_t most) {
    const std::size_t whole = (bytes_.size() - sizeof(LedgerFileHeader)) / sizeof(LedgerFileRecord);
    std::vector<LedgerFileRecord> numbered;
    for (std::size_t i = 0; i < whole; ++i) {
      LedgerFileRecord record;
      std::memcpy(&record, bytes_.data() + sizeof(LedgerFileHeader) + i * sizeof record, sizeof record);
      if (record.number == 0 && record.started_ns == 0) {
        continue;
      }
      const bool sound = record.number > 0 && (record.number - 1) % kLedgerRecords == i &&
                         record.check == record.Check(record.number) && record.kind < kCollectiveKinds &&
                         record.dtype <= static_cast<std::uint8_t>(DType::kUInt8) &&
                         record.op <= static_cast<std::uint8_t>(ReduceOp::kMax) && record.group < result_.groups.size();
      if (!sound) {
        ++result_.torn;
        continue;
      }
      numbered.push_back(record);
    }
    std::sort(numbered.begin(), numbered.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
    for (std::size_t i = numbered.size() - std::min(most, numbered.size()); i < numbered.size(); ++i) {
      result_.calls.push_back(Convert(numbered[i]));
    }
  }

  LedgerCall Convert(const LedgerFileRecord& record) const {
    return {.group = result_.groups[record.group].name,
            .sequence = Bounded(record.sequence),
            .call = {.kind = static_cast<CollectiveKind>(record.kind),
                     .dtype = static_cast<DType>(record.dtype),
                     .op = static_cast<ReduceOp>(record.op),
                     .count = Bounded(record.count),
                     .peer = record.peer,
                     .tag = record.tag},
            .step = Bounded(record.step),
            .phase = Text(record.phase),
            .started_ns = Bounded(record.started_ns),
            .ended_ns = Bounded(record.ended_ns),
            .enqueued_ns = Bounded(record.enqueued_ns),
            .running_ns = Bounded(record.running_ns),
            .stream = static_cast<int>(std::clamp<std::int64_t>(record.stream, 0, kMostStreams))};
  }

  std::vector<std::byte> bytes_;
  LedgerFileHeader header_{};
  RankRecord result_;
};

const LedgerCall* RankRecord::InCall() const {
  if (calls.empty()) {
    return nullptr;
  }
  if (calls.back().ended_ns == 0 && calls.back().enqueued_ns == 0) {
    return &calls.back();
  }
  const auto open = std::find_if(calls.begin(), calls.end(),
                                 [](const LedgerCall& call) { return call.enqueued_ns != 0 && call.ended_ns == 0; });
  return open == calls.end() ? nullptr : &*open;
}

RankRecord ReadLedger(const std::string& path, LedgerPart part) { return LedgerReader(path, part).Take(); }

std::vector<std::string> ListLedgers(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".ledger")) {
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace trireme
