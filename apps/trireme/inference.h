// What `generate` and `evaluate` share: naming a model, its tokenizer and the ranks that hold it.
#pragma once

#include <functional>
#include <string>

#include "base/dtype.h"
#include "comm/rank_runner.h"
#include "infer/model_files.h"

namespace CLI {
class App;
}

namespace trireme {

struct InferenceCommand {
  std::string path;
  std::string tokenizer;
  std::string device = "auto";
  std::string dtype;
  int ranks = 0;
  int threads = 0;

  void AddOptions(CLI::App& app);
  // Opens the model and checks that there is such a device and that the ranks can cut it.
  ModelFiles Open() const;
  DType WorkingType(const ModelFiles& files) const;
  // Runs `body` on every rank, as threads or over MPI. Returns the exit code.
  int RunRanks(const std::function<void(RankContext&)>& body) const;
};

}  // namespace trireme
