#include "infer/model_files.h"

#include <stdlib.h>

#include <filesystem>

#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/hugging_face.h"
#include "checkpoint/manifest.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool HasTokenizer(const std::string& folder) {
  for (const char* name : {"tokenizer.json", "vocab.json", "tokenizer.model"}) {
    if (fs::exists(fs::path(folder) / name)) {
      return true;
    }
  }
  return false;
}

// The first file of a source such as "0.3 a.bin 0.7 b.bin" or "bytes:FILE".
std::string FirstFile(const std::string& source) {
  const std::size_t dot = source.find(".bin");
  const std::string head = dot == std::string::npos ? source : source.substr(0, dot);
  const std::size_t start = dot == std::string::npos ? std::string::npos : head.find_last_of(" :");
  return start == std::string::npos ? head : head.substr(start + 1);
}

void TakeRecipe(const RunState& state, ModelFiles& files) {
  const RunConfig config = ParseRecipe(state.recipe, files.checkpoint + "/" + kManifestFile, {}).config;
  files.dtype = config.train.dtype;
  files.data_split = config.data.split;
  files.document_masks = config.data.document_masks;
  files.seed = config.train.seed;
  // An imported checkpoint has a recipe of defaults: its keys are those of the model alone.
  for (const KeyValue& key : state.keys) {
    if (key.key == "data.source") {
      files.data_source = config.data.source;
    }
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder() : path_((fs::temp_directory_path() / "trireme-XXXXXX").string()) {
  Require(mkdtemp(path_.data()) != nullptr, "no temporary folder can be made in {}",
          fs::temp_directory_path().string());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

ModelFiles OpenModelFiles(const std::string& path) {
  Require(fs::is_directory(path),
          "'{}' is no folder: a run's folder, a checkpoint or a Hugging Face directory was expected", path);
  ModelFiles files;
  if (fs::exists(fs::path(path) / "config.json") && !fs::exists(fs::path(path) / kManifestFile)) {
    files.imported = std::make_unique<TemporaryFolder>();
    ImportHuggingFace(path, files.imported->path());
    files.checkpoint = ResolveCheckpoint(files.imported->path());
  } else {
    files.checkpoint = ResolveCheckpoint(path);
  }
  const Manifest manifest = ReadManifest(files.checkpoint);
  files.model = manifest.state.model;
  TakeRecipe(manifest.state, files);
  const fs::path checkpoint(files.checkpoint);
  files.tokenizer_folders = {path, checkpoint.string(), checkpoint.parent_path().string(),
                             checkpoint.parent_path().parent_path().string()};
  if (!files.data_source.empty()) {
    const std::string folder = fs::path(FirstFile(files.data_source)).parent_path().string();
    files.tokenizer_folders.push_back(folder.empty() ? "." : folder);
  }
  return files;
}

std::unique_ptr<Tokenizer> LoadModelTokenizer(const ModelFiles& files, const std::string& wanted) {
  std::string path = wanted;
  if (path.empty() && files.model.vocabulary == 256) {
    path = "bytes";
  }
  for (const std::string& folder : files.tokenizer_folders) {
    if (path.empty() && HasTokenizer(folder)) {
      path = folder;
    }
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
