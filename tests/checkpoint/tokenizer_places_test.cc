#include "checkpoint/tools/tokenizer_places.h"

#include <gtest/gtest.h>

#include "scratch_directory.h"

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

TEST(TokenizerPlaces, ARecipeInACheckpointNamesNothingOutsideItsFolder) {
  const ScratchDirectory folder;
  const std::string secret = folder / "secret";
  std::filesystem::create_directories(secret);
  WriteBytes(secret + "/tokenizer.json", "{}");
  std::filesystem::create_directories(folder / "run/checkpoints/step-000001");
  RunConfig config;
  config.data.source = secret + "/x.bin";
  ModelPlace place{.path = folder / "run", .checkpoint = folder / "run/checkpoints/step-000001"};
  place.state.recipe = ToToml(config);
  EXPECT_EQ(FindTokenizerOf(place), "");
  // Nor by a link that leads there.
  std::filesystem::create_directory_symlink(secret, folder / "run/data");
  config.data.source = (folder / "run/data") + "/x.bin";
  place.state.recipe = ToToml(config);
  EXPECT_EQ(FindTokenizerOf(place), "");
  std::filesystem::remove(folder / "run/data");
  std::filesystem::create_directories(folder / "run/data");
  WriteBytes(folder / "run/data/tokenizer.json", "{}");
  EXPECT_EQ(FindTokenizerOf(place), folder / "run/data");
}

}  // namespace
}  // namespace trireme
