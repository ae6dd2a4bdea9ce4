// Work that several threads share. The planner's page is built with fan_out_serial.cc, where one thread does all of it.
#pragma once

#include <functional>

namespace trireme {

// Calls work(0) to work(workers - 1), at the same time where there are threads, and returns when all have ended.
// Rethrows an exception of one of them.
void FanOut(int workers, const std::function<void(int)>& work);

}  // namespace trireme
