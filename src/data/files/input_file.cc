#include "data/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/patient_open.h"

namespace trireme {

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // Opening a FIFO for reading would block for ever without O_NONBLOCK; for regular files the flag means nothing.
  descriptor_ = OpenPatiently(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  Require(descriptor_ >= 0, "cannot open '{}': {}", path_, std::strerror(errno));
  struct stat status {};
  const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    ::close(descriptor_);
    Fail("'{}' is not a regular file", path_);
  }
  size_ = status.st_size;
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::Read(std::int64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(descriptor_, out.data() + done, out.size() - done, offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    Require(got >= 0, "cannot read {} bytes at {} of '{}': {}", out.size(), offset, path_, std::strerror(errno));
    Require(got > 0, "'{}' ends at byte {}, inside a read of {} bytes at {}: it had {} bytes when it was opened", path_,
            offset + static_cast<std::int64_t>(done), out.size(), offset, size_);
    done += static_cast<std::size_t>(got);
  }
}

}  // namespace trireme
