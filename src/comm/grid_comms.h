// The groups that a rank of a grid belongs to, by axis. Axes of degree 1 are groups of one: no caller asks about sizes.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "topology/layout.h"

namespace trireme {

class GridComms {
 public:
  // Collective over `world`, which must have layout.ranks() members and outlive this. head_stage: the pipeline stage
  // that holds the head. head_ranks: context ranks of a group that Ulysses divides heads among.
  GridComms(Communicator& world, const ParallelLayout& layout, int head_stage, int head_ranks = 1);

  Communicator& world() { return world_; }
  Communicator& tensor() { return *tensor_; }
  // The ranks among which the tokens of every sequence are divided.
  Communicator& context() { return *context_; }
  // Context ranks: head_ranks that follow each other, and those at the same place of every such group; all where there
  // is one kind alone.
  Communicator& context_heads() { return context_heads_ == nullptr ? *context_ : *context_heads_; }
  Communicator& context_ring() { return context_ring_ == nullptr ? *context_ : *context_ring_; }
  bool has_context_groups() const { return context_heads_ != nullptr; }
  // The replicas, which hold the same weights and add up their gradients: data x context ranks.
  Communicator& data() { return *data_; }
  int replica() const { return replica_; }
  // Hybrid sharding: the replicas that ZeRO shards over, and those that hold the same shard. Without it all replicas,
  // and a group of one.
  Communicator& shards() { return shards_ == nullptr ? *data_ : *shards_; }
  Communicator& copies() { return *copies_; }
  bool has_copies() const { return copies_->size() > 1; }
  // This rank's place in shards() and in copies().
  int shard_rank() const { return replica_ % shard_ranks_; }
  int copy_index() const { return replica_ / shard_ranks_; }
  Communicator& pipeline() { return *pipeline_; }
  // The stages of embedding and head in this rank's pipeline, which both hold a tied token table. Ranks of other stages
  // are in groups of one.
  Communicator& tied() { return *tied_; }
  const Coordinate& coordinate() const { return coordinate_; }

  // Communicator::Verify of every group. Collective over the world.
  void Verify();
  // Throws when the world was aborted.
  void CheckAborted() const { world_.CheckAborted(); }
  // Communicator::set_through_host of every group.
  void set_through_host(bool on);
  // Device memory that all groups of this rank take for themselves.
  std::int64_t device_bytes() const;

 private:
  Communicator& world_;
  Coordinate coordinate_;
  std::unique_ptr<Communicator> tensor_;
  std::unique_ptr<Communicator> context_;
  std::unique_ptr<Communicator> context_heads_;  // where they are not all of context_
  std::unique_ptr<Communicator> context_ring_;
  std::unique_ptr<Communicator> data_;
  int replica_ = 0;
  int shard_ranks_ = 1;
  std::unique_ptr<Communicator> shards_;  // where they are not all replicas
  std::unique_ptr<Communicator> copies_;
  std::unique_ptr<Communicator> pipeline_;
  std::unique_ptr<Communicator> tied_;
};

}  // namespace trireme
