// The samples that `trireme evaluate` predicts, from one of three places: a text, lists of token ids, or a dataset, by
// default the one that the run trained on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "data/samples/sample_source.h"
#include "data/tokenizer/tokenizer.h"
#include "infer/model_files.h"

namespace trireme {

// At most one of text, tokens and data is given.
struct EvaluationRequest {
  std::string text;          // a file, each of whose tokens is predicted once
  std::string tokens;        // a file of token ids, a sample a line
  std::string data;          // as data.source; empty: the run's own
  std::string split;         // train, validation or test; empty: validation
  std::string tokenizer;     // as LoadModelTokenizer takes it
  std::int64_t samples = 0;  // at most; 0: all
  std::int64_t length = 0;   // targets of a sample, at most
};

struct EvaluationSamples {
  std::int64_t count = 0;
  std::function<Sample(std::int64_t)> get = {};    // any thread
  std::unique_ptr<Tokenizer> tokenizer = nullptr;  // counts bytes; may be missing
};

// An Error names what is missing, too long or without an end.
EvaluationSamples OpenEvaluation(const ModelFiles& files, const EvaluationRequest& request);

}  // namespace trireme
