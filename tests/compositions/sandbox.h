// A folder for one composition: its recipes, the runs of it, and starts of the program on them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compositions/composition.h"

namespace trireme::compositions {

struct Start {
  int code = -1;   // exit code; -1 when a signal or the time limit ended it
  int signal = 0;  // that ended it
  bool hung = false;
  std::string output;               // both streams
  std::vector<std::string> struck;  // names of the calls that a fault struck
  std::int64_t calls = 0;           // that changed the run's folder, where they were counted
};

// Row of metrics.jsonl.
struct Row {
  std::int64_t step = 0;
  double loss = 0;
};

class Sandbox {
 public:
  // `folder` is made, and removed with this unless `keeps`.
  Sandbox(std::string folder, std::string program, std::string shim, bool keeps);
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  const std::string& folder() const { return folder_; }
  std::string Run(const std::string& name) const { return folder_ + "/" + name; }

  // trireme train of `config` in the run of that name, its calls counted; `strike`: the call that a fault strikes, 0:
  // none does.
  Start Train(const std::string& name, const RunConfig& config, const Fault* fault = nullptr,
              std::int64_t strike = 0) const;

  // A new run that has the checkpoint of that step of another one, and nothing else.
  void CopyCheckpoint(const std::string& from, std::int64_t step, const std::string& to) const;
  void CopyRun(const std::string& from, const std::string& to) const;
  // Damages the newest checkpoint; what was done, in words.
  std::string Damage(const std::string& name, const Fault& fault) const;

  // The newest good checkpoint's step; -1: there is none.
  std::int64_t NewestStep(const std::string& name) const;
  std::string Digest(const std::string& name) const;
  std::vector<Row> Metrics(const std::string& name) const;
  // Lines of metrics.jsonl that are no JSON object.
  std::int64_t TornLines(const std::string& name) const;
  // Weights of the newest checkpoint.
  std::map<std::string, std::vector<float>> Weights(const std::string& name) const;

 private:
  std::string folder_;
  std::string program_;
  std::string shim_;
  bool keeps_;
};

}  // namespace trireme::compositions
