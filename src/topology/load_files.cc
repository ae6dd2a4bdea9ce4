// What cluster.h, software_stack.h and settings.h read from files. The rest of this folder works on text alone, so that
// the planner's page can hold it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

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

// The three shortest names that hold the word, as 'dgx-h100' holds 'h100'; else the nearest.
std::string NearestNames(const std::string& word, const std::vector<std::string>& names) {
  std::vector<std::string> holders;
  std::copy_if(names.begin(), names.end(), std::back_inserter(holders),
               [&](const std::string& one) { return !word.empty() && one.find(word) != std::string::npos; });
  std::stable_sort(holders.begin(), holders.end(),
                   [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  holders.resize(std::min<std::size_t>(holders.size(), 3));
  return holders.empty() ? NearestMatch(word, names)
                         : fmt::format(" (did you mean '{}'?)", fmt::join(holders, "' or '"));
}

}  // namespace

Settings Settings::FromFile(const std::string& path) { return FromText(ReadText(path), path); }

std::vector<std::string> FoldersOf(const std::string& kind) {
  namespace fs = std::filesystem;
  std::error_code status;
  const fs::path program = fs::read_symlink("/proc/self/exe", status).parent_path();
  std::vector<std::string> folders;
  for (const fs::path& place : {program / kind, program / ".." / kind, program / ".." / ".." / kind,
                                program / ".." / "share" / "trireme" / kind, fs::path(kind)}) {
    folders.push_back(place.string());
    if (kind == "recipes") {
      folders.push_back((place / "systems").string());
    }
  }
  return folders;
}

std::string NamedFile::Choice() const {
  return passed_over.empty()
             ? ""
             : fmt::format("'{}' is taken, not '{}': to take that one, give its path", path, passed_over);
}

bool IsPath(const std::string& name) { return name.ends_with(".toml") || name.find('/') != std::string::npos; }

std::optional<NamedFile> LookForNamedFile(const std::vector<std::string>& folders, const std::string& name) {
  if (IsPath(name)) {
    return NamedFile{.path = name, .passed_over = {}};
  }
  std::error_code error;
  std::optional<NamedFile> found;
  for (const std::string& folder : folders) {
    const std::filesystem::path path = std::filesystem::path(folder) / (name + ".toml");
    if (!std::filesystem::exists(path, error)) {
      continue;
    }
    if (!found) {
      found = NamedFile{.path = path.lexically_normal().string(), .passed_over = {}};
    } else if (found->passed_over.empty() && !std::filesystem::equivalent(found->path, path, error)) {
      found->passed_over = path.lexically_normal().string();
    }
  }
  return found;
}

NamedFile FindNamedFile(const std::vector<std::string>& folders, const std::string& name, const char* what) {
  if (std::optional<NamedFile> found = LookForNamedFile(folders, name)) {
    return *found;
  }
  std::vector<std::string> names;
  std::string searched;
  for (const std::string& folder : folders) {
    const std::vector<std::string> files = SettingsFilesOf(folder);
    for (const std::string& one : files) {
      names.push_back(std::filesystem::path(one).stem().string());
    }
    if (!files.empty() || folders.size() == 1) {
      searched += (searched.empty() ? "" : " and ") + std::filesystem::path(folder).lexically_normal().string();
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string known;
  for (const std::string& one : names) {
    known += (known.empty() ? "" : ", ") + one;
  }
  Fail("{} '{}' is unknown{}; {} has: {}", what, name, NearestNames(name, names),
       searched.empty() ? "no folder was found that" : searched, known.empty() ? "no files" : known);
}

Cluster LoadCluster(const std::string& name, const std::string& folder) {
  const std::string path = FindNamedFile({folder}, name, "cluster").path;
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
  const std::string path = FindNamedFile({folder}, name, "stack").path;
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
