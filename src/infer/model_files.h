// A trained model as a person names it: a run's folder, a checkpoint's folder, or a Hugging Face directory. Finds the
// checkpoint to read, the shape of the model, and the tokenizer that goes with it.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer/tokenizer.h"
#include "model/model_config.h"

namespace trireme {

struct ModelFiles {
  std::string weights;  // as OpenWeights takes it
  ModelConfig model;
  std::string dtype = "fp32";  // that the run trained in
  // What the run trained on, as its recipe said; empty when it is not known.
  std::string data_source;
  std::string recorded_source;  // the same with absolute paths; empty for runs that recorded none
  std::string data_split;
  bool document_masks = false;
  bool document_positions = false;
  bool answers_only = false;
  bool padding_masks = false;
  bool best_fit = false;  // samples were packed of whole documents
  std::int64_t seed = 1;
  std::string tokenizer;  // that was found with it; empty: none
};

// An Error says what `path` was expected to be.
ModelFiles OpenModelFiles(const std::string& path);

// `wanted` when given (as LoadTokenizer takes it); bytes for a vocabulary of 256; else files.tokenizer. One with more
// tokens than the model is an Error, and so is none.
std::unique_ptr<Tokenizer> LoadModelTokenizer(const ModelFiles& files, const std::string& wanted);

}  // namespace trireme
