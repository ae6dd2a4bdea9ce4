// The bytes of a text file from its start, unpacked on the way if it is gzip or Zstandard (told by its first bytes, not
// its name). A damaged or cut archive is an Error that names the file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace trireme {

class TextStream {
 public:
  virtual ~TextStream() = default;
  // Fills `out` as far as the text goes; fewer bytes than asked for mean its end.
  virtual std::size_t Read(std::span<char> out) = 0;
  // Drops the next `bytes` of text; an Error if there are fewer.
  virtual void Skip(std::int64_t bytes) = 0;
  // Bytes of the stored file that have been used.
  virtual std::int64_t stored_position() const = 0;
};

std::unique_ptr<TextStream> OpenTextStream(const std::string& path);

}  // namespace trireme
