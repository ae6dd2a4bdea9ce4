#include "apps/trireme/inference.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "base/error.h"
#include "cost/step_cost.h"

namespace trireme {

void InferenceCommand::AddOptions(CLI::App& app) {
  app.add_option("model", path, "A run's folder, a checkpoint's folder, or a Hugging Face directory")->required();
  app.add_option("--tokenizer", tokenizer,
                 "tokenizer.json, vocab.json, a SentencePiece .model, a directory of one, or 'bytes'; found beside the "
                 "model or its data when not given");
  app.add_option("--ranks", ranks, "Threads that hold a part of the model each (tensor parallel); 1")
      ->check(AboveZero());
  app.add_option("--device", device, "auto, cpu or cuda");
  app.add_option("--dtype", dtype, "fp32, bf16 or fp16; what the run trained in when not given");
  app.add_option("--threads", threads, "CPU threads per rank; by default the cores are divided among the ranks")
      ->check(AboveZero());
}

ModelFiles InferenceCommand::Open() const {
  RequireDevice(device);
  Require(!LaunchedByMpi() || ranks == 0,
          "--ranks is for threads of one process; under mpirun or srun their -n decides");
  ModelFiles files = OpenModelFiles(path);
  RequireDivisible(files.model, {.tensor = std::max(ranks, 1)});
  return files;
}

DType InferenceCommand::WorkingType(const ModelFiles& files) const {
  Require(dtype.empty() || dtype == "fp32" || dtype == "bf16" || dtype == "fp16",
          "--dtype '{}' is unknown: fp32, bf16 or fp16", dtype);
  return WorkingDType(dtype.empty() ? files.dtype : dtype);
}

int InferenceCommand::RunRanks(const std::function<void(RankContext&)>& body) const {
  const int count = std::max(ranks, 1);
  const DeviceOptions options{.kind = device, .threads = threads};
  try {
    LaunchedByMpi() ? RunMpiRank(options, body) : RunThreadRanks(count, options, body);
  } catch (const Error& error) {
    std::fprintf(stderr, "trireme: %s\n", error.what());
    return kExitFailed;
  }
  return 0;
}

}  // namespace trireme
