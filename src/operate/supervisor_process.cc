#include "operate/supervisor_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/error.h"

namespace trireme {
namespace {

[[noreturn]] void Become(const std::vector<std::string>& command) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  execvp(words[0], words.data());
  std::fprintf(stderr, "trireme: cannot start '%s': %s\n", words[0], std::strerror(errno));
  _exit(127);
}

// As execvp would find it.
bool HasProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return access(name.c_str(), X_OK) == 0;
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access(((folder.empty() ? "." : folder) + "/" + name).c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

bool IsHere(const RankRecord& record) {
  return record.pid > 1 && record.process_start != 0 && ProcessStart(record.pid) == record.process_start;
}

}  // namespace

JobProcess::JobProcess(const std::vector<std::string>& command) {
  // Ranks whose launcher was killed become this process's children and can be waited for.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  pid_ = fork();
  Require(pid_ >= 0, "cannot start a process: {}", std::generic_category().message(errno));
  if (pid_ == 0) {
    Become(command);
  }
  setpgid(pid_, pid_);
  handle_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
}

JobProcess::~JobProcess() {
  if (handle_ >= 0) {
    close(handle_);
  }
}

bool JobProcess::Ended() {
  ended_ = ended_ || waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

bool JobProcess::AwaitEnd(double seconds) {
  if (!Ended()) {
    pollfd end{.fd = handle_, .events = POLLIN, .revents = 0};
    poll(&end, handle_ >= 0 ? 1 : 0, static_cast<int>(seconds * 1e3));
  }
  return Ended();
}

bool JobProcess::HoldsAll(const std::vector<RankRecord>& ranks) const {
  return !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [this](const RankRecord& record) {
    return record.pid == pid_ && IsHere(record);
  });
}

void JobProcess::Signal(int signal) const {
  if (!ended_) {
    kill(pid_, signal);
  }
}

void JobProcess::End(double grace, const std::vector<RankRecord>& ranks) {
  Signal(SIGTERM);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(grace);
  while (!Ended() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (!Ended()) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
    ended_ = true;
  }
  for (const RankRecord& record : ranks) {
    if (IsHere(record)) {
      kill(record.pid, SIGKILL);
    }
  }
  for (const RankRecord& record : ranks) {
    for (int i = 0; i < 100 && IsHere(record) && waitpid(record.pid, nullptr, WNOHANG) == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
}

std::string LauncherHint(const std::vector<std::string>& command, bool as_root) {
  const std::string name = command.empty() ? "" : std::filesystem::path(command.front()).filename().string();
  const bool open_mpi = name == "mpirun" || name == "mpiexec" || name == "orterun" || name.ends_with(".openmpi");
  const bool told =
      std::count(command.begin(), command.end(), "--allow-run-as-root") > 0 ||
      (std::getenv("OMPI_ALLOW_RUN_AS_ROOT") != nullptr && std::getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") != nullptr);
  if (!as_root || !open_mpi || told) {
    return "";
  }
  return fmt::format(
      "{} started no rank, and this is root, for whom Open MPI's refuses to work: --launcher \"{} --allow-run-as-root "
      "…\", "
      "or OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 in the environment",
      name, command.front());
}

std::vector<std::string> SupervisedCommand(const std::string& launcher, const std::vector<std::string>& own_options) {
  std::vector<std::string> command;
  std::istringstream words(launcher);
  for (std::string word; words >> word;) {
    command.push_back(word);
  }
  Require(command.empty() || HasProgram(command.front()), "--launcher '{}': there is no program '{}'", launcher,
          command.front());
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<char> program(4096);
  const ssize_t length = readlink("/proc/self/exe", program.data(), program.size());
  Require(length > 0, "cannot read /proc/self/exe");
  command.emplace_back(program.data(), static_cast<std::size_t>(length));
  std::istringstream arguments(text);
  std::string argument;
  std::getline(arguments, argument, '\0');
  while (std::getline(arguments, argument, '\0')) {
    bool own = argument == "--supervise";
    for (const std::string& option : own_options) {
      if (argument == option) {
        own = true;
        std::getline(arguments, argument, '\0');  // its value
        break;
      }
      own = own || argument.starts_with(option + "=");
    }
    if (!own) {
      command.push_back(argument);
    }
  }
  return command;
}

}  // namespace trireme
