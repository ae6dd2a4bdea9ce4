#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "apps/trireme/commands.h"
#include "base/error.h"
#include "comm/rank_runner.h"
#include "report/run_reporter.h"
#include "run/run_config.h"
#include "train/training_loop.h"

namespace trireme {
namespace {

struct TrainCommand {
  std::string recipe;
  int ranks = 0;
  std::vector<std::string> overrides;
  std::int64_t steps = 0;
  std::string run_folder;
  std::int64_t log_every = 0;
  bool dry_run = false;
  bool no_checkpoint = false;
  bool help_keys = false;

  int Run() const;
};

constexpr const char* kExamples = R"(
Examples:
  trireme train recipes/quickstart.toml --ranks 8
  trireme train recipes/gpt2-124m.toml --set layout.tensor=2 --set layout.data=4 --steps 20 --run runs/try
  mpirun -n 8 trireme train recipes/quickstart.toml --run runs/mpi

Exit codes: 0 finished; 1 failed; 2 unusable input, nothing written; 3 stopped on request after a save.
SIGTERM or a file DIR/stop: save and end after the step. SIGUSR1 or DIR/save: save and go on.)";

void PrintResolved(const Recipe& recipe) {
  for (const KeyValue& entry : Flatten(recipe.config)) {
    const auto origin = recipe.origins.find(entry.key);
    std::printf("%-34s = %-24s # %s\n", entry.key.c_str(), entry.value.c_str(),
                origin == recipe.origins.end() ? "default" : origin->second.c_str());
  }
}

int TrainCommand::Run() const {
  if (help_keys) {
    std::fputs(DescribeKeys().c_str(), stdout);
    return 0;
  }
  Require(!recipe.empty(), "train needs a recipe: a TOML file such as recipes/quickstart.toml");
  std::vector<std::string> all = overrides;
  if (steps > 0) {
    all.push_back(fmt::format("train.steps={}", steps));
  }
  const Recipe resolved = LoadRecipe(recipe, all);
  const RunConfig& config = resolved.config;
  const bool by_mpi = LaunchedByMpi();
  Require(!by_mpi || ranks == 0, "--ranks is for threads of one process; under mpirun or srun their -n decides");
  Validate(config, ranks);
  if (dry_run) {
    PrintResolved(resolved);
    return 0;
  }
  const std::unique_ptr<SampleSource> train = OpenRunSource(config, "train");
  const std::unique_ptr<SampleSource> validation =
      config.validation.every > 0 ? OpenRunSource(config, "validation") : nullptr;
  const std::string folder = run_folder.empty() ? "runs/" + std::filesystem::path(recipe).stem().string() : run_folder;

  StopSignals signals;
  LoopResult result;
  const bool live = isatty(STDOUT_FILENO) != 0;
  RunReporter reporter({.run_folder = folder, .live = live, .log_every = log_every > 0 ? log_every : live ? 10 : 1});
  const auto body = [&](RankContext& context) {
    if (context.world.rank() == 0) {
      std::filesystem::create_directories(folder);
      std::ofstream(folder + "/run.toml") << ToToml(config);
    }
    const LoopResult own = RunTraining(config, context, {.train = train.get(), .validation = validation.get()},
                                       {.run_folder = no_checkpoint ? "" : folder, .signals = &signals}, &reporter);
    if (context.world.rank() == 0) {
      result = own;
    }
  };
  const DeviceOptions device{.kind = config.train.device,
                             .threads = config.train.threads > 0 ? config.train.threads : 1,
                             .deterministic = config.train.deterministic};
  try {
    by_mpi ? RunMpiRank(device, body) : RunThreadRanks(config.layout.ranks(), device, body);
  } catch (const Error& error) {
    std::fprintf(stderr, "trireme: %s\n", error.what());
    return kExitFailed;
  }
  return result.end == LoopEnd::kStopped ? kExitStopped : 0;
}

}  // namespace

void AddTrainCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<TrainCommand>();
  CLI::App* train = app.add_subcommand("train", "Train a model as a recipe says; goes on from DIR's newest checkpoint");
  train->add_option("recipe", command->recipe, "TOML file; every key has a default (--help-keys lists them)");
  train->add_option("--ranks", command->ranks, "Ranks as threads of this process; must equal the product of the axes");
  train->add_option("--set", command->overrides, "Override a key: layout.tensor=4")->take_all()->expected(1);
  train->add_option("--steps", command->steps, "Short for --set train.steps=N");
  train->add_option("--run", command->run_folder, "Folder of the run (runs/<recipe> by default)");
  train->add_option("--log-every", command->log_every, "Steps between log lines (1; on a terminal 10)");
  train->add_flag("--no-checkpoint", command->no_checkpoint, "Neither read nor write checkpoints (for measurements)");
  train->add_flag("--dry-run", command->dry_run, "Print the resolved configuration with the origin of each value");
  train->add_flag("--help-keys", command->help_keys, "Print every key of a recipe with its default");
  train->footer(kExamples);
  train->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
