#include "train/state_checks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "train/floats_on_host.h"
#include "train/gather_numbers.h"

namespace trireme {

std::vector<int> ZeroShard::NonFiniteRows() {
  std::vector<int> rows;
  for (std::size_t i = 0; i < plan_.buckets.size(); ++i) {
    if (plan_.buckets[i].frozen) {
      continue;
    }
    const std::vector<float> values = FloatsOnHost(device_, buckets_[i].gradient);
    // Where in the bucket the gradient memory begins, and which part of it is reduced.
    const OwnedRange owned = Owned(plan_.buckets[i]);
    const std::int64_t start = ShardsOf(i).gradients ? owned.first : 0;
    for (const BucketEntry& entry : plan_.buckets[i].entries) {
      const std::int64_t first = std::max(entry.offset, owned.first) - start;
      const std::int64_t last = std::min(entry.offset + entry.count, owned.last) - start;
      if (first < last && !std::all_of(values.begin() + first, values.begin() + last,
                                       [](float value) { return std::isfinite(value); })) {
        rows.push_back(entry.row);
      }
    }
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

Digest ZeroShard::DigestOfCopies() {
  Hasher hasher;
  std::vector<std::byte> bytes;
  const auto add = [&](const Tensor& tensor) {
    bytes.resize(static_cast<std::size_t>(tensor.bytes()));
    device_.CopyToHost(bytes.data(), tensor.data, tensor.bytes());
    hasher.Add(bytes);
  };
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (!ShardsOf(i).parameters) {
      add(buckets_[i].weights);
    }
  }
  // Without ZeRO masters and moments have copies too.
  for (std::size_t i = 0; !ZeroShards(options_.zero).optimizer && i < buckets_.size(); ++i) {
    if (optimizer_->low(i).given()) {
      add(optimizer_->low(i));
    }
    for (const Tensor& moments : {optimizer_->first_moment(i), optimizer_->second_moment(i)}) {
      if (moments.given()) {
        add(moments);
      }
    }
  }
  return hasher.digest();
}

LiveTensors ZeroShard::Live() {
  for (const BucketState& bucket : buckets_) {
    device_.StreamWait(bucket.done);
  }
  ++version_;
  LiveTensors live{.weights = buckets_.front().weights,
                   .gradient = !counted_.empty()  ? counted_.front()
                               : !copied_.empty() ? copied_.front()
                                                  : Tensor{}};
  for (const OwnedState& state : StateViews()) {
    if (state.kind == StateKind::kMaster || state.values.count() == 0) {
      continue;
    }
    // Optimizers without second moments have others.
    live.moment = live.moment.given() ? live.moment : state.values;
    if (state.kind == StateKind::kSecondMoment) {
      live.moment = state.values;
      break;
    }
  }
  return live;
}

std::int64_t CountZeros(RankParts& parts) {
  // Padding between parameters is 0 too: what is not 0 is a parameter's.
  std::int64_t others = 0;
  for (const Tensor& range : parts.zero().counted_gradients()) {
    const std::vector<float> values = FloatsOnHost(parts.device(), range);
    others += std::count_if(values.begin(), values.end(), [](float value) { return value != 0; });
  }
  std::int64_t zeros = TrainedCount(parts.config().model);
  for (const auto& numbers : GatherNumbers(parts.world(), parts.device(), {others})) {
    zeros -= numbers.front();
  }
  return zeros;
}

namespace {

bool LossIsFinite(RankParts& parts) {
  if (!parts.description().HoldsHead()) {
    return true;
  }
  const std::vector<float> sums = FloatsOnHost(parts.device(), parts.loader().loss_sums());
  return std::all_of(sums.begin(), sums.end(), [](float sum) { return std::isfinite(sum); });
}

}  // namespace

std::string NameNonFinite(RankParts& parts) {
  const std::vector<int> rows = parts.zero().NonFiniteRows();
  const auto answers = GatherNumbers(
      parts.world(), parts.device(),
      {rows.empty() ? -1 : rows.back(), static_cast<std::int64_t>(rows.size()), LossIsFinite(parts) ? 0 : 1});
  int rank = -1;
  std::string losses;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    // Backward goes from the last row to the first.
    if (answers[i][0] >= 0 && (rank < 0 || answers[i][0] > answers[static_cast<std::size_t>(rank)][0])) {
      rank = static_cast<int>(i);
    }
    losses += answers[i][2] != 0 ? fmt::format("{}{}", losses.empty() ? "" : ", ", i) : "";
  }
  std::string text = losses.empty() ? "" : "loss not finite on rank " + losses;
  if (rank >= 0) {
    const auto& answer = answers[static_cast<std::size_t>(rank)];
    text += fmt::format("{}rank {}: gradient of '{}' is not finite ({} parameters of this rank in all)",
                        text.empty() ? "" : "; ", rank, parts.table().rows()[static_cast<std::size_t>(answer[0])].name,
                        answer[1]);
  }
  return text.empty() ? "each gradient is finite, but their norm is not" : text;
}

void CompareReplicas(RankParts& parts, std::int64_t step) {
  Communicator& group = parts.comms().data();
  const std::vector<Bucket>& buckets = parts.description().shards.buckets;
  const bool copies = std::any_of(buckets.begin(), buckets.end(), [&](const Bucket& bucket) {
    return !ShardsOf(bucket, parts.config().layout.zero).parameters;
  });
  if (group.size() == 1 || !copies) {
    return;
  }
  const Digest mine = parts.zero().DigestOfCopies();
  const auto digests =
      GatherNumbers(group, parts.device(), {static_cast<std::int64_t>(mine.high), static_cast<std::int64_t>(mine.low)});
  std::map<std::vector<std::int64_t>, int> votes;
  for (const auto& digest : digests) {
    ++votes[digest];
  }
  if (votes.size() == 1) {
    return;
  }
  const auto most =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool majority = 2 * most->second > group.size();
  const std::vector<int> ranks = ProcessGrid(parts.config().layout).Replicas(parts.world().rank());
  std::string odd;
  for (std::size_t i = 0; i < digests.size(); ++i) {
    if (!majority || digests[i] != most->first) {
      odd += fmt::format("{}{}", odd.empty() ? "" : ", ", ranks[i]);
    }
  }
  Fail("step {}: silent corruption: weights that data ranks must hold alike differ {} {}", step,
       majority ? "on rank" : "among ranks", odd);
}

}  // namespace trireme
