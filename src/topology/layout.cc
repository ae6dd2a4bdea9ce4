#include "topology/layout.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::array<std::pair<Recompute, std::string_view>, 4> kRecomputeNames = {{
    {Recompute::kNone, "none"},
    {Recompute::kLight, "light"},
    {Recompute::kSelective, "selective"},
    {Recompute::kFull, "full"},
}};
constexpr std::array<std::pair<Offload, std::string_view>, 3> kOffloadNames = {{
    {Offload::kNone, "none"},
    {Offload::kOptimizer, "optimizer"},
    {Offload::kFull, "full"},
}};

constexpr std::array<std::pair<ContextKind, std::string_view>, 4> kContextNames = {{
    {ContextKind::kAllGather, "allgather"},
    {ContextKind::kUlysses, "ulysses"},
    {ContextKind::kRing, "ring"},
    {ContextKind::kUlyssesRing, "ulysses+ring"},
}};

constexpr std::array<std::pair<SentAs, std::string_view>, 3> kSentNames = {{
    {SentAs::kExact, "exact"},
    {SentAs::kBFloat16, "bf16"},
    {SentAs::kInt8, "int8"},
}};

template <typename Value, std::size_t kCount>
std::string NameOf(Value value, const std::array<std::pair<Value, std::string_view>, kCount>& names) {
  for (const auto& [known, name] : names) {
    if (known == value) {
      return std::string(name);
    }
  }
  return "?";
}

template <typename Value, std::size_t kCount>
Value ParseName(const char* what, const std::string& given,
                const std::array<std::pair<Value, std::string_view>, kCount>& names) {
  std::string known_names;
  std::vector<std::string> candidates;
  for (const auto& [known, name] : names) {
    if (given == name) {
      return known;
    }
    known_names += (known_names.empty() ? "" : ", ") + std::string(name);
    candidates.emplace_back(name);
  }
  Fail("{} '{}' is unknown{}; known: {}", what, given, NearestMatch(given, candidates), known_names);
}

}  // namespace

std::string Name(Recompute recompute) { return NameOf(recompute, kRecomputeNames); }
std::string Name(Offload offload) { return NameOf(offload, kOffloadNames); }
std::string Name(ContextKind kind) { return NameOf(kind, kContextNames); }
std::string Name(SentAs sent) { return NameOf(sent, kSentNames); }
Recompute ParseRecompute(const std::string& name) { return ParseName("recompute", name, kRecomputeNames); }
Offload ParseOffload(const std::string& name) { return ParseName("offload", name, kOffloadNames); }
ContextKind ParseContextKind(const std::string& name) { return ParseName("context kind", name, kContextNames); }
SentAs ParseSentAs(const std::string& name) { return ParseName("numbers sent", name, kSentNames); }

std::string ParallelLayout::ToString() const {
  std::string text = fmt::format("tp{} pp{} dp{} zero{} {} mbs{}", tensor, pipeline, data, zero, schedule, micro_batch);
  if (context != 1) {
    text += fmt::format(" cp{}", context);
    text += context_kind == ContextKind::kAllGather ? "" : ":" + Name(context_kind);
    text += context_stripes > 1 ? fmt::format(" stripes{}", context_stripes) : "";
    text += ulysses > 0 ? fmt::format(" ulysses{}", ulysses) : "";
  }
  if (chunks != 1) {
    text += fmt::format(" chunks{}", chunks);
  }
  if (partition != "uniform") {
    text += " partition=" + partition;
  }
  if (sequence_parallel) {
    text += " sp";
  }
  if (recompute != Recompute::kNone) {
    text += " recompute=" + Name(recompute);
    if (recompute_layers != 0) {
      text += fmt::format(":{}", recompute_layers);
    }
  }
  if (offload != Offload::kNone) {
    text += " offload=" + Name(offload);
  }
  if (shard_ranks != 0) {
    text += fmt::format(" shards={}", shard_ranks);
  }
  if (whole_below != 0) {
    text += fmt::format(" whole={}", whole_below);
  }
  text += reduce != SentAs::kExact ? " reduce=" + Name(reduce) : "";
  text += gather != SentAs::kExact ? " gather=" + Name(gather) : "";
  text += offload_activations ? " offload_activations" : "";
  return text;
}

std::string NearestDivisors(std::int64_t value, std::int64_t wanted) {
  std::int64_t below = 1;
  std::int64_t above = value > 0 ? value : 1;
  const auto consider = [&](std::int64_t divisor) {
    if (divisor <= wanted && divisor > below) {
      below = divisor;
    }
    if (divisor >= wanted && divisor < above) {
      above = divisor;
    }
  };
  for (std::int64_t divisor = 1; divisor <= value / divisor; ++divisor) {
    if (value % divisor == 0) {
      consider(divisor);
      consider(value / divisor);
    }
  }
  if (wanted <= below) {
    return fmt::format("{}", below);
  }
  if (wanted >= above) {
    return fmt::format("{}", above);
  }
  return fmt::format("{} or {}", below, above);
}

}  // namespace trireme
