#include "checkpoint/tokenizer_places.h"

#include <gtest/gtest.h>

#include "data/scratch_directory.h"

namespace trireme {
namespace {

TEST(TokenizerPlaces, ABlendHasTheTokenizerOfAnyOfItsParts) {
  const ScratchDirectory folder;
  std::filesystem::create_directory(folder / "b.tokenizer");
  WriteBytes(folder / "b.tokenizer/tokenizer.json", "b");
  RunConfig config;
  config.data.source = "0.3 " + (folder / "a.bin") + " 0.7 " + (folder / "b.bin");
  EXPECT_EQ(FindTokenizerOf(config), folder / "b.tokenizer");
  config.data.source = folder / "a.bin";
  EXPECT_EQ(FindTokenizerOf(config), "");
  WriteBytes(folder / "tokenizer.json", "beside");
  EXPECT_EQ(FindTokenizerOf(config), folder.path());
  config.data.source = "synthetic";
  EXPECT_EQ(FindTokenizerOf(config), "");
}

}  // namespace
}  // namespace trireme
