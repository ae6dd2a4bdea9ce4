#include "apps/trireme/inference.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <thread>

#include "apps/trireme/commands.h"
#include "base/error.h"

namespace trireme {

void InferenceCommand::AddOptions(CLI::App& app) {
  app.add_option("model", path, "A run's folder, a checkpoint's folder, or a Hugging Face directory")->required();
  app.add_option("--tokenizer", tokenizer,
                 "tokenizer.json, vocab.json, a SentencePiece .model, a directory of one, or 'bytes'; found beside the "
                 "model or its data when not given");
  app.add_option("--ranks", ranks, "Threads that hold a part of the model each (tensor parallel); 1");
  app.add_option("--device", device, "auto, cpu or cuda");
  app.add_option("--dtype", dtype, "fp32 or bf16; what the run trained in when not given");
  app.add_option("--threads", threads, "CPU threads a rank; all cores by default");
}

ModelFiles InferenceCommand::Open() const {
  Require(ranks >= 0, "--ranks {} must be 1 or more", ranks);
  Require(!LaunchedByMpi() || ranks == 0,
          "--ranks is for threads of one process; under mpirun or srun their -n decides");
  ModelFiles files = OpenModelFiles(path);
  RequireDivisible(files.model, {.tensor = std::max(ranks, 1)});
  return files;
}

DType InferenceCommand::WorkingType(const ModelFiles& files) const {
  // A model trained with fp8 or tf32 products has bf16 or fp32 weights.
  const std::string trained = files.dtype == "fp8" ? "bf16" : files.dtype == "tf32" ? "fp32" : files.dtype;
  const std::string& name = dtype.empty() ? trained : dtype;
  Require(name == "fp32" || name == "bf16", "--dtype '{}' is unknown: fp32 or bf16", name);
  return ParseDType(name);
}

int InferenceCommand::RunRanks(const std::function<void(RankContext&)>& body) const {
  const int count = std::max(ranks, 1);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const DeviceOptions options{.kind = device, .threads = threads > 0 ? threads : std::max(cores / count, 1)};
  try {
    LaunchedByMpi() ? RunMpiRank(options, body) : RunThreadRanks(count, options, body);
  } catch (const Error& error) {
    std::fprintf(stderr, "trireme: %s\n", error.what());
    return kExitFailed;
  }
  return 0;
}

}  // namespace trireme
