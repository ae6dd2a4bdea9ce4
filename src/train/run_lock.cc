#include "train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <system_error>

#include "base/durable_file.h"
#include "base/error.h"
#include "comm/ledger.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// What the file says; it may be anything.
struct Owner {
  std::string host;  // empty: nobody
  std::string process;
};

Owner ReadOwner(int file) {
  std::array<char, 256> text{};
  const ssize_t length = pread(file, text.data(), text.size(), 0);
  std::string words(text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  std::replace_if(
      words.begin(), words.end(), [](char c) { return static_cast<unsigned char>(c) < 0x21; }, ' ');
  Owner owner;
  std::istringstream(words) >> owner.host >> owner.process;
  return owner;
}

std::int64_t ChangedNanoseconds(int file) {
  struct stat about {};
  fstat(file, &about);
  return about.st_mtim.tv_sec * std::int64_t{1'000'000'000} + about.st_mtim.tv_nsec;
}

[[noreturn]] void Refuse(const std::string& path, int file) {
  const Owner owner = ReadOwner(file);
  const double age = static_cast<double>(WallNanoseconds() - ChangedNanoseconds(file)) * 1e-9;
  Fail("another job is at work in this run folder: '{}' is held by process {} on {}, which showed life {:.0f} s ago",
       path, owner.process.empty() ? "?" : owner.process, owner.host.empty() ? "?" : owner.host, std::max(age, 0.0));
}

}  // namespace

RunLock::RunLock(const std::string& folder, const std::string& name, const RunLockTimes& times)
    : path_(folder + "/" + name), times_(times) {
  MakeDirectories(folder);
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  Require(file_ >= 0, "cannot open '{}': {}", path_, std::generic_category().message(errno));
  try {
    Lock();
    RefuseIfHeldElsewhere();
    WriteOwner();
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
  // An empty file has no owner; a failure here leaves a lock that the next job takes over.
  [[maybe_unused]] const int ignored = ftruncate(file_, 0);
  close(file_);
}

void RunLock::Lock() {
  const auto until = Clock::now() + times_.patience;
  while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    // A file system without locks leaves it to the owner's signs of life.
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return;
    }
    if (Clock::now() >= until) {
      Refuse(path_, file_);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void RunLock::RefuseIfHeldElsewhere() {
  const Owner owner = ReadOwner(file_);
  if (owner.host.empty() || owner.host == HostName()) {
    return;
  }
  const std::int64_t changed = ChangedNanoseconds(file_);
  const auto until = Clock::now() + times_.heartbeat * 5 / 2;
  while (Clock::now() < until) {
    if (ChangedNanoseconds(file_) != changed) {
      Refuse(path_, file_);
    }
    std::this_thread::sleep_for(times_.heartbeat / 20);
  }
}

void RunLock::WriteOwner() {
  const std::string text = fmt::format("{} {}\n", HostName(), getpid());
  const bool written =
      ftruncate(file_, 0) == 0 && pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  Require(written, "cannot write '{}': {}", path_, std::generic_category().message(errno));
}

void RunLock::Beat() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, times_.heartbeat, [this] { return ended_; })) {
    futimens(file_, nullptr);
  }
}

}  // namespace trireme
