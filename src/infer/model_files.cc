#include "infer/model_files.h"

#include <filesystem>

#include "base/error.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/read/weight_source.h"
#include "checkpoint/tools/tokenizer_places.h"
#include "data/tokenizer/tokenizer_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void TakeRecipe(const RunState& state, ModelFiles& files) {
  const RunConfig config = ParseRecipe(state.recipe, files.weights + "/" + kManifestFile, {}).config;
  files.dtype = config.train.dtype;
  files.data_split = config.data.split;
  files.document_masks = config.data.document_masks;
  files.document_positions = config.data.document_positions;
  files.answers_only = config.data.answers_only;
  files.padding_masks = config.data.padding_masks;
  files.best_fit = config.data.packing == Packing::kBestFit;
  files.seed = config.train.seed;
  // An imported checkpoint has a recipe of defaults: its keys are those of the model alone.
  for (const KeyValue& key : state.keys) {
    if (key.key == "data.source") {
      files.data_source = config.data.source;
    }
  }
}

}  // namespace

ModelFiles OpenModelFiles(const std::string& path) {
  Require(fs::is_directory(path),
          "'{}' is no folder: a run's folder, a checkpoint or a Hugging Face directory was expected", path);
  ModelFiles files;
  if (IsHuggingFace(path)) {
    files.weights = path;
    files.model = ReadModel(path);
    files.tokenizer = FindTokenizer(path);
    return files;
  }
  files.weights = ResolveCheckpoint(path);
  const RunState state = ReadManifest(files.weights).state;
  files.model = state.model;
  files.tokenizer = FindTokenizerOf({.path = path, .checkpoint = files.weights, .state = state});
  TakeRecipe(state, files);
  files.recorded_source = RecordedSourceOf(files.weights);
  return files;
}

std::unique_ptr<Tokenizer> LoadModelTokenizer(const ModelFiles& files, const std::string& wanted) {
  std::string path = wanted;
  if (path.empty()) {
    path = files.model.vocabulary == 256 ? "bytes" : files.tokenizer;
  }
  Require(!path.empty(),
          "no tokenizer was found beside the model or its data; give one with --tokenizer: a tokenizer.json, a "
          "directory, or 'bytes'");
  std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(path);
  Require(tokenizer->vocabulary() <= files.model.vocabulary,
          "the tokenizer '{}' has {} tokens, but the model has a vocabulary of {}", path, tokenizer->vocabulary(),
          files.model.vocabulary);
  return tokenizer;
}

}  // namespace trireme
