// A file being appended to through a buffer. A full disk or any other fault is an Error with the path. Closing without
// Close() drops what is still buffered: an output counts only once it has been renamed to its final name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

class OutputFile {
 public:
  // Creates the file, or keeps its first `keep` bytes and appends after them.
  explicit OutputFile(std::string path, std::int64_t keep = 0);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  // Bytes appended so far, buffered ones included.
  std::int64_t size() const { return written_ + static_cast<std::int64_t>(buffer_.size()); }
  void Append(std::span<const std::byte> bytes);
  template <typename Value>
  void AppendValue(const Value& value) {
    Append(std::as_bytes(std::span(&value, 1)));
  }
  // Everything appended so far survives a power cut once this returns.
  void Sync();
  // Sync() and close.
  void Close();

 private:
  void Flush();

  std::string path_;
  int descriptor_ = -1;
  std::int64_t written_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace trireme
