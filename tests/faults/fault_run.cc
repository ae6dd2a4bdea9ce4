#include "faults/fault_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/tools/reports.h"

namespace trireme {
namespace {

constexpr const char* kRecipe = R"(
[model]
family = "gpt2"
layers = 2
hidden = 32
heads = 2
vocabulary = 64
sequence = 16
[layout]
tensor = 2
data = 2
zero = 1
micro_batch = 1
[batch]
global = 4
[train]
steps = 12
device = "cpu"
threads = 1
engine = "packed"
[data]
source = "synthetic"
[checkpoint]
every = 2
keep = 2
)";

pid_t Spawn(const std::vector<std::string>& words, const std::string& output) {
  std::vector<char*> pointers;
  for (const std::string& word : words) {
    pointers.push_back(const_cast<char*>(word.c_str()));
  }
  pointers.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execvp(pointers[0], pointers.data());
    _exit(127);
  }
  return child;
}

}  // namespace

FaultRun::FaultRun(std::vector<std::string> overrides) : overrides_(std::move(overrides)) {
  static std::atomic<int> count = 0;
  folder_ = (std::filesystem::temp_directory_path() / fmt::format("trireme-faults-{}-{}", getpid(), ++count)).string();
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/recipe.toml") << kRecipe;
}

FaultRun::~FaultRun() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

pid_t FaultRun::Start(const std::vector<std::string>& options, const std::vector<std::string>& before) const {
  std::vector<std::string> words = before;
  words.insert(words.end(), {Faults().program, "train", recipe(), "--run", folder()});
  for (const std::string& setting : overrides_) {
    words.insert(words.end(), {"--set", setting});
  }
  words.insert(words.end(), options.begin(), options.end());
  return Spawn(words, folder_ + "/output.txt");
}

Outcome FaultRun::Wait(pid_t process) const {
  int status = 0;
  waitpid(process, &status, 0);
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .output = Output()};
}

std::string FaultRun::Output() const {
  std::ifstream file(folder_ + "/output.txt");
  return {std::istreambuf_iterator<char>(file), {}};
}

Outcome FaultRun::Program(const std::vector<std::string>& arguments) const {
  std::vector<std::string> words = {Faults().program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return Wait(Spawn(words, folder_ + "/output.txt"));
}

std::int64_t FaultRun::LoggedStep() const {
  std::ifstream file(folder() + "/metrics.jsonl");
  std::int64_t step = 0;
  for (std::string line; std::getline(file, line);) {
    std::sscanf(line.c_str(), "{\"step\":%ld", &step);
  }
  return step;
}

void FaultRun::Await(const std::function<bool()>& done) {
  for (int i = 0; i < 24'000 && !done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void FaultRun::AwaitStep(std::int64_t step) const {
  Await([&] { return LoggedStep() >= step; });
}

void FaultRun::AwaitSave() const {
  Await([&] { return SavedStep() >= 0; });
}

void FaultRun::AwaitDrill() const {
  Await([&] {
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(folder() + "/flight", missing)) {
      if (entry.path().filename().string().starts_with("drill-")) {
        return true;
      }
    }
    return false;
  });
}

void FaultRun::AwaitOutput(const std::string& words) const {
  Await([&] { return Output().find(words) != std::string::npos; });
}

std::int64_t FaultRun::SavedStep() const {
  const auto found = FindNewest(folder() + "/checkpoints");
  return found ? found->checkpoint.step : -1;
}

double FaultRun::SecondsUntilNamed(const Outcome& outcome) {
  const std::size_t at = outcome.output.find("no rank has moved for ");
  double seconds = 0;
  if (at != std::string::npos) {
    std::sscanf(outcome.output.c_str() + at, "no rank has moved for %lf s", &seconds);
  }
  return seconds;
}

std::string FaultRun::Digest() const {
  const auto found = FindNewest(folder() + "/checkpoints");
  return found ? ToHex(DigestOfState(CheckpointReader(found->checkpoint.path))) : "no checkpoint";
}

std::string FaultRun::UntouchedDigest() const {
  const FaultRun untouched(overrides_);
  const Outcome outcome = untouched.Run();
  return outcome.code == 0 ? untouched.Digest() : "the untouched run failed: " + outcome.output;
}

void RemoveAtOnce(const std::string& folder) {
  const std::string aside = folder + ".removed";  // a name that the run does not use
  std::filesystem::rename(folder, aside);
  std::filesystem::remove_all(aside);
}

void RemoveAgainAndAgain(const std::string& folder) {
  for (int i = 0; i < 40; ++i) {
    std::error_code busy;  // the run may be writing into it at this moment
    std::filesystem::remove_all(folder, busy);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
}

}  // namespace trireme
