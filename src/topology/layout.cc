#include "topology/layout.h"

#include "base/error.h"

namespace trireme {

std::string ParallelLayout::ToString() const {
  std::string text = fmt::format("tp{} pp{} dp{} zero{} {} mbs{}", tensor, pipeline, data, zero, schedule, micro_batch);
  if (context != 1) {
    text += fmt::format(" cp{}", context);
    text += context_kind == ContextKind::kAllGather ? "" : ":" + Name(context_kind);
    text += context_stripes > 1 ? fmt::format(" stripes{}", context_stripes) : "";
    text += ulysses > 0 ? fmt::format(" ulysses{}", ulysses) : "";
  }
  text += expert != 1 ? fmt::format(" ep{}", expert) : "";
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
  text += reduce != WireFormat::kExact ? " reduce=" + Name(reduce) : "";
  text += gather != WireFormat::kExact ? " gather=" + Name(gather) : "";
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
