#include "checkpoint/tools/tokenizer_places.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/text_file.h"
#include "data/samples/sample_source.h"
#include "data/tokenizer/tokenizer_folder.h"

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

// With every link resolved.
bool LiesIn(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  const fs::path inner = fs::canonical(path, error);
  const fs::path outer = error ? fs::path() : fs::canonical(folder, error);
  return !error && std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

std::string FindTokenizerOf(const RunConfig& config) {
  std::vector<std::string> folders;
  std::vector<std::string> beside;
  for (const WeightedSource& part : ParseSources(config.data.source)) {
    if (part.source.ends_with(".bin")) {
      const std::string prefix = part.source.substr(0, part.source.size() - 4);
      const std::string folder = fs::path(prefix).parent_path().string();
      folders.push_back(TokenizerFolderOf(prefix));
      beside.push_back(folder.empty() ? "." : folder);
    }
  }
  folders.insert(folders.end(), beside.begin(), beside.end());
  if (!config.model_from.empty()) {
    folders.push_back(config.model_from);
  }
  return FirstWithTokenizer(folders);
}

std::string RecordedSourceOf(const std::string& checkpoint) {
  constexpr std::int64_t kLargest = 1 << 20;
  const fs::path whole = fs::absolute(checkpoint).lexically_normal();
  const fs::path run = (whole.has_filename() ? whole : whole.parent_path()).parent_path().parent_path();
  const std::string path = (run / kRunSourceFile).string();
  std::error_code status;
  if (!fs::is_regular_file(path, status) || fs::file_size(path, status) > kLargest) {
    return "";
  }
  std::string source = ReadTextFile(path, kLargest, "data source");
  source.erase(source.find_last_not_of('\n') + 1);
  return source;
}

std::string FindTokenizerOf(const ModelPlace& place) {
  const fs::path checkpoint(place.checkpoint);
  std::string beside = FirstWithTokenizer({place.path, place.checkpoint, checkpoint.parent_path().string(),
                                           checkpoint.parent_path().parent_path().string()});
  if (!beside.empty()) {
    return beside;
  }
  // The recipe in a checkpoint may come from anywhere: it may name only what came with it.
  const std::string named =
      FindTokenizerOf(ParseRecipe(place.state.recipe, place.checkpoint + "/" + kManifestFile, {}).config);
  const fs::path run = checkpoint.parent_path().parent_path();
  return !named.empty() && (LiesIn(named, place.path) || LiesIn(named, run.empty() ? "." : run)) ? named : "";
}

}  // namespace trireme
