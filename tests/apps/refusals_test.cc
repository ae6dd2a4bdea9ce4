// What is said before, not after: of schedules in files, damaged lines, tokens and models that no export takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/program.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ScheduleProgram, TakesItsCountsFromTheFile) {
  const Workplace place;
  const Outcome made = place.Run({"schedule", "1f1b", "--stages", "2", "--micro-batches", "3", "--text"});
  ASSERT_EQ(made.code, 0) << made.err;
  place.Write("own.schedule", made.out);
  const Outcome read = place.Run({"schedule", "own.schedule", "--text"});
  EXPECT_EQ(read.code, 0) << read.err;
  EXPECT_EQ(read.out, made.out);
  const Outcome other = place.Run({"schedule", "own.schedule", "--stages", "3"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("is for 2 stages"));
}

TEST(DataProgram, DamagedLinesAreLeftOutAndCountedOnRequest) {
  const Workplace place;
  place.Write("corpus.jsonl",
              "{\"text\":\"one\"}\n{\"text\":\"tw\n{\"text\":\"\\ud800\"}\n{\"words\":1}\n{\"text\":\"five\"}\n");
  const std::vector<std::string> prepare = {"data",   "prepare",  "corpus.jsonl", "--tokenizer", "bytes",
                                            "--json", "--output", "corpus",       "--overwrite"};
  const Outcome refused = place.Run(prepare);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("corpus.jsonl:2"));
  std::vector<std::string> skipping = prepare;
  skipping.emplace_back("--skip-damaged");
  const Outcome prepared = place.Run(skipping);
  EXPECT_EQ(prepared.code, 0) << prepared.err;
  EXPECT_THAT(prepared.out, HasSubstr("\"documents\":2,"));
  EXPECT_THAT(prepared.out, HasSubstr("\"damaged_lines\":3,"));
  EXPECT_THAT(prepared.err, testing::AllOf(HasSubstr("left out 3 damaged lines"), HasSubstr("corpus.jsonl:2")));
}

TEST(TrainProgram, TokensOutsideTheVocabularyAreFoundBeforeTheRunFolderIsWritten) {
  const Workplace place;
  place.Write("tiny.toml", TinyRecipe());
  place.Write("corpus.txt", std::string(2000, 'A') + std::string(2000, 'z'));
  ASSERT_EQ(place.Run({"data", "prepare", "corpus.txt", "--tokenizer", "bytes", "--output", "corpus"}).code, 0);
  const Outcome outcome = place.Run({"train", "tiny.toml", "--ranks", "8", "--steps", "1", "--run", "run", "--set",
                                     "data.source=corpus.bin", "--set", "model.vocabulary=100"});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("token 122 at position 2000"));
  EXPECT_FALSE(place.Has("run"));
}

TEST(TrainProgram, AModelThatNoExportTakesIsSaidBeforeItIsTrained) {
  const Workplace place;
  place.Write("tiny.toml", TinyRecipe());
  for (const char* family : {"bloom", "mpt"}) {
    const auto train = [&](const char* ffn) {
      const Outcome outcome = place.Run({"train", "tiny.toml", "--ranks", "8", "--steps", "1", "--run", "run",
                                         "--no-checkpoint", "--set", std::string("model.family=") + family, "--set",
                                         std::string("model.ffn=") + ffn, "--set", "model.hidden=32"});
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      return outcome.out;
    };
    EXPECT_THAT(train("96"), HasSubstr("warning: Hugging Face has no such model: model.ffn = 96")) << family;
    EXPECT_THAT(train("128"), Not(HasSubstr("Hugging Face"))) << family;
  }
}

}  // namespace
}  // namespace trireme
