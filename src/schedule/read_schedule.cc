#include <fstream>
#include <iterator>

#include "base/error.h"
#include "schedule/schedule.h"

namespace trireme {

Schedule ReadSchedule(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Require(file.good(), "schedule file '{}' cannot be read", path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return ParseSchedule(text, path);
}

}  // namespace trireme
