#include "ops/experts.h"

#include "base/error.h"
#include "ops/checks.h"

namespace trireme {
namespace {

// The number of experts that each token chooses.
std::int64_t CheckChoice(const char* operation, const char* name, const Tensor& choice, std::int64_t tokens,
                         DType dtype) {
  RequireMatrix({operation, name, choice});
  RequireLike({operation, name, choice}, {tokens, choice.shape[1]}, dtype);
  Require(choice.shape[1] > 0, "{}: no expert is chosen", operation);
  return choice.shape[1];
}

std::int64_t CheckLogits(const char* operation, const Tensor& logits) {
  RequireMatrix({operation, "logits", logits});
  RequireType({operation, "logits", logits}, DType::kFloat32);
  return logits.shape[1];
}

void CheckOffsets(const char* operation, const Tensor& offsets) {
  RequireType({operation, "offsets", offsets}, DType::kInt32);
  Require(offsets.count() > 1, "{}: offsets of no expert", operation);
}

// Rows of a tensor of rows, given those of tokens and the order.
void CheckOrder(const char* operation, const Tensor& order, std::int64_t tokens, const Tensor& rows) {
  RequireMatrix({operation, "rows", rows});
  RequireVector({operation, "order", order}, rows.shape[0], DType::kInt32);
  Require(tokens > 0 && rows.shape[0] % tokens == 0, "{}: {} rows are not a whole number for each of {} tokens",
          operation, rows.shape[0], tokens);
}

}  // namespace

void Check(const Route<Tensor>& op) {
  const std::int64_t experts = CheckLogits("Route", op.logits);
  const Tensor& choice = op.kept.given() ? op.kept : op.chosen;
  const std::int64_t chosen = CheckChoice("Route", "chosen", choice, op.logits.shape[0], DType::kInt32);
  Require(chosen <= experts, "Route: {} of {} experts are chosen", chosen, experts);
  RequireLike({"Route", "weights", op.weights}, choice.shape, DType::kFloat32);
  if (op.bias.given()) {
    RequireVector({"Route", "bias", op.bias}, experts, DType::kFloat32);
  }
}

void Check(const RouteBackward<Tensor>& op) {
  constexpr auto kName = "RouteBackward";
  const std::int64_t experts = CheckLogits(kName, op.logits);
  const std::int64_t tokens = op.logits.shape[0];
  CheckChoice(kName, "chosen", op.chosen, tokens, DType::kInt32);
  RequireLike({kName, "grad_weights", op.grad_weights}, op.chosen.shape, DType::kFloat32);
  RequireShape({kName, "grad_logits", op.grad_logits}, op.logits.shape);
  RequireWorkingType({kName, "grad_logits", op.grad_logits});
  if (op.balance != 0 || op.z != 0) {
    RequireVector({kName, "token_weights", op.token_weights}, tokens, DType::kFloat32);
  }
  if (op.balance != 0) {
    RequireMatrix({kName, "counts", op.counts});
    RequireLike({kName, "counts", op.counts}, {op.counts.shape[0], experts + 1}, DType::kFloat32);
    Require(op.counts.shape[0] > 0 && tokens % op.counts.shape[0] == 0, "{}: {} tokens of {} sequences", kName, tokens,
            op.counts.shape[0]);
  }
}

void Check(const CountChosen<Tensor>& op) {
  constexpr auto kName = "CountChosen";
  RequireMatrix({kName, "chosen", op.chosen});
  const std::int64_t tokens = op.chosen.shape[0];
  CheckChoice(kName, "chosen", op.chosen, tokens, DType::kInt32);
  RequireVector({kName, "token_weights", op.token_weights}, tokens, DType::kFloat32);
  RequireMatrix({kName, "counts", op.counts});
  RequireType({kName, "counts", op.counts}, DType::kFloat32);
  Require(op.counts.shape[0] > 0 && tokens % op.counts.shape[0] == 0, "{}: {} tokens of {} sequences", kName, tokens,
          op.counts.shape[0]);
}

void Check(const OrderRows<Tensor>& op) {
  RequireMatrix({"OrderRows", "chosen", op.chosen});
  CheckChoice("OrderRows", "chosen", op.chosen, op.chosen.shape[0], DType::kInt32);
  RequireVector({"OrderRows", "order", op.order}, op.chosen.shape.count(), DType::kInt32);
  RequireLike({"OrderRows", "positions", op.positions}, op.chosen.shape, DType::kInt32);
  CheckOffsets("OrderRows", op.offsets);
}

void Check(const AddLoad<Tensor>& op) {
  CheckOffsets("AddLoad", op.offsets);
  RequireVector({"AddLoad", "load", op.load}, op.offsets.count() - 1, DType::kFloat32);
}

void Check(const GatherRows<Tensor>& op) {
  RequireMatrix({"GatherRows", "from", op.from});
  RequireWorkingType({"GatherRows", "from", op.from});
  CheckOrder("GatherRows", op.order, op.from.shape[0], op.to);
  RequireLike({"GatherRows", "to", op.to}, {op.to.shape[0], op.from.shape[1]}, op.from.dtype);
}

void Check(const CombineRows<Tensor>& op) {
  constexpr auto kName = "CombineRows";
  RequireMatrix({kName, "to", op.to});
  RequireWorkingType({kName, "to", op.to});
  const std::int64_t tokens = op.to.shape[0];
  const std::int64_t chosen = CheckChoice(kName, "positions", op.positions, tokens, DType::kInt32);
  RequireLike({kName, "rows", op.rows}, {tokens * chosen, op.to.shape[1]}, op.to.dtype);
  Require(!op.gate.given() || op.added.given(), "{}: a gate of nothing", kName);
  if (op.added.given()) {
    RequireLike({kName, "added", op.added}, op.to.shape, op.to.dtype);
  }
  if (op.gate.given()) {
    RequireVector({kName, "gate", op.gate}, tokens, DType::kFloat32);
  }
}

void Check(const GateBackward<Tensor>& op) {
  constexpr auto kName = "GateBackward";
  RequireMatrix({kName, "grad_out", op.grad_out});
  RequireWorkingType({kName, "grad_out", op.grad_out});
  RequireLike({kName, "added", op.added}, op.grad_out.shape, op.grad_out.dtype);
  RequireLike({kName, "grad_added", op.grad_added}, op.grad_out.shape, op.grad_out.dtype);
  RequireVector({kName, "gate", op.gate}, op.grad_out.shape[0], DType::kFloat32);
  RequireVector({kName, "grad_gate", op.grad_gate}, op.grad_out.shape[0], op.grad_out.dtype);
}

void Check(const WeightedActivation<Tensor>& op) {
  constexpr auto kName = "WeightedActivation";
  RequireMatrix({kName, "to", op.to});
  RequireWorkingType({kName, "to", op.to});
  Require(IsGated(op.kind), "{}: the activation has no gate", kName);
  RequireLike({kName, "from", op.from}, {op.to.shape[0], 2 * op.to.shape[1]}, op.to.dtype);
  RequireVector({kName, "weights", op.weights}, op.to.shape[0], DType::kFloat32);
  RequireVector({kName, "order", op.order}, op.to.shape[0], DType::kInt32);
}

void Check(const WeightedActivationBackward<Tensor>& op) {
  constexpr auto kName = "WeightedActivationBackward";
  RequireMatrix({kName, "grad_out", op.grad_out});
  RequireWorkingType({kName, "grad_out", op.grad_out});
  Require(IsGated(op.kind), "{}: the activation has no gate", kName);
  const std::int64_t rows = op.grad_out.shape[0];
  RequireLike({kName, "from", op.from}, {rows, 2 * op.grad_out.shape[1]}, op.grad_out.dtype);
  RequireLike({kName, "grad_from", op.grad_from}, op.from.shape, op.grad_out.dtype);
  RequireVector({kName, "weights", op.weights}, rows, DType::kFloat32);
  RequireVector({kName, "grad_weights", op.grad_weights}, rows, DType::kFloat32);
  RequireVector({kName, "order", op.order}, rows, DType::kInt32);
}

void Check(const GroupedMatmulArgs& args) {
  constexpr auto kName = "GroupedMatmul";
  const Tensor& matrices = MatricesOf(args);
  RequireMatrix({kName, "a", args.a});
  RequireWorkingType({kName, "a", args.a});
  RequireGiven({kName, "matrices", matrices});
  Require(matrices.shape.rank() == 3, "{}: matrices of all experts are {}, expected three extents", kName,
          matrices.shape.ToString());
  CheckOffsets(kName, args.offsets);
  RequireVector({kName, "offsets", args.offsets}, matrices.shape[0] + 1, DType::kInt32);
  const std::int64_t rows = args.a.shape[0];
  const std::int64_t outputs = matrices.shape[1];
  const std::int64_t inputs = matrices.shape[2];
  switch (args.product) {
    case GroupedProduct::kForward:
      RequireShape({kName, "a", args.a}, {rows, inputs});
      RequireType({kName, "weights", args.b}, args.a.dtype);
      RequireLike({kName, "c", args.c}, {rows, outputs}, args.a.dtype);
      break;
    case GroupedProduct::kInputGradient:
      RequireShape({kName, "a", args.a}, {rows, outputs});
      RequireType({kName, "weights", args.b}, args.a.dtype);
      RequireLike({kName, "c", args.c}, {rows, inputs}, args.a.dtype);
      break;
    case GroupedProduct::kWeightGradient:
      RequireShape({kName, "a", args.a}, {rows, outputs});
      RequireLike({kName, "b", args.b}, {rows, inputs}, args.a.dtype);
      RequireType({kName, "gradient", args.c}, DType::kFloat32);
      break;
  }
  Require(!args.accumulate || args.product == GroupedProduct::kWeightGradient,
          "{}: gradients of matrices alone are added to", kName);
}

}  // namespace trireme
