#include "report/run_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

RunConfig TalesRun() {
  RunConfig config;
  config.model = Completed({.family = "llama", .layers = 4, .hidden = 192, .heads = 6, .vocabulary = 2048});
  config.layout.data = 4;
  config.data.source = "tales.bin";
  config.checkpoint.every = 100;
  return config;
}

void ExpectColumns(const std::string& lines) {
  std::istringstream each(lines);
  for (std::string line; std::getline(each, line);) {
    EXPECT_LE(line.size(), kLogColumns) << line;
    EXPECT_FALSE(line.empty());
  }
}

TEST(RunLines, BreakAtSpacesAndKeepLongWords) {
  EXPECT_EQ(Labelled("run", "a b"), "run       a b");
  const std::string path(90, 'x');
  EXPECT_EQ(Labelled("run", "in " + path + " too"), "run       in\n          " + path + "\n          too");
  const std::string clause(40, 'c');
  EXPECT_EQ(Labelled("run", "one two " + clause + ", three " + clause + ", four"),
            "run       one two " + clause + ",\n          three " + clause + ", four");
  ExpectColumns(Labelled("run", "many words of text " + std::string(30, 'y') + " " + std::string(30, 'z') + " end"));
}

TEST(RunLines, StartSaysModelLayoutDataAndFolder) {
  const RunConfig config = TalesRun();
  const RunStart start{.config = config,
                       .device = "cpu (avx512, packed, bf16 widened)",
                       .threads = 2,
                       .samples_of_epoch = 1000,
                       .steps = 700,
                       .samples = 2500,
                       .folder = "runs/tales"};
  const std::string lines = StartLines(start);
  ExpectColumns(lines);
  EXPECT_THAT(lines, HasSubstr("model     llama, "));
  EXPECT_THAT(lines, HasSubstr("layout    tp1 pp1 dp4 zero0 1f1b mbs1 on 4 ranks\n"));
  EXPECT_THAT(lines, HasSubstr("device    fp32, cpu (avx512, packed, bf16 widened), 2 threads a rank\n"));
  EXPECT_THAT(lines, HasSubstr("data      tales.bin, 64k tokens an epoch; the run takes 160k, 2.5 epochs\n"));
  EXPECT_THAT(lines, HasSubstr("run       700 steps; in runs/tales, checkpoints every 100 steps and at the end"));
}

TEST(RunLines, StartLeavesOutWhatThereIsNot) {
  RunConfig config = TalesRun();
  config.data.source = "synthetic";
  const std::string lines =
      StartLines({.config = config, .device = "cuda", .from = {.step = 4}, .steps = 1, .samples = 100, .folder = ""});
  EXPECT_THAT(lines, HasSubstr("data      synthetic; the run takes 6.4k tokens\n"));
  EXPECT_THAT(lines, HasSubstr("run       1 step, resumed after step 4; nothing is written"));
  EXPECT_THAT(lines, Not(HasSubstr("epoch")));
  EXPECT_THAT(lines, Not(HasSubstr("thread")));
}

TEST(RunLines, RanksThatHoldTheSameShareALineOfMemory) {
  MemoryUse first;
  first[MemoryKind::kWeights] = 2'000'000;
  MemoryUse last = first;
  last[MemoryKind::kHost] = 1'000'000;
  EXPECT_EQ(MemoryLines({first}), "memory    2.0 MB: weights 2.0 MB");
  EXPECT_EQ(MemoryLines({first, first, first}), "memory    on every rank 2.0 MB: weights 2.0 MB");
  EXPECT_EQ(MemoryLines({first, first, last, first, last}),
            "memory    on ranks 0-1 3 2.0 MB: weights 2.0 MB\n"
            "memory    on ranks 2 4 2.0 MB: weights 2.0 MB; in host memory 1.0 MB");
}

TEST(RunLines, MemoryOfThousandsOfRanksIsAFewLines) {
  std::vector<MemoryUse> by_rank(4096);
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    by_rank[rank][MemoryKind::kWeights] = 1'000'000 * static_cast<std::int64_t>(1 + rank / 64 + rank % 2);
  }
  const std::string lines = MemoryLines(by_rank);
  ExpectColumns(lines);
  EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), 20) << lines;
  EXPECT_THAT(lines, HasSubstr("on ranks 4033 4035 4037 4039 4041 4043 and 26 more 65.0 MB:"));
  EXPECT_THAT(lines, HasSubstr("other kinds of ranks have 1.0 MB to 57.0 MB"));
}

TEST(RunLines, TheEndNamesTheNextCommand) {
  const std::string done = EndLines({.folder = "runs/a", .step = 700, .loss = 4.25, .writes_text = true});
  ExpectColumns(done);
  EXPECT_THAT(done, HasSubstr("end       finished after step 700, loss 4.2500; saved in runs/a\n"));
  EXPECT_THAT(done, HasSubstr("next      trireme generate runs/a --prompt"));
  EXPECT_THAT(done, HasSubstr("          trireme report runs/a --output report.html"));
  EXPECT_THAT(EndLines({.folder = "runs/a", .step = 7}), HasSubstr("next      trireme report runs/a"));
  const std::string stopped =
      EndLines({.folder = "runs/a", .step = 7, .loss = std::numeric_limits<double>::quiet_NaN(), .stopped = true});
  EXPECT_EQ(stopped,
            "end       stopped on request after step 7; saved in runs/a\n"
            "go on     the same command again goes on from the newest checkpoint");
  EXPECT_THAT(EndLines({.folder = "runs/a", .step = 7, .saved = false}), HasSubstr("; the last save failed\ngo on"));
  EXPECT_EQ(EndLines({.folder = "", .step = 7, .loss = 1}), "end       finished after step 7, loss 1.0000");
}

}  // namespace
}  // namespace trireme
