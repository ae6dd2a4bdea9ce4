#include "operate/process_probe.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "base/error.h"
#include "comm/ledger.h"

namespace trireme {

ThreadProbe ProbeThread(int pid, int thread) {
  const std::string text = ReadProcessFile(fmt::format("/proc/{}/task/{}/stat", pid, thread));
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) {
    return {};
  }
  std::istringstream fields(text.substr(name_end + 2));
  ThreadProbe probe;
  fields >> probe.state;
  std::string field;
  double ticks = 0;
  // Fields 14 and 15 are the times; the state was field 3.
  for (int i = 4; i <= 15 && fields >> field; ++i) {
    ticks += i >= 14 ? std::strtod(field.c_str(), nullptr) : 0;
  }
  probe.cpu_seconds = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  return probe;
}

std::vector<int> ThreadsOf(int pid) {
  std::vector<int> threads;
  std::error_code gone;
  // The process may end between two entries.
  for (std::filesystem::directory_iterator each(fmt::format("/proc/{}/task", pid), gone), end; !gone && each != end;
       each.increment(gone)) {
    threads.push_back(std::atoi(each->path().filename().c_str()));
  }
  return threads;
}

std::int64_t BytesMoved(int pid) {
  std::istringstream file(ReadProcessFile(fmt::format("/proc/{}/io", pid)));
  std::int64_t total = 0;
  std::string key;
  for (std::int64_t value = 0; file >> key >> value;) {
    total += key == "rchar:" || key == "wchar:" ? value : 0;
  }
  return total;
}

}  // namespace trireme
