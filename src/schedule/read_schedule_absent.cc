// In place of read_schedule.cc in the planner's page, which has no file system.
#include "base/error.h"
#include "schedule/schedule.h"

namespace trireme {

Schedule ReadSchedule(const std::string& path) {
  Fail("schedule '{}' is a file, which this page cannot read; `trireme plan` can", path);
}

}  // namespace trireme
