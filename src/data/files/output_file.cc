#include "data/files/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

}  // namespace

OutputFile::OutputFile(std::string path, std::int64_t keep) : path_(std::move(path)), written_(keep) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  Require(descriptor_ >= 0, "cannot write '{}': {}", path_, std::strerror(errno));
  struct stat status {};
  const bool long_enough = ::fstat(descriptor_, &status) == 0 && status.st_size >= keep;
  const bool positioned =
      long_enough && ::ftruncate(descriptor_, keep) == 0 && ::lseek(descriptor_, keep, SEEK_SET) == keep;
  if (!positioned) {
    ::close(descriptor_);
    Fail("cannot append to '{}' after byte {}: it has {} bytes", path_, keep,
         static_cast<std::int64_t>(status.st_size));
  }
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

void OutputFile::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), kBufferBytes - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (buffer_.size() == kBufferBytes) {
      Flush();
    }
  }
}

void OutputFile::Flush() {
  for (std::size_t done = 0; done < buffer_.size();) {
    const ssize_t put = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (put < 0 && errno == EINTR) {
      continue;
    }
    Require(put >= 0, "cannot write to '{}' after {} bytes: {}", path_, written_, std::strerror(errno));
    done += static_cast<std::size_t>(put);
    // The disk starts now, so that a sync has little left to wait for.
    ::sync_file_range(descriptor_, written_, put, SYNC_FILE_RANGE_WRITE);
    written_ += put;
  }
  buffer_.clear();
}

void OutputFile::Sync() {
  Flush();
  const int result = ::fsync(descriptor_);
  Require(result == 0, "cannot sync '{}': {}", path_, std::strerror(errno));
}

void OutputFile::Close() {
  Sync();
  const int descriptor = std::exchange(descriptor_, -1);
  const int result = ::close(descriptor);
  Require(result == 0, "cannot close '{}': {}", path_, std::strerror(errno));
}

}  // namespace trireme
