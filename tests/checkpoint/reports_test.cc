#include "checkpoint/tools/reports.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/saved_world.h"

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Reports : public testing::Test {
 protected:
  Reports() : table_(TinyModel("bloom")) {
    layout_.tensor = 2;
    layout_.data = 2;
    SaveWorld(folder_ / "run/checkpoints", table_, layout_, 3);
  }
  ParameterTable table_;
  ParallelLayout layout_;
  TestFolder folder_;
};

TEST_F(Reports, InspectNamesEveryTensorWithItsGlobalShape) {
  const Report report = InspectCheckpoint(folder_ / "run");
  EXPECT_EQ(report.status, 0);
  const json root = ParseJson(report.json);
  EXPECT_EQ(root["step"], 3);
  EXPECT_EQ(root["consumed_samples"], 24);
  EXPECT_EQ(root["parameters"], ParameterCount(table_.config()));
  EXPECT_EQ(root["tensors"].size(), 3 * table_.rows().size());
  const CheckpointReader reader(folder_ / "run/checkpoints/step-000003");
  EXPECT_EQ(root["digest"], ToHex(DigestOfState(reader)));
  for (const json& tensor : root["tensors"]) {
    const int row = table_.Find(tensor["name"]);
    ASSERT_GE(row, 0);
    EXPECT_EQ(tensor["shape"].size(),
              static_cast<std::size_t>(table_.rows()[static_cast<std::size_t>(row)].shape.rank()));
    EXPECT_EQ(tensor["dtype"], "fp32");
    EXPECT_EQ(tensor["digest"].get<std::string>().size(), 32U);
  }
  EXPECT_THAT(report.text, HasSubstr("embedding.token"));
  EXPECT_THAT(report.text, HasSubstr(root["digest"].get<std::string>()));
}

TEST_F(Reports, PathsOfARunOfItsCheckpointsAndOfOneAllWork) {
  const std::string one = folder_ / "run/checkpoints/step-000003";
  EXPECT_EQ(ResolveCheckpoint(folder_ / "run"), one);
  EXPECT_EQ(ResolveCheckpoint(folder_ / "run/checkpoints"), one);
  EXPECT_EQ(ResolveCheckpoint(one), one);
  EXPECT_THROW(ResolveCheckpoint(folder_ / "none"), Error);
  EXPECT_THROW(ResolveCheckpoint(folder_.path()), Error);
}

TEST_F(Reports, VerifyOfAGoodCheckpointIsZero) {
  const Report report = VerifyCheckpoint(folder_ / "run");
  EXPECT_EQ(report.status, 0) << report.text;
  EXPECT_EQ(ParseJson(report.json)["good"], true);
}

TEST_F(Reports, DiffOfEqualStatesUnderTwoLayoutsIsZero) {
  SaveWorld(folder_ / "other", table_, {}, 3);
  const Report report = DiffCheckpoints(folder_ / "run", folder_ / "other");
  EXPECT_EQ(report.status, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr("equal"));
}

TEST_F(Reports, DiffNamesWhatDiffers) {
  auto owned = SlicesOfRank(table_, {}, 0, 3);
  const std::string changed = owned[4].slice.tensor;
  owned[4].values[7] += 0.5F;
  const SaveTask task{.folder = folder_ / "other", .step = 3};
  WriteShard(task, Views(owned));
  RunState state = StateAt(table_.config(), 3);
  state.keys[0].value = "4";
  CommitCheckpoint(task, state, {.seconds = 0});
  const Report report = DiffCheckpoints(folder_ / "run", folder_ / "other");
  EXPECT_EQ(report.status, 1);
  const json root = ParseJson(report.json);
  ASSERT_EQ(root["tensors"].size(), 1U);
  EXPECT_EQ(root["tensors"][0]["name"], changed);
  EXPECT_EQ(root["tensors"][0]["different"], 1);
  EXPECT_EQ(root["tensors"][0]["first"], 7);
  ASSERT_EQ(root["values"].size(), 1U);
  EXPECT_EQ(root["values"][0]["key"], "layout.tensor");
  EXPECT_THAT(report.text, HasSubstr("layout.tensor: 1 -> 4"));
}

TEST_F(Reports, ConvertChangesTheShardsAndNotTheState) {
  EXPECT_EQ(ConvertCheckpoint(folder_ / "run", folder_ / "seven", {.shards = 7}).status, 0);
  const CheckpointReader reader(folder_ / "seven/step-000003");
  EXPECT_EQ(reader.manifest().shards.size(), 7U);
  EXPECT_EQ(WrongValues(reader, table_, layout_, 3), 0);
  EXPECT_EQ(DigestOfState(reader), DigestOfState(CheckpointReader(folder_ / "run/checkpoints/step-000003")));
  EXPECT_THROW(ConvertCheckpoint(folder_ / "run", folder_ / "seven", {}), Error) << "nothing is written over";
  EXPECT_EQ(VerifyCheckpoint(folder_ / "seven").status, 0);
}

TEST_F(Reports, ConvertToWeightsStartsARunAnew) {
  ConvertCheckpoint(folder_ / "run", folder_ / "weights", {.weights_only = true});
  const CheckpointReader reader(folder_ / "weights/step-000000");
  EXPECT_EQ(reader.tensors().size(), table_.rows().size());
  EXPECT_EQ(reader.manifest().state.consumed_samples, 0);
  EXPECT_EQ(reader.Find("embedding.token", kFirstMomentKind), nullptr);
}

TEST_F(Reports, AFailedConversionLeavesNothing) {
  const std::string shard = folder_ / "run/checkpoints/step-000003/shard-00000.safetensors";
  std::string bytes = ReadBytes(shard);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  WriteBytes(shard, bytes);
  EXPECT_THROW(ConvertCheckpoint(folder_ / "run/checkpoints/step-000003", folder_ / "out", {}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
}

TEST_F(Reports, ShardsAreFilesThatOtherToolsRead) {
  const CheckpointReader reader(folder_ / "run/checkpoints/step-000003");
  const std::string bytes = ReadBytes(folder_ / "run/checkpoints/step-000003/shard-00000.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ((8 + length) % 8, 0U);
  const json header = ParseJson(bytes.substr(8, length));
  EXPECT_EQ(header["__metadata__"]["format"], "pt");
  const json& entry = header["master.embedding.norm.gain"];
  EXPECT_EQ(entry["dtype"], "F32");
  float first = 0;
  std::memcpy(&first, bytes.data() + 8 + length + entry["data_offsets"][0].get<std::size_t>(), 4);
  EXPECT_EQ(first, ValueAt("embedding.norm.gain", kMasterKind, 0, 3));
}

}  // namespace
}  // namespace trireme
