#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/save/stream_save.h"
#include "checkpoint/tools/reports.h"

namespace trireme {

Report ConvertCheckpoint(const std::string& path, const std::string& to, const ConvertOptions& options) {
  const CheckpointReader reader(ResolveCheckpoint(path));
  StreamSave save{.folder = to, .state = reader.manifest().state, .shards = options.shards};
  save.state.ranks = options.shards;
  if (options.weights_only) {
    save.state.step = 0;
    save.state.consumed_samples = 0;
    save.state.consumed_tokens = 0;
    save.state.updates = 0;
    save.state.schedule.reset();
    save.state.notes.clear();  // counters of the run that goes on
  }
  std::vector<const StoredTensor*> sources;
  for (const StoredTensor& tensor : reader.tensors()) {
    if (!options.weights_only || tensor.about.kind == kMasterKind) {
      sources.push_back(&tensor);
      save.tensors.push_back(tensor.about);
    }
  }
  save.read = [&](std::size_t index, std::int64_t first, std::span<float> out) {
    reader.Read(*sources[index], first, out);
  };
  const std::string written = SaveStream(save);
  const nlohmann::json root = {
      {"from", reader.folder()}, {"to", written}, {"shards", options.shards}, {"tensors", save.tensors.size()}};
  return {.status = 0,
          .text = fmt::format("{} -> {}: {} tensors in {} shards\n", reader.folder(), written, save.tensors.size(),
                              options.shards),
          .json = JsonText(root, {.indent = 1})};
}

}  // namespace trireme
