#include "checkpoint/tokenizer_places.h"

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "data/tokenizer_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string FirstWithTokenizer(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (!FindTokenizer(folder).empty()) {
      return folder;
    }
  }
  return "";
}

// The prefix of the first dataset of a source such as "0.3 a.bin 0.7 b.bin"; empty when it has none.
std::string FirstDataset(const std::string& source) {
  const std::size_t dot = source.find(".bin");
  if (dot == std::string::npos) {
    return "";
  }
  const std::string head = source.substr(0, dot);
  const std::size_t start = head.find_last_of(' ');
  return start == std::string::npos ? head : head.substr(start + 1);
}

}  // namespace

std::string FindTokenizerOf(const RunConfig& config) {
  std::vector<std::string> folders;
  if (const std::string prefix = FirstDataset(config.data.source); !prefix.empty()) {
    const std::string folder = fs::path(prefix).parent_path().string();
    folders = {TokenizerFolderOf(prefix), folder.empty() ? "." : folder};
  }
  if (!config.model_from.empty()) {
    folders.push_back(config.model_from);
  }
  return FirstWithTokenizer(folders);
}

std::string FindTokenizerOf(const ModelPlace& place) {
  const fs::path checkpoint(place.checkpoint);
  const std::string beside = FirstWithTokenizer({place.path, place.checkpoint, checkpoint.parent_path().string(),
                                                 checkpoint.parent_path().parent_path().string()});
  if (!beside.empty()) {
    return beside;
  }
  return FindTokenizerOf(ParseRecipe(place.state.recipe, place.checkpoint + "/" + kManifestFile, {}).config);
}

}  // namespace trireme
