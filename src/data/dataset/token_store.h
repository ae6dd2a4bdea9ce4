// A stored stream of tokens cut into documents, readable at any position by any thread. Memory does not grow with the
// stream.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme {

class TokenStore {
 public:
  virtual ~TokenStore() = default;
  virtual const std::string& path() const = 0;
  virtual std::int64_t tokens() const = 0;
  virtual std::int64_t documents() const = 0;
  // One more than the largest token that the storage can hold.
  virtual std::int64_t token_limit() const = 0;
  // Fills `out` with the tokens from `first` on; [first, first + out.size()) lies within the stream.
  virtual void Read(std::int64_t first, std::span<std::int32_t> out) const = 0;
  // Where the document that holds token `position` starts.
  virtual std::int64_t DocumentStart(std::int64_t position) const = 0;
  // Starts of the documents that begin inside (first, last), ascending.
  virtual std::vector<std::int64_t> DocumentStartsBetween(std::int64_t first, std::int64_t last) const = 0;
  // Whether documents are conversations: sequences that are in turn read and answered.
  virtual bool has_answers() const { return false; }
  // A mask of the tokens from `first` on: 1 for those of answers, 0 for the others.
  virtual void AnswerMask(std::int64_t /*first*/, std::span<std::uint8_t> out) const {
    std::fill(out.begin(), out.end(), std::uint8_t{0});
  }
};

// The bytes of any file as one document of tokens 0..255.
std::unique_ptr<TokenStore> OpenByteStore(const std::string& path);

}  // namespace trireme
