// The operations that have the form of ops/operation.h. Programs can hold a step of each, Ops::Run executes each, and a
// back end implements Do(const NAME<Tensor>&) for each in the file that has its kernel. A macro, because back ends
// declare a function for each.
#pragma once

#include "ops/activation.h"
#include "ops/embedding.h"
#include "ops/experts.h"
#include "ops/loss.h"
#include "ops/rotary.h"

#define TRIREME_OPERATIONS(With)                                                                                     \
  With(ActivationForward) With(ActivationBackward) With(AddPositions) With(PositionsBackward) With(Rotary)           \
      With(SoftCap) With(Route) With(RouteBackward) With(CountChosen) With(OrderRows) With(AddLoad) With(GatherRows) \
          With(CombineRows) With(GateBackward) With(WeightedActivation) With(WeightedActivationBackward)
