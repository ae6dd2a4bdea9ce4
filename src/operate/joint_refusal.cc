#include "operate/joint_refusal.h"

#include "base/error.h"
#include "train/gather_numbers.h"

namespace trireme {

JointRefusal RefusedByAny(RankContext& context, const std::function<void()>& check) {
  std::string mine;
  try {
    check();
  } catch (const Error& error) {
    mine = error.what();
  }
  const auto refusals = GatherNumbers(context.world, context.device, {mine.empty() ? 0 : 1});
  for (int rank = 0; rank < context.world.size(); ++rank) {
    if (refusals[static_cast<std::size_t>(rank)].front() != 0) {
      return {.refused = true, .reason = rank == context.world.rank() ? mine : ""};
    }
  }
  return {};
}

}  // namespace trireme
