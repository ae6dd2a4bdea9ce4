// The weights of a trained model, wherever they lie: a checkpoint, or a Hugging Face directory. A caller asks for the
// elements that its rank holds and gets them in fp32; nothing is held in memory between two reads. Any number of
// threads may read.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "model/parameter_table.h"

namespace trireme {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const ModelConfig& model() const = 0;
  // out[run.local + i] = element run.global + i of the parameter of that name, for each run. An Error names a parameter
  // that is missing, damaged or of another shape; learned positions may be fewer than there are, the first ones then.
  virtual void Read(const Parameter& parameter, std::span<const SliceRun> runs, float* out) const = 0;
};

// Whether `path` is the directory of a Hugging Face model.
bool IsHuggingFace(const std::string& path);

// `path` is a Hugging Face directory, a checkpoint's folder, or a run's (its newest checkpoint). Opening reads headers
// and checks that every tensor of the model is there; an Error says what is amiss.
std::unique_ptr<WeightSource> OpenWeights(const std::string& path);
// The model alone, without looking at its tensors.
ModelConfig ReadModel(const std::string& path);

// An Error unless `there` is the parameter's shape, or has more rows of a position table.
void RequireShapeOf(const Parameter& parameter, const Shape& there, const std::string& place);

}  // namespace trireme
