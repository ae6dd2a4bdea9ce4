// Views of what a rank owns, for checkpoints, histograms and checks.
#include <algorithm>
#include <optional>
#include <utility>

#include "train/zero_shard.h"

namespace trireme {

std::vector<OwnedState> ZeroShard::JoinState() {
  optimizer_->JoinMasters();
  masters_joined_ = true;
  return StateViews();
}

std::vector<OwnedState> ZeroShard::StateViews(bool gradients) const {
  std::vector<OwnedState> all;
  const Coordinate& here = comms_.coordinate();
  const auto saves = [&](const Bucket& bucket, const Parameter& parameter) {
    return (!parameter.split.replicated() || here.tensor == 0) && (!bucket.tied || plan_.counts_tied);
  };
  for (std::size_t i = 0; i < plan_.buckets.size(); ++i) {
    const Bucket& bucket = plan_.buckets[i];
    std::vector<UpdatedRange> ranges = optimizer_->shards()[i].ranges;
    const OwnedRange owned = Owned(bucket);
    for (const BucketEntry& entry : bucket.entries) {
      if (const std::optional<UpdatedRange> part = OwnedPart(entry, owned); bucket.frozen && part) {
        ranges.push_back(*part);
      }
    }
    for (const UpdatedRange& range : ranges) {
      const Parameter& parameter = table_.rows()[static_cast<std::size_t>(range.row)];
      OwnedState state;
      state.row = range.row;
      state.saved = (ZeroShards(options_.zero).optimizer ? comms_.copy_index() == 0 : comms_.replica() == 0) &&
                    saves(bucket, parameter);
      for (SliceRun run : SliceRuns(parameter, comms_.tensor().size(), here.tensor)) {
        // From the slice's own numbering to that of the owned values.
        const std::int64_t begin = std::max(run.local, range.slice_first);
        const std::int64_t end = std::min(run.local + run.count, range.slice_first + range.count);
        if (begin < end) {
          state.runs.push_back(
              {.local = begin - range.slice_first, .global = run.global + begin - run.local, .count = end - begin});
        }
      }
      const auto add = [&](StateKind kind, const Tensor& values) {
        if (values.given()) {
          state.kind = kind;
          state.values = values;
          all.push_back(state);
        }
      };
      if (gradients) {
        if (!bucket.frozen) {
          add(StateKind::kMaster, optimizer_->shards()[i].gradient.Range(range.first, range.count));
        }
        continue;
      }
      if (bucket.frozen) {
        const std::int64_t start = ShardsOf(i).parameters ? 0 : owned.first;
        add(StateKind::kMaster, buckets_[i].weights.Range(start + range.first, range.count));
        continue;
      }
      add(StateKind::kMaster, optimizer_->master(i).Range(range.first, range.count));
      add(StateKind::kFirstMoment, optimizer_->FirstMoment(i, range));
      add(StateKind::kSecondMoment, optimizer_->SecondMoment(i, range));
    }
  }
  if (gradients) {
    return all;
  }
  for (const FactoredMoments& moments : optimizer_->factored()) {
    const Parameter& parameter = table_.rows()[static_cast<std::size_t>(moments.row)];
    const auto [bucket, entry] = Locate(moments.row);
    for (const auto& [kind, values] :
         {std::pair{StateKind::kRowMoment, moments.rows}, std::pair{StateKind::kColumnMoment, moments.columns}}) {
      // Every rank that holds a part holds all of them; one of these saves.
      all.push_back({.row = moments.row,
                     .kind = kind,
                     .values = values,
                     .shape = values.shape,
                     .runs = {{.local = 0, .global = 0, .count = values.count()}},
                     .saved = comms_.replica() == 0 && here.tensor == 0 &&
                              saves(plan_.buckets[static_cast<std::size_t>(bucket)], parameter)});
    }
  }
  return all;
}

}  // namespace trireme
