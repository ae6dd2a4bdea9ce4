#include "operate/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <random>
#include <sstream>
#include <system_error>

#include "base/durable_file.h"
#include "base/error.h"
#include "comm/ledger.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// What the file says; it may be anything.
struct LockOwner {
  std::string host;  // empty: no owner
  std::string process;
  std::string boot;  // empty: written by an earlier version
  std::string processes;
  std::string started;
};

std::string ReadOwnerText(int file) {
  std::array<char, 512> text{};
  const ssize_t length = pread(file, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

LockOwner ReadOwner(int file) {
  std::string words = ReadOwnerText(file);
  std::replace_if(
      words.begin(), words.end(), [](char c) { return static_cast<unsigned char>(c) < 0x21; }, ' ');
  LockOwner owner;
  std::istringstream(words) >> owner.host >> owner.process >> owner.boot >> owner.processes >> owner.started;
  return owner;
}

// When a process of this namespace started, in the kernel's ticks; "-" when there is none.
std::string StartTime(const std::string& process) {
  const bool number =
      !process.empty() && process.size() < 12 && process.find_first_not_of("0123456789") == std::string::npos;
  std::ifstream file(number ? "/proc/" + process + "/stat" : "/dev/null");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // Field 22; the second, a name in parentheses, may hold anything.
  constexpr int kFieldsAfterName = 20;
  std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::string field;
  for (int i = 0; i < kFieldsAfterName; ++i) {
    fields >> field;
  }
  return fields ? field : "-";
}

std::string Token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

std::int64_t ChangedNanoseconds(int file) {
  struct stat about {};
  fstat(file, &about);
  return about.st_mtim.tv_sec * std::int64_t{1'000'000'000} + about.st_mtim.tv_nsec;
}

[[noreturn]] void Refuse(const std::string& path, int file) {
  const LockOwner owner = ReadOwner(file);
  const double age = static_cast<double>(WallNanoseconds() - ChangedNanoseconds(file)) * 1e-9;
  Fail("another job is at work in this run folder: '{}' is held by process {} on {}, which showed life {:.0f} s ago",
       path, owner.process.empty() ? "?" : owner.process, owner.host.empty() ? "?" : owner.host, std::max(age, 0.0));
}

}  // namespace

RunLockIdentity RunLockIdentity::Here() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> text{};
  const ssize_t length = readlink("/proc/self/ns/pid", text.data(), text.size() - 1);
  return {.host = HostName(),
          .boot = boot.empty() ? "-" : boot,
          .processes = length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : "-"};
}

RunLock::RunLock(const std::string& folder, const std::string& name, const RunLockTimes& times,
                 const RunLockPlace& place)
    : path_(folder + "/" + name), times_(times), place_(place) {
  MakeDirectories(folder);
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  Require(file_ >= 0, "cannot open '{}': {}", path_, std::generic_category().message(errno));
  try {
    const bool locked = Lock();
    RefuseIfHeld(locked);
    WriteOwner();
    if (!locked) {
      RefuseIfOverwritten();
    }
  } catch (...) {
    close(file_);
    throw;
  }
  beating_ = std::thread([this] { Beat(); });
}

RunLock::~RunLock() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  beating_.join();
  // An empty file has no owner; a failure here leaves a lock that the next job takes over. What another wrote stays.
  if (ReadOwnerText(file_) == written_) {
    [[maybe_unused]] const int ignored = ftruncate(file_, 0);
  }
  close(file_);
}

bool RunLock::Lock() {
  const auto until = Clock::now() + times_.patience;
  while (place_.flock && flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return false;
    }
    if (Clock::now() >= until) {
      Refuse(path_, file_);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return place_.flock;
}

void RunLock::RefuseIfHeld(bool locked) {
  const LockOwner owner = ReadOwner(file_);
  if (owner.host.empty()) {
    return;
  }
  const RunLockIdentity& here = place_.identity;
  const bool same_kernel = owner.boot.empty() ? owner.host == here.host : owner.boot == here.boot && here.boot != "-";
  // Under one kernel flock is the truth.
  if (same_kernel && locked) {
    return;
  }
  if (same_kernel && !owner.boot.empty() && owner.processes == here.processes && here.processes != "-") {
    const auto until = Clock::now() + times_.patience;
    while (owner.started != "-" && StartTime(owner.process) == owner.started && !ReadOwner(file_).host.empty()) {
      if (Clock::now() >= until) {
        Refuse(path_, file_);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return;
  }
  RefuseIfItBeats();
}

void RunLock::RefuseIfItBeats() {
  const std::int64_t changed = ChangedNanoseconds(file_);
  const auto until = Clock::now() + times_.heartbeat * 5 / 2;
  while (Clock::now() < until) {
    if (ReadOwner(file_).host.empty()) {
      return;  // given up meanwhile
    }
    if (ChangedNanoseconds(file_) != changed) {
      Refuse(path_, file_);
    }
    std::this_thread::sleep_for(times_.heartbeat / 20);
  }
}

void RunLock::RefuseIfOverwritten() {
  // Long enough for another that found the file free at the same moment to have written too.
  std::this_thread::sleep_for(times_.heartbeat / 10);
  if (ReadOwnerText(file_) != written_) {
    Refuse(path_, file_);
  }
}

void RunLock::WriteOwner() {
  const std::string process = fmt::format("{}", getpid());
  written_ = fmt::format("{} {} {} {} {} {}\n", place_.identity.host, process, place_.identity.boot,
                         place_.identity.processes, StartTime(process), Token());
  const bool written = ftruncate(file_, 0) == 0 &&
                       pwrite(file_, written_.data(), written_.size(), 0) == static_cast<ssize_t>(written_.size());
  Require(written, "cannot write '{}': {}", path_, std::generic_category().message(errno));
}

void RunLock::Beat() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, times_.heartbeat, [this] { return ended_; })) {
    futimens(file_, nullptr);
  }
}

}  // namespace trireme
