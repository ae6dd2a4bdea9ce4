// The part of a module in which activations are cut over the tensor group, and its two borders. The backward of Enter
// is Leave and the other way round: Megatron's conjugate pairs, plain and sequence-parallel, are this one file.
//
//                 plain                          sequence-parallel
//   Enter         the tensor itself              all-gather of the members' tokens
//   Leave         all-reduce in place            reduce-scatter to this member's tokens
#pragma once

#include "comm/communicator.h"
#include "lowering/local_sizes.h"
#include "ops/tensor.h"

namespace trireme {

class TensorRegion {
 public:
  TensorRegion(Communicator& group, const LocalSizes& sizes) : group_(group), sizes_(sizes) {}

  // outside [n, C] -> inside [N, C]. `buffer` [N, C] is used under sequence parallelism only; `outside` may be this
  // member's rows of it. The result is `outside` itself or `buffer`.
  Tensor Enter(const Tensor& outside, const Tensor& buffer) {
    if (!sizes_.sequence_parallel) {
      return outside;
    }
    group_.AllGather(outside, buffer);
    return buffer;
  }
  // partial sums [N, C] -> their sum over the group, [n, C]: in place, or in `buffer` under sequence parallelism.
  Tensor Leave(const Tensor& partial, const Tensor& buffer) {
    if (!sizes_.sequence_parallel) {
      group_.AllReduce(partial);
      return partial;
    }
    group_.ReduceScatter(partial, buffer);
    return buffer;
  }
  // This member's rows of a tensor of all N tokens.
  Tensor OwnRows(const Tensor& inside) const {
    return sizes_.sequence_parallel ? inside.Rows(first_token(), sizes_.outside) : inside;
  }
  // The first of the tokens that this member holds outside the region.
  std::int64_t first_token() const { return sizes_.sequence_parallel ? group_.rank() * sizes_.outside : 0; }

  Communicator& group() { return group_; }

 private:
  Communicator& group_;
  LocalSizes sizes_;
};

}  // namespace trireme
