#include "planner/pricing/context_time.h"

#include <algorithm>

#include "lowering/ring_plan.h"

namespace trireme {
namespace {

// What is left of a step's messages when its part of attention is done.
double Longer(double messages, double attention) { return std::max(0.0, messages - attention); }

}  // namespace

ContextWait WaitForContext(const LocalSizes& sizes, const ModuleCost& cost, const AttentionSeconds& attention,
                           bool overlaps, const std::function<double(const Traffic&)>& seconds) {
  ContextWait wait{.forward = seconds(cost.forward.context), .backward = seconds(cost.backward_input.context)};
  constexpr auto kSend = static_cast<std::size_t>(CollectiveKind::kSend);
  const LocalSizes own = sizes.OfAttention();  // of the ring
  if (!overlaps || cost.forward.context.calls[kSend] == 0) {
    return wait;
  }
  const double steps = own.context;
  const Traffic keys = RingPlan(own, false).traffic;
  const Traffic both = RingPlan(own, true).traffic;
  const double key = seconds(keys) / (steps - 1);
  const double gradient = (seconds(both) - seconds(keys)) / steps;
  const double forward = attention.forward / steps;
  const double backward = attention.backward / steps;

  const double hidden_forward = seconds(keys) - (steps - 1) * Longer(key, forward);
  // Keys go on from the first step to the last but one, gradients from the second on; the last message of gradients,
  // home, follows all work.
  const double waited =
      Longer(key, backward) + (steps - 2) * Longer(key + gradient, backward) + Longer(gradient, backward) + gradient;
  const bool again = cost.backward_input.context.calls[kSend] > both.calls[kSend];
  wait.forward -= hidden_forward;
  wait.backward -= seconds(both) - waited + (again ? hidden_forward : 0);
  return wait;
}

}  // namespace trireme
