// The index of a checkpoint: what it says, that groups of ranks make the same one, and what happens without it.
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/random.h"
#include "checkpoint/format/checkpoint_index.h"
#include "checkpoint/saved_world.h"
#include "checkpoint/tools/reports.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// A manifest as version 2 wrote it: without the member that names the index.
std::string WithoutIndex(const std::string& text) {
  const std::size_t from = text.find("\"index\": {");
  const std::size_t to = text.find("},", from) + 2;
  std::string body = text.substr(0, from) + text.substr(text.find('"', to));
  const std::size_t version = body.find("\"version\": 3");
  body[version + 11] = '2';
  body.resize(body.rfind(",\n \"digest\""));
  return body + ",\n \"digest\":\"" + ToHex(DigestOf(body)) + "\"}\n";
}

class Index : public testing::Test {
 protected:
  Index() : table_(TinyModel("llama")) { SaveWorld(folder_.path(), table_, layout_, 1); }
  std::string File(const std::string& name) const { return folder_ / ("step-000001/" + name); }
  std::string Checkpoint() const { return folder_ / "step-000001"; }
  std::int64_t Wrong() const { return WrongValues(CheckpointReader(Checkpoint()), table_, Zero1(1, 3), 1); }

  ParameterTable table_;
  TestFolder folder_;
  ParallelLayout layout_ = Zero1(2, 20);  // 40 ranks: two groups
};

TEST_F(Index, SaysWhatTheHeadersSay) {
  const CheckpointReader by_index(Checkpoint());
  EXPECT_EQ(by_index.index_problem(), "");
  EXPECT_EQ(by_index.shards(), layout_.ranks());
  const std::string index = ReadBytes(File(kIndexFile));
  std::filesystem::remove(File(kIndexFile));
  const CheckpointReader by_headers(Checkpoint());
  EXPECT_THAT(by_headers.index_problem(), HasSubstr(kIndexFile));
  EXPECT_EQ(by_headers.index().bytes(), index) << "40 ranks in groups index what one reader finds";
}

TEST_F(Index, OfGroupsIsThatOfOneProcess) {
  SaveTask task{.folder = folder_ / "alone", .step = 1, .ranks = layout_.ranks()};
  for (task.rank = 0; task.rank < task.ranks; ++task.rank) {
    WriteShard(task, Views(SlicesOfRank(table_, layout_, static_cast<int>(task.rank), 1)));
  }
  task.rank = 0;
  CommitCheckpoint(task, StateAt(table_.config(), 1), {.seconds = 0, .groups = false});
  EXPECT_EQ(ReadBytes(folder_ / "alone/step-000001/index.bin"), ReadBytes(File(kIndexFile)));
  for (const auto& entry : std::filesystem::directory_iterator(Checkpoint())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("group-")) << "parts are removed";
  }
}

TEST_F(Index, SlicesOfARangeAreThoseThatOverlapIt) {
  const CheckpointReader reader(Checkpoint());
  for (const StoredTensor& tensor : reader.tensors()) {
    const std::vector<StoredSlice> all = reader.Slices(tensor);
    const std::int64_t count = tensor.about.shape.count();
    for (const auto& [low, high] :
         {std::pair{std::int64_t{0}, count / 2}, {count / 3, count / 3 + 1}, {count - 1, count}}) {
      std::vector<std::int64_t> expected;
      for (const StoredSlice& each : all) {
        if (LowestOf(each.slice.pieces) < high && HighestOf(each.slice.pieces) > low) {
          expected.push_back(each.shard);
        }
      }
      std::vector<std::int64_t> found;
      for (const StoredSlice& each : reader.Slices(tensor, {.low = low, .high = high})) {
        found.push_back(each.shard);
      }
      EXPECT_EQ(found, expected) << tensor.about.name;
    }
  }
}

TEST_F(Index, WhenDamagedIsDoneWithoutAndMended) {
  const std::string good = ReadBytes(File(kIndexFile));
  const std::string manifest = ReadBytes(File(kManifestFile));
  std::string flipped = good;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  for (const std::string& bad : {flipped, good.substr(0, good.size() - 1), std::string(), good + "x"}) {
    WriteBytes(File(kIndexFile), bad);
    EXPECT_EQ(Wrong(), 0);
    EXPECT_EQ(FindNewest(folder_.path())->checkpoint.step, 1);
    const Report report = VerifyCheckpoint(Checkpoint());
    EXPECT_EQ(report.status, 1);
    EXPECT_THAT(report.text, HasSubstr("--mend"));
    const Report mended = VerifyCheckpoint(Checkpoint(), true);
    EXPECT_EQ(mended.status, 0);
    EXPECT_THAT(mended.text, HasSubstr("its index was made anew"));
    EXPECT_EQ(ReadBytes(File(kIndexFile)), good);
    EXPECT_EQ(ReadBytes(File(kManifestFile)), manifest);
    EXPECT_EQ(VerifyCheckpoint(Checkpoint()).status, 0);
  }
}

TEST_F(Index, IsAddedToACheckpointOfVersionTwo) {
  const std::string index = ReadBytes(File(kIndexFile));
  const std::string manifest = ReadBytes(File(kManifestFile));
  WriteBytes(File(kManifestFile), WithoutIndex(manifest));
  std::filesystem::remove(File(kIndexFile));
  EXPECT_EQ(Wrong(), 0);
  EXPECT_EQ(CheckpointReader(Checkpoint()).index_problem(), "");
  EXPECT_EQ(VerifyCheckpoint(Checkpoint()).status, 0) << "an old checkpoint lacks nothing";
  EXPECT_EQ(VerifyCheckpoint(Checkpoint(), true).status, 0);
  EXPECT_EQ(ReadBytes(File(kIndexFile)), index);
  EXPECT_EQ(ReadBytes(File(kManifestFile)), manifest);
}

TEST_F(Index, IsNotMendedWhereDataIsDamaged) {
  std::filesystem::remove(File(kIndexFile));
  std::string shard = ReadBytes(File("shard-00007.safetensors"));
  shard.back() = static_cast<char>(shard.back() ^ 1);
  WriteBytes(File("shard-00007.safetensors"), shard);
  const Report report = VerifyCheckpoint(Checkpoint(), true);
  EXPECT_EQ(report.status, 1);
  EXPECT_THAT(report.text, HasSubstr("shard-00007.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(File(kIndexFile)));
}

TEST_F(Index, ThatLiesIsAnErrorAndNothingElse) {
  const std::string good = ReadBytes(File(kIndexFile));
  const auto words = static_cast<std::uint64_t>(good.size() / 8);
  int refused = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    std::string bad = good;
    const std::uint64_t lie = i % 3 == 0   ? RandomBelow(1, i, 100)
                              : i % 3 == 1 ? UINT64_MAX - i
                                           : RandomBelow(2, i, words * 8);
    std::memcpy(bad.data() + 8 * RandomBelow(3, i, words - 2), &lie, sizeof lie);
    try {
      const CheckpointIndex index(std::make_shared<const std::string>(bad), "lie");
      for (std::int64_t tensor = 0; tensor < index.tensors(); ++tensor) {
        for (const StoredSlice& stored : index.Slices(tensor)) {
          ASSERT_LE(HighestOf(stored.slice.pieces), stored.slice.shape.count());
          ASSERT_LT(stored.shard - index.first_shard(), index.shards());
        }
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
}

TEST_F(Index, PackedForOtherRanksReadsTheSame) {
  const CheckpointReader first(Checkpoint(), ShardChecks::kNone);
  EXPECT_FALSE(first.shards_checked());
  const CheckpointReader other(Checkpoint(), std::make_shared<const std::string>("head" + first.Pack()), 4);
  EXPECT_EQ(WrongValues(other, table_, layout_, 1), 0);
  EXPECT_EQ(other.manifest().state.step, 1);
  EXPECT_TRUE(other.manifest().shards.empty());
  for (const std::size_t length : {std::size_t{0}, std::size_t{20}, first.Pack().size() - 1}) {
    const auto cut = std::make_shared<const std::string>(first.Pack().substr(0, length));
    EXPECT_THROW(CheckpointReader(Checkpoint(), cut, 0), Error) << length;
  }
}

}  // namespace
}  // namespace trireme
