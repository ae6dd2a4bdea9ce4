// Text files that others wrote, read within bounds: a device that never ends, or a line that does not, fills no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace trireme {

// The whole text that a user named: a file or a pipe of at most `most` bytes. `what` names it in errors ("recipe").
std::string ReadTextFile(const std::string& path, std::int64_t most, const char* what);

// The lines of a regular file, links followed, one after the other. One thread uses a LineReader.
class LineReader {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20;

  // A name that no regular file has opens a file without lines: a FIFO does not block.
  explicit LineReader(const std::string& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line without its end; false when there is none. Lines longer than kLongestLine are left out.
  bool Next(std::string& line);
  // Whether a file was opened.
  bool is_open() const { return descriptor_ >= 0; }
  // Whether the last line that Next gave had no end.
  bool torn() const { return torn_; }
  // Goes on after the next end of a line from `offset` on, or at 0.
  void SkipTo(std::int64_t offset);
  std::int64_t size() const { return size_; }

 private:
  bool Fill();

  int descriptor_ = -1;
  std::int64_t size_ = 0;
  std::string block_;
  std::size_t at_ = 0;  // in block_
  bool torn_ = false;
};

}  // namespace trireme
