#include "base/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/patient_open.h"

namespace trireme {
namespace {

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Puts a directory where a full one is. Swaps the names in one step where the file system can, so that no moment exists
// without a directory of that name. Answers as rename() does.
int Replace(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    RemoveTree(from);
    return 0;
  }
  const std::string aside = to + kReplacedSuffix;
  RemoveTree(aside);
  if (::rename(to.c_str(), aside.c_str()) != 0) {
    return -1;
  }
  const int result = ::rename(from.c_str(), to.c_str());
  const int reason = errno;
  if (result != 0) {
    ::rename(aside.c_str(), to.c_str());
  } else {
    RemoveTree(aside);
  }
  errno = reason;
  return result;
}

// Calls `make` with path + ".tmp-" and letters until it finds a free name, and returns that. An Error, with `what` was
// to be made, for another reason than a taken name.
template <typename Make>
std::string MakeUnderFreeName(const std::string& path, const char* what, Make make) {
  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr int kTries = 100;
  std::random_device random;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    std::string name = path + ".tmp-";
    for (int i = 0; i < 6; ++i) {
      name += kLetters[random() % kLetters.size()];
    }
    if (make(name)) {
      return name;
    }
    Require(errno == EEXIST, "cannot make a {} next to '{}': {}", what, path, std::strerror(errno));
  }
  Fail("cannot make a {} next to '{}': every name is taken", what, path);
}

}  // namespace

DurableFile::DurableFile(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  Require(descriptor_ >= 0, "cannot create '{}': {}", path_, std::strerror(errno));
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

void DurableFile::Append(std::span<const std::byte> bytes) {
  WriteAt(size_, bytes);
  size_ += static_cast<std::int64_t>(bytes.size());
}

void DurableFile::Overwrite(std::int64_t offset, std::string_view text) {
  WriteAt(offset, std::as_bytes(std::span(text)));
}

void DurableFile::WriteAt(std::int64_t offset, std::span<const std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put =
        ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done, offset + static_cast<std::int64_t>(done));
    if (put < 0 && errno == EINTR) {
      continue;
    }
    Require(put > 0, "cannot write {} bytes at {} of '{}': {}", bytes.size() - done,
            offset + static_cast<std::int64_t>(done), path_, put < 0 ? std::strerror(errno) : "nothing was taken");
    done += static_cast<std::size_t>(put);
  }
}

void DurableFile::Sync() {
  const int result = ::fsync(descriptor_);
  Require(result == 0, "cannot bring '{}' to the disk: {}", path_, std::strerror(errno));
}

void DurableFile::Close() {
  Sync();
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  const int result = ::close(std::exchange(descriptor_, -1));
  Require(result == 0, "cannot close '{}': {}", path_, std::strerror(errno));
}

void SyncDirectory(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  Require(descriptor >= 0, "cannot open the directory '{}': {}", path, std::strerror(errno));
  const int result = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  // Some network file systems have no fsync for directories; their rename is durable by itself.
  Require(result == 0 || reason == EINVAL, "cannot bring the directory '{}' to the disk: {}", path,
          std::strerror(reason));
}

void MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  Require(!error && std::filesystem::is_directory(path, error), "cannot make the directory '{}': {}", path,
          error ? error.message() : "there is a file of that name");
}

void RefuseLink(const std::string& path) {
  std::error_code error;
  Require(!std::filesystem::is_symlink(std::filesystem::symlink_status(path, error)),
          "'{}' is a symbolic link, which a run does not write through; only its folder itself and checkpoints/ may be "
          "links",
          path);
}

void MoveIntoPlace(const std::string& from, const std::string& to) {
  int result = ::rename(from.c_str(), to.c_str());
  if (result != 0 && (errno == ENOTEMPTY || errno == EEXIST)) {
    result = Replace(from, to);
  }
  Require(result == 0, "cannot rename '{}' to '{}': {}", from, to, std::strerror(errno));
  SyncDirectory(ParentOf(to));
}

void MoveToFreeName(const std::string& from, const std::string& to) {
  int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  if (result != 0 && (errno == EINVAL || errno == ENOSYS)) {
    // A file system that cannot be asked so: a name that appears between the question and the rename is one that
    // another program made in these microseconds; rename() replaces nothing but an empty folder there.
    Require(IsGone(to), "cannot rename '{}' to '{}': it exists already", from, to);
    result = ::rename(from.c_str(), to.c_str());
  }
  Require(result == 0, "cannot rename '{}' to '{}': {}", from, to, std::strerror(errno));
  SyncDirectory(ParentOf(to));
}

std::string MakeTemporaryFolder(const std::string& path) {
  MakeDirectories(ParentOf(path));
  return MakeUnderFreeName(path, "folder", [](const std::string& name) { return ::mkdir(name.c_str(), 0777) == 0; });
}

void ReplaceFile(const std::string& path, std::string_view content) {
  int descriptor = -1;
  const std::string name = MakeUnderFreeName(path, "file", [&](const std::string& free) {
    descriptor = ::open(free.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    return descriptor >= 0;
  });
  std::size_t done = 0;
  bool written = true;
  while (written && done < content.size()) {
    const ssize_t put = ::write(descriptor, content.data() + done, content.size() - done);
    written = put > 0 || (put < 0 && errno == EINTR);
    done += put > 0 ? static_cast<std::size_t>(put) : 0;
  }
  written = written && ::fsync(descriptor) == 0;
  written = ::close(descriptor) == 0 && written;
  if (!written || ::rename(name.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    ::unlink(name.c_str());
    Fail("cannot write '{}': {}", path, std::strerror(reason));
  }
}

bool RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return !std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

std::string ReadWholeFile(const std::string& path, std::int64_t most) {
  const int descriptor = OpenPatiently(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  Require(descriptor >= 0, "cannot open '{}': {}", path, std::strerror(errno));
  struct stat status {};
  std::string text;
  const char* reason = nullptr;
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    reason = "it is not a regular file";
  } else if (status.st_size > most) {
    reason = "it is too long";
  } else {
    text.resize(static_cast<std::size_t>(status.st_size));
    std::size_t done = 0;
    while (reason == nullptr && done < text.size()) {
      const ssize_t got = ::read(descriptor, text.data() + done, text.size() - done);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      reason = got < 0 ? std::strerror(errno) : got == 0 ? "it became shorter while it was read" : nullptr;
      done += got > 0 ? static_cast<std::size_t>(got) : 0;
    }
  }
  ::close(descriptor);
  Require(reason == nullptr, "cannot read '{}' ({} bytes, at most {}): {}", path, status.st_size, most,
          reason == nullptr ? "" : reason);
  return text;
}

bool IsGone(const std::string& path) {
  std::error_code error;
  return !std::filesystem::exists(path, error) && !error;
}

std::int64_t FreeBytes(const std::string& path) {
  struct statvfs status {};
  int result = ::statvfs(path.c_str(), &status);
  for (std::string at = path; result != 0 && errno == ENOENT && at != "." && at != "/";) {
    at = ParentOf(at);
    result = ::statvfs(at.c_str(), &status);
  }
  if (result != 0) {
    return -1;
  }
  return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

}  // namespace trireme
