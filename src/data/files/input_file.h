// A regular file opened for reading at any offset. Reads are pread() calls, so any thread may read at any time and a
// file that shrinks while a run holds it is an Error at the read, never a SIGBUS as a mapping would give.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace trireme {

class InputFile {
 public:
  // An Error names the file if it cannot be opened or is not a regular file.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  // Size when it was opened.
  std::int64_t size() const { return size_; }
  // Fills `out` with the bytes from `offset` on; fewer bytes than that is an Error.
  void Read(std::int64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace trireme
