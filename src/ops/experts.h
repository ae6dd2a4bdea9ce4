// Mixtures of experts: what a router chooses for each token, the chosen rows in the order of experts, what goes to the
// experts and comes back, and products with one matrix per expert.
//
// N tokens, E experts of which each token chooses k; R = N * k rows. Choice j of token t is slot t * k + j. Rows are
// the slots sorted by (expert, token): `order` int32 [R] has the slot of each row, `positions` int32 [N, k] the row of
// each slot, and expert e has rows [offsets[e], offsets[e + 1]), offsets int32 [E + 1].
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ops/activation.h"
#include "ops/operation.h"
#include "ops/tensor.h"

namespace trireme {

// How a router's logits become scores.
enum class RouterScore : std::uint8_t { kSoftmax, kSigmoid };

// How scores become the weights of the chosen: score * scale, or score / sum of the chosen scores * scale.
struct RouterChoices {
  RouterScore score = RouterScore::kSoftmax;
  bool renormalize = false;
  float scale = 1;
};

// Chooses the k experts with the largest score + bias for each token; of equal ones those with lower numbers, first the
// largest. NaN is never chosen before a number. The bias does not enter the weights.
template <typename T>
struct Route {
  static constexpr std::string_view kName = "route";
  RouterChoices router;
  T logits;     // fp32 [N, E]
  T bias = {};  // fp32 [E]; may be missing
  T kept = {};  // int32 [N, k]: an earlier choice, which is then taken instead; may be missing
  T chosen;     // int32 [N, k]; not given where `kept` is
  T weights;    // fp32 [N, k]

  static constexpr auto Operands() {
    using Of = Use<Route, T>;
    return std::array{Of{&Route::logits, "logits"}, Of{&Route::bias, "bias", Access::kRead, Owner::kParameter},
                      Of{&Route::kept, "kept"}, Of{&Route::chosen, "chosen", Access::kWrite},
                      Of{&Route::weights, "weights", Access::kWrite}};
  }
};
void Check(const Route<Tensor>& op);

// Gradient of the logits from that of the weights, and of two losses of the router:
//   balance * sum over tokens and experts of token_weights[t] * f[b, e] * p[t, e], with p the scores of a token divided
//   by their sum and f[b, e] = E * counts[b, e] / (k * counts[b, E]), a constant, of the token's sequence b;
//   z * sum over tokens of token_weights[t] * logsumexp(logits[t])^2.
template <typename T>
struct RouteBackward {
  static constexpr std::string_view kName = "route_backward";
  RouterChoices router;
  T grad_weights;  // fp32 [N, k]
  T logits;
  T chosen;
  T counts = {};         // fp32 [B, E + 1], as CountChosen makes them; may be missing where balance is 0
  T token_weights = {};  // fp32 [N]; may be missing where balance and z are 0
  T grad_logits;         // [N, E], of a working type
  float balance = 0;
  float z = 0;

  static constexpr auto Operands() {
    using Of = Use<RouteBackward, T>;
    return std::array{Of{&RouteBackward::grad_weights, "grad_weights"},
                      Of{&RouteBackward::logits, "logits"},
                      Of{&RouteBackward::chosen, "chosen"},
                      Of{&RouteBackward::counts, "counts"},
                      Of{&RouteBackward::token_weights, "token_weights", Access::kRead, Owner::kBatch},
                      Of{&RouteBackward::grad_logits, "grad_logits", Access::kWrite}};
  }
};
void Check(const RouteBackward<Tensor>& op);

// Counts for each of B sequences how many tokens with a loss (token_weights above 0) chose each expert, and in column E
// how many there are: padding is not counted. Whole numbers in fp32, exact below 2^24.
template <typename T>
struct CountChosen {
  static constexpr std::string_view kName = "count_chosen";
  T chosen;         // int32 [N, k]
  T token_weights;  // fp32 [N]
  T counts;         // fp32 [B, E + 1]

  static constexpr auto Operands() {
    using Of = Use<CountChosen, T>;
    return std::array{Of{&CountChosen::chosen, "chosen"},
                      Of{&CountChosen::token_weights, "token_weights", Access::kRead, Owner::kBatch},
                      Of{&CountChosen::counts, "counts", Access::kWrite}};
  }
};
void Check(const CountChosen<Tensor>& op);

// Order, positions and offsets of a choice.
template <typename T>
struct OrderRows {
  static constexpr std::string_view kName = "order_rows";
  T chosen;
  T order;
  T positions;
  T offsets;

  static constexpr auto Operands() {
    using Of = Use<OrderRows, T>;
    return std::array{Of{&OrderRows::chosen, "chosen"}, Of{&OrderRows::order, "order", Access::kWrite},
                      Of{&OrderRows::positions, "positions", Access::kWrite},
                      Of{&OrderRows::offsets, "offsets", Access::kWrite}};
  }
};
void Check(const OrderRows<Tensor>& op);

// load[e] = the rows of expert e, added to what it holds unless `first`. Whole numbers in fp32, exact below 2^24.
template <typename T>
struct AddLoad {
  static constexpr std::string_view kName = "add_load";
  T offsets;
  T load;  // fp32 [E]
  bool first = false;

  static constexpr auto Operands() {
    using Of = Use<AddLoad, T>;
    return std::array{Of{&AddLoad::offsets, "offsets"}, Of{&AddLoad::load, "load", Access::kUpdate}};
  }
};
void Check(const AddLoad<Tensor>& op);

// to[r] = from[order[r] / k].
template <typename T>
struct GatherRows {
  static constexpr std::string_view kName = "gather_rows";
  T from;  // [N, C]
  T order;
  T to;  // [R, C]

  static constexpr auto Operands() {
    using Of = Use<GatherRows, T>;
    return std::array{Of{&GatherRows::from, "from"}, Of{&GatherRows::order, "order"},
                      Of{&GatherRows::to, "to", Access::kWrite}};
  }
};
void Check(const GatherRows<Tensor>& op);

// to[t] = sum over j of rows[positions[t, j]] (+ sigmoid(gate[t]) * added[t], without a gate + added[t]), in fp32 in
// that order, rounded once.
template <typename T>
struct CombineRows {
  static constexpr std::string_view kName = "combine_rows";
  T rows;  // [R, C]
  T positions;
  T added = {};  // [N, C], may be missing, may be `to`
  T gate = {};   // fp32 [N, 1]; may be missing
  T to;          // [N, C]

  static constexpr auto Operands() {
    using Of = Use<CombineRows, T>;
    return std::array{Of{&CombineRows::rows, "rows"}, Of{&CombineRows::positions, "positions"},
                      Of{&CombineRows::added, "added"}, Of{&CombineRows::gate, "gate"},
                      Of{&CombineRows::to, "to", Access::kWrite}};
  }
};
void Check(const CombineRows<Tensor>& op);

// Gradients of `added` and `gate` of CombineRows.
template <typename T>
struct GateBackward {
  static constexpr std::string_view kName = "gate_backward";
  T grad_out;    // [N, C]
  T added;       // [N, C]
  T gate;        // fp32 [N, 1]
  T grad_added;  // [N, C]
  T grad_gate;   // [N, 1], of the working type

  static constexpr auto Operands() {
    using Of = Use<GateBackward, T>;
    return std::array{Of{&GateBackward::grad_out, "grad_out"}, Of{&GateBackward::added, "added"},
                      Of{&GateBackward::gate, "gate"}, Of{&GateBackward::grad_added, "grad_added", Access::kWrite},
                      Of{&GateBackward::grad_gate, "grad_gate", Access::kWrite}};
  }
};
void Check(const GateBackward<Tensor>& op);

// to[r] = weights[order[r]] * activation(from[r]) for a gated activation: [R, 2F] -> [R, F].
template <typename T>
struct WeightedActivation {
  static constexpr std::string_view kName = "weighted_activation";
  ActivationKind kind = ActivationKind::kSwiGlu;
  T from;
  T weights;  // fp32 [N, k]
  T order;
  T to;

  static constexpr auto Operands() {
    using Of = Use<WeightedActivation, T>;
    return std::array{Of{&WeightedActivation::from, "from"}, Of{&WeightedActivation::weights, "weights"},
                      Of{&WeightedActivation::order, "order"}, Of{&WeightedActivation::to, "to", Access::kWrite}};
  }
};
void Check(const WeightedActivation<Tensor>& op);

template <typename T>
struct WeightedActivationBackward {
  static constexpr std::string_view kName = "weighted_activation_backward";
  ActivationKind kind = ActivationKind::kSwiGlu;
  T grad_out;  // [R, F]
  T from;
  T weights;
  T order;
  T grad_from;     // may be `from`
  T grad_weights;  // fp32 [N, k]

  static constexpr auto Operands() {
    using Backward = WeightedActivationBackward;
    using Of = Use<Backward, T>;
    return std::array{Of{&Backward::grad_out, "grad_out"},
                      Of{&Backward::from, "from"},
                      Of{&Backward::weights, "weights"},
                      Of{&Backward::order, "order"},
                      Of{&Backward::grad_from, "grad_from", Access::kWrite},
                      Of{&Backward::grad_weights, "grad_weights", Access::kWrite}};
  }
};
void Check(const WeightedActivationBackward<Tensor>& op);

// Which product of a linear layer of each expert: its output, or the gradient of its input or of its matrix.
enum class GroupedProduct : std::uint8_t { kForward, kInputGradient, kWeightGradient };

// Products of the rows of each expert with a matrix of its own, weight[e] [M, K] and gradient[e] of that shape:
//   kForward          c[r] = a[r] * weight[e]^T      a [R, K], b = weight, c [R, M]
//   kInputGradient    c[r] = a[r] * weight[e]        a [R, M], b = weight, c [R, K]
//   kWeightGradient   c[e] = sum of a[r]^T b[r]      a [R, M], b [R, K], c = gradient (fp32)
// An expert without rows gets a gradient of zeros. With `accumulate` sums are added to what c holds.
struct GroupedMatmulArgs {
  GroupedProduct product = GroupedProduct::kForward;
  Tensor a;
  Tensor b;
  Tensor c;
  Tensor offsets;
  bool accumulate = false;
  std::int64_t weight_version = 0;  // as MatmulArgs has it
};
// Tensors with the matrices of all experts: [E, M, K].
inline const Tensor& MatricesOf(const GroupedMatmulArgs& args) {
  return args.product == GroupedProduct::kWeightGradient ? args.c : args.b;
}
void Check(const GroupedMatmulArgs& args);

}  // namespace trireme
