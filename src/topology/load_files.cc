// What cluster.h, software_stack.h and settings.h read from files. The rest of this folder works on text alone, so that
// the planner's page can hold it.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text_file.h"
#include "topology/cluster.h"
#include "topology/settings.h"
#include "topology/software_stack.h"

namespace trireme {
namespace {

constexpr std::int64_t kLargestSettings = 4 << 20;

std::string ReadText(const std::string& path) { return ReadTextFile(path, kLargestSettings, "file"); }

// Paths of the settings files of a folder, in order; none where it cannot be read.
std::vector<std::string> SettingsFilesOf(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") {
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Settings Settings::FromFile(const std::string& path) { return FromText(ReadText(path), path); }

std::string FindSettingsFile(const std::string& folder, const std::string& name, const char* what) {
  if (name.ends_with(".toml") || name.find('/') != std::string::npos) {
    return name;
  }
  const std::filesystem::path path = std::filesystem::path(folder) / (name + ".toml");
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    return path.string();
  }
  std::vector<std::string> names;
  for (const std::string& one : SettingsFilesOf(folder)) {
    names.push_back(std::filesystem::path(one).stem().string());
  }
  std::sort(names.begin(), names.end());
  std::string known;
  for (const std::string& one : names) {
    known += (known.empty() ? "" : ", ") + one;
  }
  Fail("{} '{}' is unknown{}; {} has: {}", what, name, NearestMatch(name, names), folder,
       known.empty() ? "no files" : known);
}

Cluster LoadCluster(const std::string& name, const std::string& folder) {
  const std::string path = FindSettingsFile(folder, name, "cluster");
  return ParseCluster(ReadText(path), path);
}

std::vector<Cluster> LoadClusters(const std::string& folder) {
  const std::vector<std::string> paths = SettingsFilesOf(folder);
  Require(!paths.empty(), "folder '{}' has no cluster files", folder);
  std::vector<Cluster> clusters;
  clusters.reserve(paths.size());
  for (const std::string& path : paths) {
    clusters.push_back(ParseCluster(ReadText(path), path));
  }
  return clusters;
}

SoftwareStack LoadStack(const std::string& name, const std::string& folder) {
  const std::string path = FindSettingsFile(folder, name, "stack");
  return ParseStack(ReadText(path), path);
}

std::vector<SoftwareStack> LoadStacks(const std::string& folder) {
  const std::vector<std::string> paths = SettingsFilesOf(folder);
  Require(!paths.empty(), "folder '{}' has no stack files", folder);
  std::vector<SoftwareStack> stacks;
  stacks.reserve(paths.size());
  for (const std::string& path : paths) {
    stacks.push_back(ParseStack(ReadText(path), path));
  }
  return stacks;
}

}  // namespace trireme
