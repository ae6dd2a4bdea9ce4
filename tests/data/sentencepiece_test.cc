#include <sentencepiece_trainer.h>

#include "base/error.h"
#include "data/tokenizer/token_table.h"
#include "data/tokenizer/tokenizer.h"
#include "message_of.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::HasSubstr;

TEST(SentencePieceTokenizer, ModelsEncodeAndDecode) {
  const ScratchDirectory scratch;
  std::string corpus;
  for (int i = 0; i < 200; ++i) {
    corpus += fmt::format("The quick brown fox number {} jumps over the lazy dog, naïve café.\n", i);
  }
  WriteBytes(scratch / "corpus.txt", corpus);
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      fmt::format("--input={} --model_prefix={} --vocab_size=330 --model_type=bpe --byte_fallback=true "
                  "--normalization_rule_name=identity --remove_extra_whitespaces=false --minloglevel=2",
                  scratch / "corpus.txt", scratch / "tokenizer"));
  ASSERT_TRUE(status.ok()) << status.ToString();
  const auto tokenizer = LoadTokenizer(scratch.path().string());
  EXPECT_EQ(tokenizer->vocabulary(), 330);
  for (const char* text : {"The lazy fox", "emoji 👍 and 東京", "  two  spaces "}) {
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
  }
  EXPECT_EQ(tokenizer->end_of_text(), tokenizer->FindToken("</s>"));
  EXPECT_TRUE(tokenizer->IsSpecial(*tokenizer->FindToken("<s>")));
  EXPECT_EQ(tokenizer->FindToken("no such piece"), std::nullopt);
  EXPECT_THROW(tokenizer->Decode(std::vector<std::int32_t>{330}), Error);
}

TEST(SentencePieceTokenizer, IsATableOfPiecesWithScores) {
  const ScratchDirectory scratch;
  WriteBytes(scratch / "corpus.txt", "The quick brown fox jumps over the lazy dog again and again and again.\n");
  const auto train = [&](const std::string& type) {
    return sentencepiece::SentencePieceTrainer::Train(
        fmt::format("--input={} --model_prefix={} --vocab_size=300 --model_type={} --byte_fallback=true "
                    "--hard_vocab_limit=false --add_dummy_prefix=true --user_defined_symbols=<|turn|> --minloglevel=2",
                    scratch / "corpus.txt", scratch / "tokenizer", type));
  };
  ASSERT_TRUE(train("bpe").ok());
  const TokenTable table = ReadTokenTable(scratch.path().string(), 1 << 20);
  const auto tokenizer = LoadTokenizer(scratch.path().string());
  ASSERT_EQ(static_cast<std::int64_t>(table.tokens.size()), tokenizer->vocabulary());
  EXPECT_TRUE(table.sentence_pieces);
  EXPECT_TRUE(table.add_prefix_space);
  EXPECT_TRUE(table.add_beginning);
  EXPECT_EQ(table.end, tokenizer->end_of_text());
  const auto kind = [&](const char* text) {
    return table.tokens[static_cast<std::size_t>(*tokenizer->FindToken(text))].kind;
  };
  EXPECT_EQ(kind("<unk>"), TokenRole::kUnknown);
  EXPECT_EQ(kind("<s>"), TokenRole::kControl);
  EXPECT_EQ(kind("<|turn|>"), TokenRole::kUserDefined);
  EXPECT_EQ(kind("<0x41>"), TokenRole::kByte);
  EXPECT_EQ(table.tokens.back().kind, TokenRole::kNormal);
  EXPECT_LT(table.tokens.back().score, 0);
  EXPECT_FALSE(table.unigrams);
  ASSERT_TRUE(train("unigram").ok());
  const TokenTable unigrams = ReadTokenTable(scratch.path().string(), 1 << 20);
  EXPECT_TRUE(unigrams.sentence_pieces);
  EXPECT_TRUE(unigrams.unigrams);
  EXPECT_LT(unigrams.tokens.back().score, 0);
  EXPECT_FALSE(unigrams.character_map.empty()) << "NFKC is the library's default";
  EXPECT_TRUE(unigrams.normalizes);
  ASSERT_TRUE(train("char").ok());
  EXPECT_THROW(ReadTokenTable(scratch.path().string(), 1 << 20), Error);
}

// Field `field` of a protocol buffer's message, as bytes.
std::string Field(char field, const std::string& text) {
  std::string size;
  for (std::size_t left = text.size();; left >>= 7U) {
    size += static_cast<char>((left & 0x7fU) | (left > 0x7f ? 0x80U : 0U));
    if (left <= 0x7f) {
      break;
    }
  }
  return std::string(1, static_cast<char>(field << 3 | 2)) + size + text;
}

// A model of one piece, as sentencepiece_model.proto numbers the fields.
std::string ModelWithPiece(const std::string& piece) {
  const std::string unknown = Field(1, Field(1, "<unk>") + std::string("\x18\x02", 2));
  return unknown + Field(1, Field(1, piece));
}

std::string ModelWithCharacterMap(const std::string& map, char message = 3) {
  return ModelWithPiece("a") + Field(message, Field(2, map));
}

// 256 units of a trie: the root leads to the children at 0 ^ letter; 'a' ends at a text that starts at `text`.
std::string CharacterMap(std::uint32_t root, std::uint32_t letter, std::uint32_t text, const std::string& texts) {
  std::vector<std::uint32_t> units(256, 0);
  units[0] = root;
  units['a'] = letter;
  units['a' ^ 1] = text | 1U << 31U;
  std::string map;
  for (const std::uint32_t word : units) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      map += static_cast<char>(word >> shift & 0xffU);
    }
  }
  return std::string("\0\x04\0\0", 4) + map + texts;
}

// The library would read outside of the map, or run without end.
TEST(SentencePieceTokenizer, CharacterMapsThatLeadOutsideAreRefused) {
  const ScratchDirectory scratch;
  const auto outcome = [&](const std::string& map, char message = 3) -> std::string {
    WriteBytes(scratch / "tokenizer.model", ModelWithCharacterMap(map, message));
    try {
      LoadTokenizer(scratch / "tokenizer.model")->Encode("aaa");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  constexpr std::uint32_t kToText = 1U << 10U | 1U << 8U | 'a';  // one unit on, where the text's place stands
  const std::string texts("b\0", 2);
  EXPECT_EQ(outcome(CharacterMap(0, kToText, 0, texts)), "");
  EXPECT_THAT(outcome(CharacterMap(0, kToText, 2, texts)), HasSubstr("names a text outside"));
  EXPECT_THAT(outcome(CharacterMap(0, kToText, 1U << 30U, texts)), HasSubstr("names a text outside"));
  EXPECT_THAT(outcome(CharacterMap(0, kToText, 0, "b")), HasSubstr("have no end"));
  EXPECT_THAT(outcome(CharacterMap(1U << 30U, kToText, 0, texts)), HasSubstr("leads outside"));
  EXPECT_THAT(outcome(CharacterMap(1U << 31U | 1U << 30U, kToText, 0, texts)), HasSubstr("leads outside"));
  EXPECT_THAT(outcome(CharacterMap(0, 1U << 30U | 'a', 0, texts)), HasSubstr("leads outside"));
  EXPECT_THAT(outcome(CharacterMap(0, 1U << 30U | 'a', 0, texts), 5), HasSubstr("leads outside"));
  EXPECT_THAT(outcome(CharacterMap(0, 0, 0, texts).substr(0, 900)), HasSubstr("bytes of"));
  EXPECT_THAT(outcome(std::string("\x03\0\0\0abcd", 8)), HasSubstr("bytes of"));
  EXPECT_THAT(outcome("abc"), HasSubstr("has 3 bytes"));
  WriteBytes(scratch / "tokenizer.model", ModelWithCharacterMap("") + "\x0b");
  EXPECT_THAT(MessageOf([&] { LoadTokenizer(scratch / "tokenizer.model"); }), HasSubstr("of the kind 3"));
}

TEST(SentencePieceTokenizer, PiecesThatTheLibraryThrowsAtAreRefused) {
  const ScratchDirectory scratch;
  for (const std::string& piece : {std::string("\0b", 2), std::string()}) {
    WriteBytes(scratch / "tokenizer.model", ModelWithPiece(piece));
    EXPECT_THAT(MessageOf([&] { LoadTokenizer(scratch / "tokenizer.model"); }),
                HasSubstr("tokenizer.model' is not a SentencePiece model"));
  }
}

TEST(SentencePieceTokenizer, OtherFilesAreRefused) {
  const ScratchDirectory scratch;
  for (const std::string& bytes : {std::string(), std::string("not a model"), std::string(1000, '\xff')}) {
    WriteBytes(scratch / "tokenizer.model", bytes);
    try {
      LoadTokenizer(scratch / "tokenizer.model");
      ADD_FAILURE() << "accepted " << bytes.size() << " bytes";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("tokenizer.model"));
    }
  }
}

}  // namespace
}  // namespace trireme
