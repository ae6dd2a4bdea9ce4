// A trained model as a person names it: a run's folder, a checkpoint's folder, or a Hugging Face directory. Finds the
// checkpoint to read, the shape of the model, and the tokenizer that goes with it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "model/model_config.h"

namespace trireme {

// A new folder of the system's temporary directory, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct ModelFiles {
  std::string checkpoint;  // a checkpoint's own folder
  ModelConfig model;
  std::string dtype = "fp32";  // that the run trained in
  // What the run trained on, as its recipe said; empty when it is not known.
  std::string data_source;
  std::string data_split;
  bool document_masks = false;
  std::int64_t seed = 1;
  std::vector<std::string> tokenizer_folders;  // where a tokenizer may lie, best first
  std::unique_ptr<TemporaryFolder> imported;   // holds the checkpoint made from a Hugging Face directory
};

// An Error says what `path` was expected to be. A Hugging Face directory is imported into a temporary folder, which
// takes as much disk as its weights in fp32.
ModelFiles OpenModelFiles(const std::string& path);

// `wanted` when given (as LoadTokenizer takes it); bytes for a vocabulary of 256; else the first tokenizer found in
// files.tokenizer_folders. One with more tokens than the model is an Error, and so is none.
std::unique_ptr<Tokenizer> LoadModelTokenizer(const ModelFiles& files, const std::string& wanted);

}  // namespace trireme
