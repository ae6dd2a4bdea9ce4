#include <filesystem>

#include "base/error.h"
#include "base/random.h"
#include "checkpoint/saved_world.h"
#include "checkpoint/tools/reports.h"

namespace trireme {
namespace {

using testing::HasSubstr;

constexpr int kFlips = 1000;

ParallelLayout TwoRanks() {
  ParallelLayout layout;
  layout.tensor = 2;
  return layout;
}

class Damage : public testing::Test {
 protected:
  Damage() : table_(TinyModel("llama")) {
    SaveWorld(folder_.path(), table_, TwoRanks(), 1);
    SaveWorld(folder_.path(), table_, TwoRanks(), 2);
  }
  std::string File(const std::string& name) const { return folder_ / ("step-000002/" + name); }

  // Opens and reads everything; the message of what went wrong.
  std::string LoadError() const {
    try {
      const CheckpointReader reader(folder_ / "step-000002");
      WrongValues(reader, table_, {}, 2);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::int64_t NewestStep() const { return FindNewest(folder_.path())->checkpoint.step; }

  ParameterTable table_;
  TestFolder folder_;
};

TEST_F(Damage, EveryFlippedBitIsFound) {
  const std::vector<std::string> files = {"manifest.json", "shard-00000.safetensors", "shard-00001.safetensors"};
  int found = 0;
  for (int i = 0; i < kFlips; ++i) {
    const std::string path = File(files[static_cast<std::size_t>(i) % files.size()]);
    const std::string good = ReadBytes(path);
    std::string bad = good;
    const std::uint64_t bit = RandomBelow(5, static_cast<std::uint64_t>(i), good.size() * 8);
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    WriteBytes(path, bad);
    const bool loaded_wrong = LoadError().empty();
    const bool verified_wrong = VerifyCheckpoint(folder_ / "step-000002").status == 0;
    EXPECT_FALSE(loaded_wrong || verified_wrong) << path << " bit " << bit;
    found += loaded_wrong || verified_wrong ? 0 : 1;
    WriteBytes(path, good);
  }
  EXPECT_EQ(found, kFlips);
  std::printf("score: %d of %d flipped bits found\n", found, kFlips);
  EXPECT_EQ(LoadError(), "");
}

TEST_F(Damage, InDataIsReportedWithFileTensorAndOffset) {
  const CheckpointReader reader(folder_ / "step-000002");
  const StoredTensor* tensor = reader.Find("block.1.mlp.in.weight", kFirstMomentKind);
  const StoredSlice stored = reader.Slices(*tensor)[1];
  const std::string path = File(reader.manifest().shards[static_cast<std::size_t>(stored.shard)].file);
  std::string bytes = ReadBytes(path);
  bytes[static_cast<std::size_t>(stored.slice.offset) + 5] ^= 1;
  WriteBytes(path, bytes);
  EXPECT_EQ(NewestStep(), 2) << "data is not read to find the newest";
  const std::string message = LoadError();
  EXPECT_THAT(message, HasSubstr(path));
  EXPECT_THAT(message, HasSubstr("first_moment block.1.mlp.in.weight"));
  EXPECT_THAT(message, HasSubstr("byte offset " + std::to_string(stored.slice.offset)));
  const Report report = VerifyCheckpoint(folder_ / "step-000002");
  EXPECT_EQ(report.status, 1);
  EXPECT_THAT(report.text, HasSubstr("byte offset " + std::to_string(stored.slice.offset)));
  EXPECT_THAT(report.json, HasSubstr("\"offset\": " + std::to_string(stored.slice.offset)));
}

TEST_F(Damage, VerifyListsEveryFaultAndEveryCheckpoint) {
  const CheckpointReader reader(folder_ / "step-000002");
  for (const char* name : {"embedding.token", "head.norm.gain"}) {
    const StoredSlice stored = reader.Slices(*reader.Find(name, kMasterKind))[0];
    const std::string path = File(reader.manifest().shards[static_cast<std::size_t>(stored.shard)].file);
    std::string bytes = ReadBytes(path);
    bytes[static_cast<std::size_t>(stored.slice.offset)] ^= 4;
    WriteBytes(path, bytes);
  }
  const Report report = VerifyCheckpoint(folder_.path());
  EXPECT_EQ(report.status, 1);
  EXPECT_THAT(report.text, HasSubstr("master embedding.token"));
  EXPECT_THAT(report.text, HasSubstr("master head.norm.gain"));
  EXPECT_THAT(report.text, HasSubstr("step-000001: good"));
  EXPECT_THAT(report.text, HasSubstr("step-000002: damaged"));
}

TEST_F(Damage, OfAFileMakesTheOneBeforeTheNewest) {
  const std::string shard = File("shard-00001.safetensors");
  const std::string good = ReadBytes(shard);
  const std::string earlier = ReadBytes(folder_ / "step-000001/shard-00001.safetensors");
  const std::string other_rank = ReadBytes(File("shard-00000.safetensors"));
  const std::string cases[] = {
      good.substr(0, good.size() - 1), good.substr(0, good.size() - 4096), "", good + "x", other_rank, earlier};
  for (const std::string& bytes : cases) {
    WriteBytes(shard, bytes);
    std::vector<std::string> refused;
    const auto found = FindNewest(folder_.path(), INT64_MAX, &refused);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->checkpoint.step, 1);
    ASSERT_EQ(refused.size(), 1U);
    EXPECT_THAT(refused[0], HasSubstr(shard));
    const Report report = VerifyCheckpoint(folder_ / "step-000002");
    EXPECT_EQ(report.status, 1);
    EXPECT_THAT(report.text, HasSubstr("shard-00001.safetensors"));
  }
  std::filesystem::remove(shard);
  EXPECT_EQ(NewestStep(), 1);
  WriteBytes(shard, good);
  EXPECT_EQ(NewestStep(), 2);
}

TEST_F(Damage, AMissingOrEmptyManifestMakesTheOneBeforeTheNewest) {
  const std::string good = ReadBytes(File("manifest.json"));
  WriteBytes(File("manifest.json"), "");
  EXPECT_EQ(NewestStep(), 1);
  WriteBytes(File("manifest.json"), good.substr(0, good.size() / 2));
  EXPECT_EQ(NewestStep(), 1);
  std::filesystem::remove(File("manifest.json"));
  EXPECT_EQ(NewestStep(), 1);
  EXPECT_EQ(VerifyCheckpoint(folder_.path()).status, 1);
}

TEST_F(Damage, OfEveryCheckpointLeavesNoneAndSaysWhy) {
  for (const char* step : {"step-000001", "step-000002"}) {
    std::filesystem::remove(folder_ / (std::string(step) + "/shard-00000.safetensors"));
  }
  std::vector<std::string> refused;
  EXPECT_FALSE(FindNewest(folder_.path(), INT64_MAX, &refused).has_value());
  EXPECT_EQ(refused.size(), 2U);
  EXPECT_THROW(ResolveCheckpoint(folder_.path()), Error);
}

TEST_F(Damage, AShardThatIsALinkIsRefused) {
  const std::string shard = File("shard-00001.safetensors");
  std::filesystem::rename(shard, folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", shard);
  EXPECT_THAT(LoadError(), HasSubstr("symbolic link"));
}

}  // namespace
}  // namespace trireme
