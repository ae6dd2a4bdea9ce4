#include "base/error.h"
#include "base/text_file.h"
#include "schedule/schedule.h"

namespace trireme {

Schedule ReadSchedule(const std::string& path) {
  return ParseSchedule(ReadTextFile(path, kLargestSchedule, "schedule file"), path);
}

}  // namespace trireme
