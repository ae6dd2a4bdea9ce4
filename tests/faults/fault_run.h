// A small training run of the built program in a folder of its own, which tests start, hurt and start again.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trireme {

using Seconds = std::chrono::duration<double>;

struct Outcome {
  int code = -1;  // exit code; -1 when a signal ended it
  int signal = 0;
  std::string output;  // both streams
};

class FaultRun {
 public:
  // A fresh folder for each object, removed with it. `overrides`: key=value.
  explicit FaultRun(std::vector<std::string> overrides = {});
  ~FaultRun();
  FaultRun(const FaultRun&) = delete;
  FaultRun& operator=(const FaultRun&) = delete;

  // trireme train RECIPE --run … and these options. `before`: words in front of the program, such as a launcher's.
  pid_t Start(const std::vector<std::string>& options = {}, const std::vector<std::string>& before = {}) const;
  Outcome Wait(pid_t process) const;
  Outcome Run(const std::vector<std::string>& options = {}) const { return Wait(Start(options)); }
  // trireme with these arguments; what a run that Start() began has said until then is lost.
  Outcome Program(const std::vector<std::string>& arguments) const;

  std::string folder() const { return folder_ + "/run"; }
  std::string recipe() const { return folder_ + "/recipe.toml"; }
  // Returns when a line of metrics.jsonl tells of this step or a later one; gives up after minutes, so that a run that
  // died fails the test's next line. No load of the machine makes a step take that long.
  void AwaitStep(std::int64_t step) const;
  // Waits for any complete checkpoint.
  void AwaitSave() const;
  // Returns when a drill (--inject) has happened.
  void AwaitDrill() const;
  // Returns when the program started last has said these words.
  void AwaitOutput(const std::string& words) const;
  // What the program started last has said so far, on both streams.
  std::string Output() const;
  // The newest step that metrics.jsonl tells of; 0: none.
  std::int64_t LoggedStep() const;
  // Step of the newest checkpoint; -1: none.
  std::int64_t SavedStep() const;
  // How long ranks stood still until the supervisor named one, as it says; 0: it named none.
  static double SecondsUntilNamed(const Outcome& outcome);
  // Digest of the newest checkpoint's whole state.
  std::string Digest() const;
  // Digest of the run when nothing happens to it.
  std::string UntouchedDigest() const;

 private:
  static void Await(const std::function<bool()>& done);

  std::string folder_;
  std::vector<std::string> overrides_;
};

// Removes a folder atomically for a run that makes files in it. remove_all alone then fails: the folder is not empty.
void RemoveAtOnce(const std::string& folder);

// Removes a folder that a run at work makes again and again, for about a second: saves are struck at all points.
void RemoveAgainAndAgain(const std::string& folder);

// From the command line; the defaults are those of CI.
struct FaultOptions {
  int kills = 10;        // of the loop that kills at random moments
  int rounds = 1;        // over save points, phases and signals; from 2 on every rank is struck
  int soak_seconds = 0;  // of a run under faults of all kinds; 0: a short one
  std::string program;   // trireme
};
const FaultOptions& Faults();

}  // namespace trireme
