#include "report/line_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace trireme {

int AppendLine(int file, const std::string& line) {
  struct stat before {};
  char last = '\n';
  if (::fstat(file, &before) == 0 && before.st_size > 0) {
    [[maybe_unused]] const ssize_t one = ::pread(file, &last, 1, before.st_size - 1);
  }
  const std::string text = (last == '\n' ? "" : "\n") + line + "\n";
  ssize_t put = -1;
  do {
    put = ::write(file, text.data(), text.size());
  } while (put < 0 && errno == EINTR);
  if (put == static_cast<ssize_t>(text.size())) {
    return 0;
  }
  const int reason = put < 0 ? errno : ENOSPC;
  if (put > 0) {
    [[maybe_unused]] const int cut = ::ftruncate(file, before.st_size);  // or the next line begins on a new one
  }
  return reason;
}

LineFile::~LineFile() { ::close(file_); }

void LineFile::set_file(int file) { ::close(std::exchange(file_, file)); }

int LineFile::Add(std::string line) {
  waiting_.push_back(std::move(line));
  return Flush();
}

int LineFile::Flush() {
  while (!waiting_.empty()) {
    if (const int reason = AppendLine(file_, waiting_.front()); reason != 0) {
      return reason;
    }
    waiting_.pop_front();
  }
  return 0;
}

}  // namespace trireme
