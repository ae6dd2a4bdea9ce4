#include "base/error.h"
#include "data/tokenizer/sentencepiece_tokenizer.h"

namespace trireme {

std::unique_ptr<Tokenizer> LoadSentencePiece(const std::string& path, const TokenizerOptions&) {
  Fail("'{}' is a SentencePiece model, and this program was built without the SentencePiece library", path);
}

TokenTable ReadSentencePieceTable(const std::string& path) {
  Fail("'{}' is a SentencePiece model, and this program was built without the SentencePiece library", path);
}

}  // namespace trireme
