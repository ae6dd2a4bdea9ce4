#include "base/text_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <vector>

#include "message_of.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::HasSubstr;

std::vector<std::string> LinesOf(const std::string& path, std::int64_t from = 0) {
  LineReader file(path);
  file.SkipTo(from);
  std::vector<std::string> lines;
  for (std::string line; file.Next(line);) {
    lines.push_back(line);
  }
  return lines;
}

TEST(TextFile, DevicesFoldersAndLongFilesAreRefused) {
  const ScratchDirectory scratch;
  WriteBytes(scratch / "long", std::string(100, 'x'));
  const auto refusal = [](const std::string& path) { return MessageOf([&] { ReadTextFile(path, 99, "recipe"); }); };
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("recipe '/dev/zero' is a device"));
  EXPECT_THAT(refusal(scratch.path().string()), HasSubstr("is a directory"));
  EXPECT_THAT(refusal(scratch / "absent"), HasSubstr("does not exist"));
  EXPECT_THAT(refusal(scratch / "long"), HasSubstr("is larger than 99 bytes"));
  EXPECT_EQ(ReadTextFile(scratch / "long", 100, "recipe"), std::string(100, 'x'));
}

TEST(TextFile, LinesOfWhatIsNoFileAreNone) {
  const ScratchDirectory scratch;
  const std::string fifo = scratch / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path :
       {fifo, std::string(scratch / "absent"), scratch.path().string(), std::string("/dev/zero")}) {
    EXPECT_EQ(LinesOf(path), std::vector<std::string>()) << path;
    EXPECT_FALSE(LineReader(path).is_open());
  }
}

TEST(TextFile, LinesComeOneByOne) {
  const ScratchDirectory scratch;
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 3000; ++i) {
    expected.push_back(i % 7 == 0 ? "" : fmt::format("{} {}", i, std::string(static_cast<std::size_t>(i) % 200, 'x')));
    text += expected.back() + "\n";
  }
  WriteBytes(scratch / "whole", text);
  EXPECT_EQ(LinesOf(scratch / "whole"), expected);
  WriteBytes(scratch / "torn", "a\n\nb");
  EXPECT_EQ(LinesOf(scratch / "torn"), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(LinesOf(scratch / "torn", 2), (std::vector<std::string>{"", "b"}));
  EXPECT_EQ(LinesOf(scratch / "torn", 3), (std::vector<std::string>{"b"}));
  LineReader torn(scratch / "torn");
  std::string line;
  EXPECT_TRUE(torn.Next(line));
  EXPECT_FALSE(torn.torn());
  EXPECT_TRUE(torn.Next(line) && torn.Next(line));
  EXPECT_TRUE(torn.torn());
}

TEST(TextFile, ALineWithoutEndIsLeftOut) {
  const ScratchDirectory scratch;
  WriteBytes(scratch / "file", "a\n" + std::string(LineReader::kLongestLine + 1, 'x') + "\nb\n");
  EXPECT_EQ(LinesOf(scratch / "file"), (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace trireme
