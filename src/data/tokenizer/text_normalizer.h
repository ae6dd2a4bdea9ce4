// The Unicode normal forms that some tokenizers apply before they split (by ICU). Immutable once made; any thread may
// use it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };

class TextNormalizer {
 public:
  // Applies the forms one after the other.
  explicit TextNormalizer(const std::vector<NormalForm>& forms);
  ~TextNormalizer();
  bool empty() const;
  // As Hugging Face's library has it, that is by Unicode 9.0: later characters stay as they are. Ill-formed UTF-8
  // becomes U+FFFD in text beyond ASCII.
  std::string operator()(std::string_view text) const;

 private:
  struct Forms;
  std::unique_ptr<Forms> forms_;
};

}  // namespace trireme
