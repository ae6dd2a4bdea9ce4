#include "comm/grid_comms.h"

#include <string>
#include <vector>

#include "base/error.h"

namespace trireme {

GridComms::GridComms(Communicator& world, const ParallelLayout& layout, int head_stage, int head_ranks)
    : world_(world) {
  Require(world.size() == layout.ranks(), "the layout {} takes {} ranks, but {} were started", layout.ToString(),
          layout.ranks(), world.size());
  const ProcessGrid grid(layout);
  coordinate_ = grid.CoordinateOf(world.rank());
  // Ranks with the same other coordinates share a group: the group's color is its first member.
  const auto color = [&](Axis axis) { return grid.RanksAlong(axis, world.rank()).front(); };
  tensor_ = world.Split("tensor", color(Axis::kTensor), coordinate_.tensor);
  context_ = world.Split("context", color(Axis::kContext), coordinate_.context);
  if (head_ranks > 1 && head_ranks < layout.context) {
    const int group = coordinate_.context / head_ranks;
    const int place = coordinate_.context % head_ranks;
    // The name says how many ranks share heads: a reader of hangs finds the members by it.
    context_heads_ = context_->Split("context_heads" + std::to_string(head_ranks), group, place);
    context_ring_ = context_->Split("context_ring" + std::to_string(head_ranks), place, group);
  }
  const std::vector<int> replicas = grid.Replicas(world.rank());
  replica_ = grid.ReplicaOf(coordinate_);
  data_ = world.Split("data", replicas.front(), replica_);
  shard_ranks_ = layout.shards();
  const auto first = [&](int replica) { return replicas[static_cast<std::size_t>(replica)]; };
  if (layout.copies() > 1) {
    shards_ = world.Split("shards", first(copy_index() * shard_ranks_), shard_rank());
    copies_ = world.Split("copies", first(shard_rank()), copy_index());
  } else {
    copies_ = world.Split("copies", world.rank(), 0);
  }
  pipeline_ = world.Split("pipeline", color(Axis::kPipeline), coordinate_.pipeline);
  const bool has_table = coordinate_.pipeline == 0 || coordinate_.pipeline == head_stage;
  tied_ = world.Split("tied", has_table ? color(Axis::kPipeline) : layout.ranks() + world.rank(), coordinate_.pipeline);
}

void GridComms::Verify() {
  for (Communicator* group :
       {tensor_.get(), context_.get(), context_heads_.get(), context_ring_.get(), data_.get(), tied_.get(), &world_}) {
    if (group != nullptr) {
      group->Verify();
    }
  }
}

void GridComms::set_through_host(bool on) {
  for (Communicator* group : {tensor_.get(), context_.get(), context_heads_.get(), context_ring_.get(), data_.get(),
                              shards_.get(), copies_.get(), pipeline_.get(), tied_.get(), &world_}) {
    if (group != nullptr) {
      group->set_through_host(on);
    }
  }
}

std::int64_t GridComms::device_bytes() const {
  const std::int64_t within = has_context_groups() ? context_heads_->device_bytes() + context_ring_->device_bytes() : 0;
  return within + tensor_->device_bytes() + context_->device_bytes() + data_->device_bytes() +
         pipeline_->device_bytes() + tied_->device_bytes() + world_.device_bytes();
}

}  // namespace trireme
