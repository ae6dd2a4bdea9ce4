#include "checkpoint/read/weight_source.h"

#include <filesystem>

#include "base/error.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "checkpoint/hugging_face/weights.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/read/checkpoint_reader.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class CheckpointWeights final : public WeightSource {
 public:
  explicit CheckpointWeights(const std::string& folder) : reader_(folder) {
    const ParameterTable table(model());
    for (const Parameter& parameter : table.rows()) {
      Require(reader_.Find(parameter.name, kMasterKind) != nullptr, "'{}' has no parameter '{}'", folder,
              parameter.name);
    }
  }

  const ModelConfig& model() const override { return reader_.manifest().state.model; }

  void Read(const Parameter& parameter, std::span<const SliceRun> runs, float* out) const override {
    const StoredTensor* stored = reader_.Find(parameter.name, kMasterKind);
    Require(stored != nullptr, "'{}' has no parameter '{}'", reader_.folder(), parameter.name);
    RequireShapeOf(parameter, stored->about.shape, reader_.folder());
    reader_.Read(*stored, runs, out);
  }

 private:
  CheckpointReader reader_;
};

}  // namespace

bool IsHuggingFace(const std::string& path) {
  return fs::exists(fs::path(path) / "config.json") && !fs::exists(fs::path(path) / kManifestFile);
}

std::unique_ptr<WeightSource> OpenWeights(const std::string& path) {
  if (IsHuggingFace(path)) {
    return std::make_unique<HuggingFaceWeights>(path);
  }
  return std::make_unique<CheckpointWeights>(ResolveCheckpoint(path));
}

ModelConfig ReadModel(const std::string& path) {
  Require(fs::is_directory(path),
          "'{}' is no folder: a Hugging Face directory, a checkpoint or a run's folder was expected", path);
  return IsHuggingFace(path) ? ReadHuggingFaceConfig(path) : ReadManifest(ResolveCheckpoint(path)).state.model;
}

void RequireShapeOf(const Parameter& parameter, const Shape& there, const std::string& place) {
  const bool longer = parameter.role == ParameterRole::kPositionTable && there.rank() == 2 &&
                      there[1] == parameter.shape[1] && there[0] > parameter.shape[0];
  Require(longer || there == parameter.shape, "'{}': '{}' has the shape {}, this model's has {}", place, parameter.name,
          there.ToString(), parameter.shape.ToString());
}

}  // namespace trireme
