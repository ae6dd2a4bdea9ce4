#include <sentencepiece_trainer.h>

#include "base/error.h"
#include "data/tokenizer/token_table.h"
#include "data/tokenizer/tokenizer.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

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
  const TokenTable table = ReadTokenTable(scratch.path().string());
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
  const TokenTable unigrams = ReadTokenTable(scratch.path().string());
  EXPECT_TRUE(unigrams.sentence_pieces);
  EXPECT_TRUE(unigrams.unigrams);
  EXPECT_LT(unigrams.tokens.back().score, 0);
  EXPECT_FALSE(unigrams.character_map.empty()) << "NFKC is the library's default";
  EXPECT_TRUE(unigrams.normalizes);
  ASSERT_TRUE(train("char").ok());
  EXPECT_THROW(ReadTokenTable(scratch.path().string()), Error);
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
