#include "base/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 16;

// Bytes read into `block`, 0 at the end, below 0 after an error.
ssize_t ReadSome(int descriptor, std::string& block) {
  block.resize(kBlock);
  ssize_t got = -1;
  do {
    got = ::read(descriptor, block.data(), block.size());
  } while (got < 0 && errno == EINTR);
  block.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return got;
}

}  // namespace

std::string ReadTextFile(const std::string& path, std::int64_t most, const char* what) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    Require(errno != ENOENT, "{} '{}' does not exist", what, path);
    Fail("{} '{}' cannot be read: {}", what, path, std::strerror(errno));
  }
  Require(!S_ISDIR(status.st_mode), "{} '{}' is a directory; a file is wanted", what, path);
  Require(S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode), "{} '{}' is a device or a socket; a file is wanted",
          what, path);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  Require(descriptor >= 0, "{} '{}' cannot be read: {}", what, path, std::strerror(errno));
  std::string text;
  std::string block;
  ssize_t got = 0;
  while ((got = ReadSome(descriptor, block)) > 0 && static_cast<std::int64_t>(text.size()) <= most) {
    text += block;
  }
  const int reason = errno;
  ::close(descriptor);
  Require(got >= 0, "{} '{}' cannot be read: {}", what, path, std::strerror(reason));
  Require(static_cast<std::int64_t>(text.size()) <= most, "{} '{}' is larger than {} bytes", what, path, most);
  return text;
}

LineReader::LineReader(const std::string& path) {
  // Opening a FIFO for reading would block without O_NONBLOCK; for regular files the flag means nothing.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (descriptor_ >= 0 && (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
  size_ = descriptor_ >= 0 ? static_cast<std::int64_t>(status.st_size) : 0;
}

LineReader::~LineReader() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

bool LineReader::Fill() {
  at_ = 0;
  block_.clear();
  return descriptor_ >= 0 && ReadSome(descriptor_, block_) > 0;
}

bool LineReader::Next(std::string& line) {
  line.clear();
  torn_ = false;
  bool begun = false;
  bool too_long = false;
  while (at_ < block_.size() || Fill()) {
    const std::size_t end = std::min(block_.find('\n', at_), block_.size());
    begun = true;
    too_long = too_long || line.size() + (end - at_) > kLongestLine;
    if (too_long) {
      line.clear();
    } else {
      line.append(block_, at_, end - at_);
    }
    at_ = std::min(end + 1, block_.size());
    if (end < block_.size()) {
      if (!too_long) {
        return true;
      }
      begun = too_long = false;
    }
  }
  torn_ = begun;
  return begun && !too_long;
}

void LineReader::SkipTo(std::int64_t offset) {
  block_.clear();
  at_ = 0;
  if (descriptor_ < 0 || offset <= 0) {
    return;
  }
  ::lseek(descriptor_, offset - 1, SEEK_SET);
  std::string rest;
  Next(rest);
}

}  // namespace trireme
