// Law 1 over processes: `mpirun -n 4|8 parity_mpi` trains layouts of that many ranks and compares the losses with one
// rank of threads.
#include <cmath>
#include <cstdio>
#include <vector>

#include "comm/rank_runner.h"
#include "data/samples/sample_source.h"
#include "operate/training_loop.h"
#include "parity/parity.h"

namespace {

using namespace trireme;          // NOLINT: a test program
using namespace trireme::parity;  // NOLINT

std::vector<RunConfig> Runs(int ranks) {
  std::vector<RunConfig> runs;
  const auto add = [&](const char* family, ParallelLayout layout) {
    if (layout.ranks() == ranks) {
      RunConfig config = SmallRun(family);
      config.layout = layout;
      config.train.steps = std::min(LawSteps(), 8);
      runs.push_back(config);
    }
  };
  add("gpt2", {.tensor = 2, .pipeline = 2});
  add("llama", {.pipeline = 2, .data = 2, .zero = 3, .schedule = "zero_bubble"});
  add("bloom", {.tensor = 2, .data = 2, .zero = 2, .sequence_parallel = true, .recompute = Recompute::kSelective});
  add("llama", {.context = 2, .data = 2, .zero = 1});
  add("gpt2", {.tensor = 2, .pipeline = 2, .data = 2, .zero = 1});
  add("mistral", {.tensor = 2, .context = 2, .pipeline = 2, .sequence_parallel = true});
  add("bloom", {.tensor = 2, .context = 2, .data = 2, .zero = 3, .context_kind = ContextKind::kUlysses});
  add("bloom", {.tensor = 2, .pipeline = 2, .data = 2, .zero = 3, .schedule = "interleaved", .chunks = 2});
  add("gpt2", {.pipeline = 2, .data = 2, .zero = 1, .schedule = "zero_bubble_v", .chunks = 2});
  return runs;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<RunConfig> runs = Runs(argc > 1 ? std::atoi(argv[1]) : 0);
  std::vector<std::vector<double>> losses(runs.size());
  bool speaks = false;
  RunMpiRank({.kind = "cpu"}, [&](RankContext& context) {
    speaks = context.world.rank() == 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto source = OpenRunSource(runs[i], "train");
      Trainer trainer(runs[i], context, {.train = source.get()});
      for (int step = 0; step < runs[i].train.steps; ++step) {
        losses[i].push_back(trainer.Step().loss);
      }
    }
  });
  if (!speaks) {
    return 0;
  }
  int failed = runs.empty() ? 1 : 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Outcome one = Train({.config = OneRank(runs[i]), .steps = static_cast<int>(runs[i].train.steps)});
    for (std::size_t step = 0; step < one.losses.size(); ++step) {
      if (!(std::abs(losses[i][step] / one.losses[step] - 1) <= 1e-5)) {
        std::printf("%s: step %zu: %.9g, one rank %.9g\n", runs[i].layout.ToString().c_str(), step + 1, losses[i][step],
                    one.losses[step]);
        failed = 1;
      }
    }
  }
  std::printf("%zu layouts over MPI: %s\n", runs.size(), failed == 0 ? "all as one rank" : "some differ");
  return failed;
}
