// A small training run of the built program in a folder of its own, which tests start, hurt and start again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

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

  // trireme train RECIPE --run … and these options.
  pid_t Start(const std::vector<std::string>& options = {}) const;
  Outcome Wait(pid_t process) const;
  Outcome Run(const std::vector<std::string>& options = {}) const { return Wait(Start(options)); }
  // trireme with these arguments; what a run that Start() began has said until then is lost.
  Outcome Program(const std::vector<std::string>& arguments) const;

  std::string folder() const { return folder_ + "/run"; }
  std::string recipe() const { return folder_ + "/recipe.toml"; }
  // Of the newest checkpoint's whole state.
  std::string Digest() const;
  // Of the same run when nothing happens to it.
  std::string UntouchedDigest() const;

 private:
  std::string folder_;
  std::vector<std::string> overrides_;
};

// How many times the kill loop kills; --kills on the command line.
int KillCount();

}  // namespace trireme
