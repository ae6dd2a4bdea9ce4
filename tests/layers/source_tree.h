// Files of the source tree, for tests that read it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace trireme {

namespace fs = std::filesystem;
inline const fs::path kRoot = TRIREME_SOURCE_DIR;

inline std::string ReadText(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::string> LinesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

// Sources and headers below src/ and apps/, as paths from the root.
inline std::vector<std::string> SourceFiles() {
  std::vector<std::string> files;
  for (const char* const tree : {"src", "apps"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / tree)) {
      const std::string kind = entry.path().extension();
      if (kind == ".h" || kind == ".cc" || kind == ".cu" || kind == ".cuh") {
        files.push_back(fs::relative(entry.path(), kRoot).generic_string());
      }
    }
  }
  return files;
}

}  // namespace trireme
