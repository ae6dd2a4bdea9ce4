#include "base/platform.h"

#include <unistd.h>

namespace trireme {

std::int64_t PageBytes() { return sysconf(_SC_PAGESIZE); }

}  // namespace trireme
