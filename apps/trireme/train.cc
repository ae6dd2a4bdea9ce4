#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/plan_validate.h"
#include "apps/trireme/this_machine.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/plain_text.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "checkpoint/read/dropped_state.h"
#include "checkpoint/read/weight_source.h"
#include "checkpoint/tools/tokenizer_places.h"
#include "comm/launch_environment.h"
#include "comm/ledger.h"
#include "comm/rank_runner.h"
#include "device/device.h"
#include "device/host_memory.h"
#include "infer/task_files.h"
#include "measure/chosen_engines.h"
#include "measure/machine.h"
#include "operate/paced_prices.h"
#include "operate/run_lock.h"
#include "operate/run_start.h"
#include "operate/staged_run.h"
#include "operate/stop_signals.h"
#include "operate/stop_watch.h"
#include "operate/supervisor.h"
#include "operate/supervisor_process.h"
#include "report/events.h"
#include "report/run_lines.h"
#include "report/run_reporter.h"
#include "run/run_config.h"

namespace trireme {
namespace {

struct TrainCommand {
  std::string recipe;
  int ranks = 0;
  std::vector<std::string> overrides;
  std::optional<std::int64_t> steps;
  std::string run_folder;
  std::int64_t log_every = 0;
  bool dry_run = false;
  bool no_checkpoint = false;
  bool fit = false;
  bool help_keys = false;
  bool next_ranks = false;
  bool supervise = false;
  std::string launcher;
  double stall_seconds = 10;
  double exit_before = 0;
  double walltime = 0;
  bool synchronous = false;
  std::string inject;
  std::string trace;
  bool trace_all = false;
  std::string drop_state;

  int Run() const;

 private:
  std::string RunFolder() const;
  int RunSupervised() const;
  Recipe Read(const std::vector<std::string>& more) const;
  int RunRanks(const StagedRun& run, LoopOptions options) const;
};

constexpr const char* kTrainExamples = R"(
Examples:
  trireme train recipes/quickstart.toml --ranks 8
  trireme train recipes/gpt2-124m.toml --set layout.tensor=2 --set layout.data=4 --steps 20 --run runs/try
  mpirun -n 8 trireme train recipes/quickstart.toml --run runs/mpi
  trireme train recipes/quickstart.toml --supervise --launcher "mpirun -n 8"
  trireme train recipes/quickstart.toml --set train.device=paced --set train.paced_cluster=perlmutter --ranks 8

Exit codes: 0 finished; 1 failed; 2 unusable input or a folder at which another job is at work, nothing written; 3 stopped on request after a save, or before the first step; 4 the supervisor
gave up after three deaths at one step of one cause; 5 the last save failed: what was trained since the newest checkpoint is lost.
As root, in a container say, Open MPI's mpirun wants --allow-run-as-root.
SIGTERM or a file DIR/stop: save and end after the step. SIGUSR1 or DIR/save: save and go on.)";

void PrintResolved(const Recipe& recipe) {
  for (const KeyValue& entry : Flatten(recipe.config)) {
    const auto origin = recipe.origins.find(entry.key);
    std::printf("%-34s = %-24s # %s\n", entry.key.c_str(), PlainLine(entry.value).c_str(),
                origin == recipe.origins.end() ? "default" : origin->second.c_str());
  }
}

std::string TrainCommand::RunFolder() const {
  return run_folder.empty() ? "runs/" + std::filesystem::path(recipe).stem().string() : run_folder;
}

int TrainCommand::RunSupervised() const {
  Require(!LaunchedByMpi(),
          "--supervise was started as one of several ranks, which would make a supervisor per rank: start it once, in "
          "the batch script, with --launcher \"srun …\" or \"mpirun -n …\"");
  Require(stall_seconds >= 0.5, "--stall-seconds {} is below 0.5, which a busy machine cannot keep", stall_seconds);
  const std::vector<std::string> command = SupervisedCommand(launcher, {"--launcher", "--stall-seconds"});
  const RunLock lock(RunFolder(), "supervisor.lock");
  return Supervise({.run_folder = RunFolder(),
                    .command = command,
                    .limits = {.floor = stall_seconds},
                    .message = [folder = RunFolder()](const std::string& text) {
                      Print(stderr, "supervisor: " + text + "\n");
                      const RunEvent event{.time = static_cast<double>(WallNanoseconds()) * 1e-9,
                                           .step = LastStepOf(folder),
                                           .kind = EventKind(text),
                                           .text = "supervisor: " + text};
                      AppendEvent(folder, event);
                    }});
}

// What the run is predicted from, by the files. One that cannot be read costs the prediction, not the run.
std::optional<PredictionContext> PredictionContextOf(const RunConfig& config) {
  try {
    return config.train.device == "paced" ? PacedMachine(config.train.paced_cluster) : ThisMachine(config.train.device);
  } catch (const Error& error) {
    Print(stderr, fmt::format("trireme: the run is not predicted: {}\n", error.what()));
    return std::nullopt;
  }
}

// The priced cluster of a paced run; none for other devices.
std::shared_ptr<const PacedCluster> PacedClusterOf(const RunConfig& config) {
  if (config.train.device != "paced") {
    return nullptr;
  }
  const PredictionContext prediction = PacedMachine(config.train.paced_cluster);
  return PriceCluster(config, prediction.cluster, prediction.stack);
}

Recipe TrainCommand::Read(const std::vector<std::string>& more) const {
  std::vector<std::string> all = overrides;
  if (steps) {
    // The length that was asked for last counts, whatever unit the recipe uses.
    all.insert(all.end(), {"train.samples=0", "train.tokens=0", fmt::format("train.steps={}", *steps)});
  }
  all.insert(all.end(), more.begin(), more.end());
  return LoadRecipe(RecipePath(recipe), all, {.read_model = ReadModel, .say = SayChoice});
}

// What only an export would find out, after all the training.
void NoteExport(const RunConfig& config, RunReporter& reporter) {
  try {
    FormatHuggingFaceConfig(config.model, "fp32");
  } catch (const Error& error) {
    reporter.Note(fmt::format("warning: Hugging Face has no such model: {}", error.what()));
  }
}

int ExitCodeOf(LoopEnd end) {
  return end == LoopEnd::kStopped ? kExitStopped : end == LoopEnd::kUnsaved ? kExitUnsaved : 0;
}

int TrainCommand::RunRanks(const StagedRun& run, LoopOptions options) const {
  const bool by_mpi = LaunchedByMpi();
  const std::string folder = RunFolder();
  std::unique_ptr<RunLock> lock;
  const auto take_lock = [&] { lock = std::make_unique<RunLock>(folder); };
  if (!by_mpi) {
    take_lock();
  }
  StopSignals signals;
  options.signals = &signals;
  // mpirun puts a terminal of its own before its ranks, wherever their output goes.
  const bool live = !by_mpi && isatty(STDOUT_FILENO) != 0;
  RunReporter reporter({.run_folder = folder,
                        .live = live,
                        .log_every = log_every > 0 ? log_every
                                     : live        ? 10
                                                   : 1,
                        .trace = options.trace.first > 0});
  NoteExport(run.config(), reporter);
  const bool speaks = !by_mpi || RankFromEnvironment().value_or(0) == 0;
  if (const std::string idle = WhyIdle(options.drill, run.config(run.stages() - 1), folder + "/flight");
      speaks && !idle.empty()) {
    reporter.Note("warning: --inject will do nothing: " + idle);
  }
  StopWatch stop_watch(signals, {.flight = no_checkpoint ? "" : folder + "/flight",
                                 .message =
                                     [&](const std::string& text) {
                                       if (speaks) {
                                         reporter.Note(text);
                                       }
                                     },
                                 .end = [](int code) { _exit(code); }});
  options.stop_watch = &stop_watch;
  const std::size_t first = run.NextStage(folder);
  StagedRun::Progress progress{.next = first};
  bool refused = false;
  const auto body = [&](RankContext& context) {
    if (by_mpi && !ProcessesMayStart(run.config(first), context, !no_checkpoint, take_lock)) {
      refused = true;
      return;
    }
    const bool leads = context.world.rank() == 0;
    std::optional<PredictionContext> prediction;
    if (leads) {
      ReplaceFile(folder + "/machine.json", MachineJson(ReportOfThisMachine()));
      prediction = PredictionContextOf(run.config(progress.next));
    }
    ScaleToCurrentSpeed(context, run.config(progress.next), prediction);
    if (leads) {
      reporter.set_prediction_context(std::move(prediction));
    }
    const StagedRun::Progress own = run.Run(context, progress, folder, options, reporter);
    context.world.Barrier();  // no thread reads `progress` any more
    if (leads) {
      progress = own;
    }
  };
  try {
    do {
      const RunConfig& config = run.config(progress.next);
      DeviceOptions device = DeviceOptionsOf(config);
      device.paced = PacedClusterOf(config);
      by_mpi ? RunMpiRank(device, body) : RunThreadRanks(config.layout.ranks(), device, body);
    } while (!by_mpi && run.GoesOn(progress));
  } catch (const Error& error) {
    std::fprintf(stderr, "trireme: %s\n", error.what());
    return kExitFailed;
  }
  // Under MPI only rank 0 knows `progress`.
  if (progress.next != first && run.GoesOn(progress)) {
    reporter.Note(fmt::format("stage {} of {} has {} ranks, and this job another number: start the same command on {}",
                              progress.next + 1, run.stages(), run.config(progress.next).layout.ranks(),
                              run.config(progress.next).layout.ranks()));
    return kExitStopped;
  }
  if (refused) {
    return kExitBadInput;
  }
  const bool ended = progress.result.end == LoopEnd::kFinished;
  if (speaks && ended && !options.drill.what.empty() && !HasActed(options.drill, folder + "/flight")) {
    reporter.Note(fmt::format("warning: --inject did nothing: rank {} reached no {} '{}' in step {}",
                              options.drill.rank, options.drill.save.empty() ? "phase" : "point of a save",
                              options.drill.save.empty() ? options.drill.phase : options.drill.save,
                              options.drill.step));
  }
  if (speaks && progress.result.end != LoopEnd::kOtherStage) {
    reporter.Say(EndLines({.folder = no_checkpoint ? "" : folder,
                           .step = progress.result.step,
                           .loss = progress.result.last_loss,
                           .stopped = progress.result.end == LoopEnd::kStopped,
                           .saved = progress.result.end != LoopEnd::kUnsaved,
                           .writes_text = !FindTokenizerOf(run.config()).empty()}));
  }
  return ExitCodeOf(progress.result.end);
}

int TrainCommand::Run() const {
  if (help_keys) {
    std::fputs(DescribeKeys().c_str(), stdout);
    return 0;
  }
  Require(!recipe.empty(),
          "train needs a recipe: a TOML file such as recipes/quickstart.toml, or the name of one of those");
  Require(!LaunchedByMpi() || ranks == 0,
          "--ranks is for threads of one process; under mpirun or srun their -n decides");
  StagedRun run([this](const std::vector<std::string>& more) { return Read(more); }, ranks, !no_checkpoint);
  if (dry_run) {
    PrintResolved(run.recipe());
    return 0;
  }
  if (next_ranks) {
    Print(stdout, fmt::format("{}\n", run.config(run.NextStage(RunFolder())).layout.ranks()));
    return 0;
  }
  int all_ranks = 0;
  for (std::size_t stage = 0; stage < run.stages(); ++stage) {
    all_ranks = std::max(all_ranks, run.config(stage).layout.ranks());
  }
  if (!run.config().model_from.empty()) {
    OpenWeights(run.config().model_from);  // what is missing there is said before anything is written
  }
  const std::int64_t job_ends_ns = JobEnd(walltime);
  LoopOptions options{.leave_before_ns = LeaveBefore(exit_before, job_ends_ns),
                      .job_ends_ns = job_ends_ns,
                      .drop_state = ParseDropState(drop_state),
                      .drill = ParseDrill(inject),
                      .trace = trace.empty() ? TraceSteps{} : ParseTraceSteps(trace)};
  options.trace.every_rank = trace_all;
  Require(options.drill.rank < all_ranks, "--inject: rank = {} is none of the {} ranks (0 to {})", options.drill.rank,
          all_ranks, all_ranks - 1);
  Require(trace.empty() || !no_checkpoint, "--trace needs the run's folder, which --no-checkpoint leaves alone");
  Require(inject.empty() || !no_checkpoint, "--inject needs the run's folder, which --no-checkpoint leaves alone");
  const bool by_threads = !LaunchedByMpi() && launcher.empty();
  RefuseLinkedFolders(RunFolder());
  run.ChooseMemory(fit, RunFolder(), HostMemoryBytes(), by_threads);
  for (std::size_t stage = 0; stage < run.stages(); ++stage) {
    RequireMachine(run.config(stage), by_threads, !no_checkpoint);
    PacedClusterOf(run.config(stage));  // a cluster that is not known is said before anything is written
  }
  if (supervise) {
    return RunSupervised();
  }
  if (synchronous) {
    // CUDA reads it when it starts: from then on every launch waits for its kernel.
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  }
  run.OpenSources(OpenTasks);
  if (!no_checkpoint) {
    RequireStateKept(RunFolder() + "/checkpoints", run.config(run.NextStage(RunFolder())), options.drop_state);
  }
  return RunRanks(run, options);
}

}  // namespace

void AddTrainCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<TrainCommand>();
  CLI::App* train = app.add_subcommand("train", "Train a model as a recipe says; goes on from DIR's newest checkpoint");
  train->add_option("recipe", command->recipe,
                    "TOML file, or the name of one of recipes/; every key has a default (--help-keys lists them)");
  train->add_option("--ranks", command->ranks, "Ranks as threads of this process; must equal the product of the axes")
      ->check(AboveZero());
  train->add_option("--set", command->overrides, "Override a key: layout.tensor=4")->take_all()->expected(1);
  train->add_option("--steps", command->steps, "Steps of the run, instead of the recipe's steps, samples or tokens");
  train->add_option("--run", command->run_folder, "Folder of the run (runs/<recipe> by default)");
  train->add_option("--log-every", command->log_every, "Steps between log lines (1; on a terminal 10)")
      ->check(AboveZero());
  train->add_flag("--no-checkpoint", command->no_checkpoint, "Neither read nor write checkpoints (for measurements)");
  train->add_flag("--fit", command->fit, "Take the largest micro batch that fits the device, up to the batch");
  train->add_flag("--dry-run", command->dry_run, "Print the resolved configuration with the origin of each value");
  train->add_flag("--next-ranks", command->next_ranks,
                  "Print how many ranks the run's next stage has, by its newest checkpoint, and train nothing: for job "
                  "scripts");
  train->add_flag("--help-keys", command->help_keys, "Print every key of a recipe with its default");
  CLI::Option* supervise =
      train->add_flag("--supervise", command->supervise,
                      "Watch the job: name ranks that stop, end it, start it again from its newest checkpoint");
  train->add_option("--launcher", command->launcher, "With --supervise: what starts the ranks, such as \"mpirun -n 4\"")
      ->needs(supervise);
  train
      ->add_option("--stall-seconds", command->stall_seconds,
                   "With --supervise: how long all ranks may stand still, whatever the run has taught (10)")
      ->needs(supervise);
  train
      ->add_option("--exit-before", command->exit_before,
                   "Save and exit 3 this many seconds before the walltime (SLURM_JOB_END_TIME or --walltime) ends")
      ->check(NotNegative());
  train->add_option("--walltime", command->walltime, "Seconds that the job may run, for --exit-before")
      ->check(AboveZero());
  train->add_option("--drop-state", command->drop_state,
                    "What a resume may lose of its checkpoint's state where the recipe has no use for it: some of "
                    "layers,heads,output,adapters,parameters,optimizer");
  train->add_flag("--synchronous", command->synchronous,
                  "On GPUs every launch waits for its kernel: tells a race from a deadlock");
  train->add_option("--trace", command->trace,
                    "Record these steps (12 or 12-15) of every rank, of more than 16 of a sample (the first, the last, "
                    "the slowest, one a stage): DIR/trace.json for Perfetto, with the prediction");
  train->add_flag("--trace-all-ranks", command->trace_all, "With --trace: every rank, however many there are");
  train->add_option(
      "--inject", command->inject,
      "A drill, once in the life of a run: \"rank=1,step=3,phase=forward,what=stop\" (stop sleep spin throw "
      "exit kill nan overflow loss flip flip-gradient flip-moment slow)");
  train->footer(kTrainExamples);
  train->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
