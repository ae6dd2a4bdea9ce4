// Attention over the keys of one context rank after another: each passes keys and values on to the next rank, and
// merges what attention over them gives. No rank ever has the keys of more than two. On a device with streams the
// messages travel in a stream of their own while attention over the block before them runs.
#pragma once

#include <functional>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "lowering/ring_plan.h"

namespace trireme {

struct RingAttention {
  Ops& ops;
  Communicator& group;
  const LocalSizes& sizes;
  char* scratch = nullptr;   // of RingPlan::bytes
  Device* device = nullptr;  // without it messages take turns with attention

  // `args` are those of this rank's queries, without keys; keys and values lie in args.qkv.
  void Forward(const AttentionArgs& args) const;
  void Backward(const AttentionArgs& args) const;

 private:
  Tensor At(const Place& place) const { return {scratch + place.offset, place.dtype, place.shape}; }
  int next() const { return (group.rank() + 1) % group.size(); }
  int previous() const { return (group.rank() + group.size() - 1) % group.size(); }
  bool overlaps() const { return device != nullptr && !device->is_host(); }
  // Calls `attend`, which works on the block at hand, and `send`, then `receive`. A host sends first and works while
  // the message is with the next rank. A device is given its work first, for a sender may wait until it has come to
  // the message; both overlap with it, and what `attend` starts later waits for the message.
  void Step(const std::function<void()>& send, const std::function<void()>& attend,
            const std::function<void()>& receive) const;
  // Where the keys of the rank stand that is `distance` before this one.
  std::vector<KeyChunk> ChunksFrom(int distance) const;
  // Whether any query here may see them.
  bool Sees(const std::vector<KeyChunk>& chunks) const;
};

// Between the columns of packed rows that hold keys and values, and rows of these alone.
BlockCopy CopyOfKeys(const LocalSizes& sizes, const Tensor& qkv, const Tensor& kv);
BlockCopy CopyToKeys(const LocalSizes& sizes, const Tensor& kv, const Tensor& qkv);

}  // namespace trireme
