// 64 ranks on whatever cores there are: nothing hangs, three times over.
#include "parity/parity.h"

namespace trireme::parity {
namespace {

TEST(ManyRanks, SixtyFourTrainManyStepsThreeTimes) {
  RunConfig config = SmallRun("gpt2");
  config.model.hidden = 16;
  config.model.heads = 4;
  config.model.kv_heads = 4;
  config.model.ffn = 32;
  config.model.sequence = 4;
  config.model.vocabulary = 32;
  config.layout = {.tensor = 4, .pipeline = 4, .data = 4, .zero = 1};
  config.batch.global = 16;
  config.train.deterministic = true;  // a GPU needs to be asked
  const int steps = LawSteps() * 10;
  config.train.steps = steps;
  std::vector<double> first;
  for (int time = 0; time < 3; ++time) {
    const Outcome outcome = Train({.config = config, .steps = steps});
    ASSERT_EQ(outcome.losses.size(), static_cast<std::size_t>(steps));
    EXPECT_LT(outcome.losses.back(), outcome.losses.front());
    if (time == 0) {
      first = outcome.losses;
    }
    EXPECT_EQ(outcome.losses, first);
  }
}

}  // namespace
}  // namespace trireme::parity
