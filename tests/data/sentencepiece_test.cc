#include <sentencepiece_trainer.h>

#include "base/error.h"
#include "data/tokenizer/tokenizer.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

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
