#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "device/cpu_double.h"
#include "operate/training_loop.h"

namespace trireme {
namespace {

// The CPU, as a device that has chosen something and counts how often work is repeated.
class ChoosingDevice : public CpuDouble {
 public:
  explicit ChoosingDevice(std::string chosen) : chosen_(std::move(chosen)) {}
  void Repeat(std::int64_t key, const std::function<void()>& work) override {
    keys.push_back(key);
    work();
  }
  Event OnStream(int stream, const Event& after, const std::function<void()>& work) override {
    streams.push_back(stream);
    return CpuDouble::OnStream(stream, after, work);
  }
  std::string choices() const override { return chosen_; }
  std::string substitutions() const override { return chosen_.empty() ? "" : "done otherwise: " + chosen_; }
  void ReadChoices(const std::string& lines) override { read.push_back(lines); }

  std::vector<std::string> read;
  std::vector<std::int64_t> keys;
  std::vector<int> streams;

 private:
  std::string chosen_;
};

RunConfig TinyRun(const std::vector<std::string>& more) {
  std::vector<std::string> keys = {"model.layers=1",   "model.hidden=16",      "model.heads=2",  "model.vocabulary=32",
                                   "model.sequence=8", "layout.micro_batch=1", "batch.global=2", "train.steps=2"};
  keys.insert(keys.end(), more.begin(), more.end());
  return ParseRecipe("", "test.toml", keys).config;
}

// What a run says of its device.
class Listener : public TrainingObserver {
 public:
  void DeviceChose(const std::string& choices) override { chosen.push_back(choices); }
  void Note(const std::string& message) override { notes.push_back(message); }
  std::vector<std::string> chosen;
  std::vector<std::string> notes;
};

void RunOn(ChoosingDevice& device, const RunConfig& config, const std::string& folder,
           TrainingObserver* observer = nullptr) {
  RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
    RankContext own{device, context.world};
    const auto source = OpenRunSource(config, "train");
    RunTraining(config, own, {.train = source.get()}, {.run_folder = folder}, observer);
  });
}

TEST(DeviceChoices, AreToldWhereNothingIsSavedToo) {
  ChoosingDevice device("library 1\n2 = 3\n");
  Listener listener;
  RunOn(device, TinyRun({}), "", &listener);
  EXPECT_THAT(listener.chosen, testing::ElementsAre("library 1\n2 = 3\n"));
  EXPECT_THAT(listener.notes, testing::Contains("done otherwise: library 1\n2 = 3\n").Times(1));
  ChoosingDevice without("");
  Listener of_nothing;
  RunOn(without, TinyRun({}), "", &of_nothing);
  EXPECT_THAT(of_nothing.chosen, testing::IsEmpty());
  EXPECT_THAT(of_nothing.notes, testing::Not(testing::Contains(testing::HasSubstr("done otherwise"))));
}

TEST(DeviceChoices, AreSavedWithACheckpointAndReadOnResume) {
  const std::string folder = testing::TempDir() + "/device_choices";
  std::filesystem::remove_all(folder);
  ChoosingDevice first("library 1\n2 = 3\n");
  RunOn(first, TinyRun({}), folder);
  EXPECT_THAT(first.read, testing::IsEmpty());
  ChoosingDevice second("");
  RunOn(second, TinyRun({"train.steps=4"}), folder);
  EXPECT_THAT(second.read, testing::ElementsAre("library 1\n2 = 3\n"));
  std::filesystem::remove_all(folder);
}

// What each of `ranks` ranks reads at its start, when rank r has chosen "r".
std::vector<std::vector<std::string>> ReadByRanks(int ranks, const std::vector<std::string>& keys,
                                                  const std::string& folder) {
  std::vector<std::unique_ptr<ChoosingDevice>> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    devices.push_back(std::make_unique<ChoosingDevice>("of rank " + std::to_string(rank)));
  }
  const RunConfig config = TinyRun(keys);
  RunThreadRanks(ranks, {.kind = "cpu"}, [&](RankContext& context) {
    RankContext own{*devices[static_cast<std::size_t>(context.world.rank())], context.world};
    const auto source = OpenRunSource(config, "train");
    RunTraining(config, own, {.train = source.get()}, {.run_folder = folder}, nullptr);
  });
  std::vector<std::vector<std::string>> read;
  for (const auto& device : devices) {
    read.push_back(device->read);
  }
  return read;
}

TEST(DeviceChoices, OfEveryRankComeBackToItAndToNewRanksByTheirRemainder) {
  using testing::ElementsAre;
  const std::string folder = testing::TempDir() + "/device_choices_of_ranks";
  std::filesystem::remove_all(folder);
  const auto once = [](const char* choices) { return ElementsAre(choices); };
  ReadByRanks(2, {"layout.data=2", "batch.global=4"}, folder);
  EXPECT_THAT(ReadByRanks(2, {"layout.data=2", "batch.global=4", "train.steps=4"}, folder),
              ElementsAre(once("of rank 0"), once("of rank 1")));
  EXPECT_THAT(ReadByRanks(4, {"layout.data=4", "batch.global=4", "train.steps=6"}, folder),
              ElementsAre(once("of rank 0"), once("of rank 1"), once("of rank 0"), once("of rank 1")));
  EXPECT_THAT(ReadByRanks(1, {"batch.global=4", "train.steps=8"}, folder), ElementsAre(once("of rank 0")));
  std::filesystem::remove_all(folder);
}

TEST(RepeatedSteps, AreThoseOfOneRankWithoutDropout) {
  ChoosingDevice plain("");
  RunOn(plain, TinyRun({}), "");
  EXPECT_THAT(plain.keys, testing::ElementsAre(2, 2));  // by the number of micro batches
  ChoosingDevice dropping("");
  RunOn(dropping, TinyRun({"model.dropout=0.1"}), "");
  EXPECT_THAT(dropping.keys, testing::IsEmpty());
  ChoosingDevice unwanted("");
  RunOn(unwanted, TinyRun({"train.graphs=false"}), "");
  EXPECT_THAT(unwanted.keys, testing::IsEmpty());
}

// Rank 0's device after a run on two ranks.
std::unique_ptr<ChoosingDevice> RunOnTwo(const std::vector<std::string>& keys) {
  const RunConfig config = TinyRun(keys);
  auto first = std::make_unique<ChoosingDevice>("");
  RunThreadRanks(2, {.kind = "cpu"}, [&](RankContext& context) {
    ChoosingDevice second("");
    RankContext own{context.world.rank() == 0 ? *first : second, context.world};
    const auto source = OpenRunSource(config, "train");
    RunTraining(config, own, {.train = source.get()}, {.run_folder = ""}, nullptr);
  });
  return first;
}

TEST(RepeatedSteps, OfSeveralRanksAreThePartsThatMeetNobody) {
  using testing::IsEmpty;
  using testing::SizeIs;
  const std::vector<std::string> pipeline = {"model.layers=2", "layout.pipeline=2"};
  EXPECT_THAT(RunOnTwo(pipeline)->keys, SizeIs(2 * 4));  // forward and backward of two micro batches, twice
  // The last micro batch starts reductions.
  EXPECT_THAT(RunOnTwo({"layout.data=2", "batch.global=4"})->keys, SizeIs(2 * 2));
  EXPECT_THAT(RunOnTwo({"layout.data=2", "layout.zero=2"})->keys, IsEmpty());
  EXPECT_THAT(RunOnTwo({"layout.tensor=2"})->keys, IsEmpty());
}

TEST(CollectiveLane, HasWhatDataRanksReduceAndGather) {
  using testing::Each;
  using testing::SizeIs;
  constexpr int kSteps = 2;
  // Buckets: positions, the block, the final norm, the tied table.
  for (const char* zero : {"layout.zero=0", "layout.zero=1"}) {
    const auto device = RunOnTwo({"layout.data=2", zero});
    EXPECT_THAT(device->streams, SizeIs(kSteps * 4)) << zero;
    EXPECT_THAT(device->streams, Each(kCollectiveStream));
  }
  // The tied table is reduced for embedding and head.
  EXPECT_THAT(RunOnTwo({"layout.data=2", "layout.zero=2"})->streams, SizeIs(kSteps * 5));
  // Weights are gathered for both as well; the block's weights for forward and backward.
  EXPECT_THAT(RunOnTwo({"layout.data=2", "layout.zero=3"})->streams, SizeIs(kSteps * (5 + 6)));
  EXPECT_THAT(RunOnTwo({"layout.tensor=2"})->streams, Each(kComputeStream));
}

}  // namespace
}  // namespace trireme
