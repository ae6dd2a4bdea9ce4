#include "operate/native_stacks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/error.h"
#include "comm/ledger.h"
#include "operate/process_probe.h"

namespace trireme {
namespace {

// False when gdb is not there, was not allowed, or took too long.
bool AskDebugger(int pid, const std::string& path, double seconds) {
  const std::string process = std::to_string(pid);
  const pid_t child = fork();
  if (child == 0) {
    const int out = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    const int in = open("/dev/null", O_RDONLY);
    if (out < 0 || in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) {
      _exit(127);
    }
    execlp("gdb", "gdb", "-nx", "-batch", "-p", process.c_str(), "-ex", "thread apply all bt", nullptr);
    _exit(127);
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return child > 0 && ReadProcessFile(path).find("#0 ") != std::string::npos;
}

}  // namespace

void CollectStacks(int pid, const std::string& path, double seconds) {
  unlink(path.c_str());  // a link of that name is not followed
  // A debugger that leaves a stopped process sets it going again.
  if (ProbeThread(pid, pid).state != 'T' && AskDebugger(pid, path, seconds)) {
    return;
  }
  std::ofstream out(path);
  for (const int thread : ThreadsOf(pid)) {
    const std::string folder = fmt::format("/proc/{}/task/{}/", pid, thread);
    out << fmt::format("thread {}: state {}, {:.2f} s of CPU, waits in '{}', system call {}", thread,
                       ProbeThread(pid, thread).state, ProbeThread(pid, thread).cpu_seconds,
                       ReadProcessFile(folder + "wchan"), ReadProcessFile(folder + "syscall"))
        << ReadProcessFile(folder + "stack") << "\n";
  }
}

}  // namespace trireme
