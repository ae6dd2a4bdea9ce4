// A Hugging Face directory as a source of weights: the parts of its tensors that a slice of a parameter needs are read
// where they lie.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/hugging_face/files.h"
#include "checkpoint/hugging_face/tensors.h"
#include "checkpoint/read/weight_source.h"

namespace trireme {

class HuggingFaceWeights final : public WeightSource {
 public:
  // Reads config.json and the headers of all files. An Error names a tensor that is missing, of another shape, or none
  // of the model's.
  explicit HuggingFaceWeights(const std::string& directory);

  const ModelConfig& model() const override { return table_.config(); }
  const ParameterTable& table() const { return table_; }
  // Tensors of the files that no parameter needs: buffers of old files, an output that is tied.
  const std::vector<std::string>& unused() const { return unused_; }
  void Read(const Parameter& parameter, std::span<const SliceRun> runs, float* out) const override;

 private:
  void RequireSameTensors();
  void ReadRows(const HuggingFaceTensor& tensor, std::span<const SliceRun> runs, float* out) const;
  void ReadReordered(const HuggingFaceTensor& tensor, std::span<const SliceRun> runs, float* out) const;

  std::string directory_;
  ParameterTable table_;
  HuggingFaceFiles files_;
  std::vector<HuggingFaceTensor> tensors_;
  std::vector<std::string> unused_;
};

}  // namespace trireme
