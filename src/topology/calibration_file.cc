#include "topology/calibration_file.h"

#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace trireme {

std::string CalibrationFolder() {
  if (const char* const config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && *config != '\0') {
    return std::string(config) + "/trireme";
  }
  const char* const home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.config/trireme";
}

std::string CalibrationPath(const std::string& machine, const std::string& folder) {
  if (folder.empty()) {
    return "";
  }
  std::string name;
  for (const char letter : machine) {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (name.ends_with('-')) {
    name.pop_back();
  }
  return folder + "/" + (name.empty() ? "machine" : name) + ".toml";
}

std::optional<Cluster> LoadCalibration(const std::string& machine, const std::string& folder) {
  const std::string path = CalibrationPath(machine, folder);
  std::error_code status;
  if (path.empty() || !std::filesystem::exists(path, status)) {
    return std::nullopt;
  }
  try {
    return LoadCluster(path, "");
  } catch (const Error& error) {
    Fail("{}; run `trireme calibrate` again, or delete {}", error.what(), path);
  }
}

}  // namespace trireme
