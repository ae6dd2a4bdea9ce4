// Where the tokenizer of a trained model lies.
#pragma once

#include <string>

#include "checkpoint/format/manifest.h"

namespace trireme {

// What LoadTokenizer takes; empty when none is found. `path` is the model as a person named it, `checkpoint` the folder
// of its checkpoint, `state` what that holds. Looks beside the model and in the run's folder, to which a run copies
// its tokenizer. What the recipe in the checkpoint names is looked at only if it lies in one of these folders.
struct ModelPlace {
  std::string path;
  std::string checkpoint;
  RunState state;
};
std::string FindTokenizerOf(const ModelPlace& place);
// The tokenizer of a run that is about to start: with its data, and with the model that it goes on from.
std::string FindTokenizerOf(const RunConfig& config);

// File of a run's folder: its data source with absolute paths, as data.source has them.
inline constexpr const char* kRunSourceFile = "data_source.txt";
// What that file of the run of a checkpoint says; empty where it is missing, as in runs of earlier versions.
std::string RecordedSourceOf(const std::string& checkpoint);

}  // namespace trireme
