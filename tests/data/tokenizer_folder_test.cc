#include "data/tokenizer/tokenizer_folder.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

TEST(TokenizerFolder, FilesThatBelongTogetherTravelTogether) {
  const ScratchDirectory folder;
  std::filesystem::create_directory(folder / "model");
  WriteBytes(folder / "model/tokenizer.json", "t");
  WriteBytes(folder / "model/tokenizer_config.json", "c");
  WriteBytes(folder / "model/merges.txt", "m");
  WriteBytes(folder / "model/model.safetensors", "weights");
  CopyTokenizer(folder / "model", folder / "new/place");
  EXPECT_EQ(ReadBytes(folder / "new/place/tokenizer.json"), "t");
  EXPECT_EQ(ReadBytes(folder / "new/place/tokenizer_config.json"), "c");
  EXPECT_EQ(ReadBytes(folder / "new/place/merges.txt"), "m");
  EXPECT_FALSE(std::filesystem::exists(folder / "new/place/model.safetensors"));
  EXPECT_EQ(FindTokenizer(folder / "new/place"), folder / "new/place/tokenizer.json");
}

TEST(TokenizerFolder, AFileOfAnyNameGetsTheUsualOne) {
  const ScratchDirectory folder;
  WriteBytes(folder / "english.json", "e");
  WriteBytes(folder / "pieces.model", "p");
  CopyTokenizer(folder / "english.json", folder / "a");
  EXPECT_EQ(ReadBytes(folder / "a/tokenizer.json"), "e");
  CopyTokenizer(folder / "pieces.model", folder / "b");
  EXPECT_EQ(ReadBytes(folder / "b/tokenizer.model"), "p");
  EXPECT_EQ(FindTokenizer(folder / "b"), folder / "b/tokenizer.model");
}

TEST(TokenizerFolder, AnotherTokenizerBesideTheFileStaysThere) {
  const ScratchDirectory folder;
  WriteBytes(folder / "tokenizer.json", "another");
  WriteBytes(folder / "merges.txt", "another's");
  WriteBytes(folder / "8k.json", "mine");
  CopyTokenizer(folder / "8k.json", folder / "a");
  EXPECT_EQ(ReadBytes(folder / "a/tokenizer.json"), "mine");
  EXPECT_FALSE(std::filesystem::exists(folder / "a/merges.txt"));
  EXPECT_FALSE(SameTokenizer(folder / "a", folder.path()));
  CopyTokenizer(folder.path(), folder / "b");
  EXPECT_TRUE(SameTokenizer(folder / "b", folder.path()));
}

TEST(TokenizerFolder, BytesAndFoldersWithoutOneLeaveNothing) {
  const ScratchDirectory folder;
  CopyTokenizer("bytes", folder / "a");
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  CopyTokenizer(folder.path(), folder / "b");
  EXPECT_FALSE(std::filesystem::exists(folder / "b"));
  EXPECT_EQ(FindTokenizer(folder.path()), "");
}

TEST(TokenizerFolder, OntoItselfIsNoCopyAndAFileInTheWayIsAnError) {
  const ScratchDirectory folder;
  WriteBytes(folder / "tokenizer.json", "t");
  CopyTokenizer(folder / "tokenizer.json", folder.path());
  EXPECT_EQ(ReadBytes(folder / "tokenizer.json"), "t");
  WriteBytes(folder / "file", "x");
  EXPECT_THROW(CopyTokenizer(folder / "tokenizer.json", folder / "file/under"), Error);
}

}  // namespace
}  // namespace trireme
