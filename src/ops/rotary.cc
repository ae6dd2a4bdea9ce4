#include "ops/rotary.h"

#include "base/error.h"
#include "ops/checks.h"

namespace trireme {

void Check(const Rotary<Tensor>& op) {
  RequireMatrix({"Rotary", "qkv", op.qkv});
  RequireWorkingType({"Rotary", "qkv", op.qkv});
  Require(op.head_size % 2 == 0, "Rotary: the head size {} is odd", op.head_size);
  Require(2 * op.pairs() <= op.head_size, "Rotary: {} pairs of a head of {}", op.pairs(), op.head_size);
  Require(op.sequence > 0, "Rotary: a sequence of {} tokens", op.sequence);
  RequireShape({"Rotary", "qkv", op.qkv}, {op.qkv.shape[0], (op.heads + 2 * op.kv_heads) * op.head_size});
  if (op.positions.given()) {
    RequireVector({"Rotary", "positions", op.positions}, op.qkv.shape[0], DType::kInt32);
  }
}

}  // namespace trireme
