#include "base/durable_file.h"

#include <filesystem>

#include "base/checksum.h"
#include "base/error.h"
#include "checkpoint/saved_world.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string MessageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Checksum, IsXxh3OfTheBytes) {
  // The published value of XXH3-128 for no bytes and seed 0.
  EXPECT_EQ(ToHex(DigestOf(std::string_view())), "99aa06d3014798d86001c324468d497f");
}

TEST(Checksum, PartsMakeTheWhole) {
  const std::string text(100'000, 'x');
  Hasher hasher;
  for (std::size_t first = 0; first < text.size(); first += 777) {
    hasher.Add(std::as_bytes(std::span(text).subspan(first, std::min<std::size_t>(777, text.size() - first))));
  }
  EXPECT_EQ(hasher.digest(), DigestOf(text));
}

TEST(Checksum, TextComesBackAndNothingElseIsRead) {
  const Digest digest = DigestOf("trireme");
  EXPECT_EQ(ParseDigest(ToHex(digest)), digest);
  EXPECT_THROW(ParseDigest(""), Error);
  EXPECT_THROW(ParseDigest(ToHex(digest) + "0"), Error);
  EXPECT_THROW(ParseDigest("ZZ" + ToHex(digest).substr(2)), Error);
  EXPECT_THROW(ParseDigest("AB" + ToHex(digest).substr(2)), Error);
}

TEST(DurableFile, HoldsWhatWasAppendedAndOverwritten) {
  const TestFolder folder;
  DurableFile file(folder / "a");
  file.Append("hello, world");
  file.Overwrite(0, "J");
  EXPECT_EQ(file.size(), 12);
  file.Close();
  EXPECT_EQ(ReadWholeFile(folder / "a", 100), "Jello, world");
}

TEST(DurableFile, NeverWritesOverAFileOrThroughALink) {
  const TestFolder folder;
  WriteBytes(folder / "there", "old");
  std::filesystem::create_symlink("there", folder / "link");
  EXPECT_THAT(MessageOf([&] { DurableFile file(folder / "there"); }), HasSubstr("File exists"));
  EXPECT_THROW(DurableFile(folder / "link"), Error);
  EXPECT_EQ(ReadBytes(folder / "there"), "old");
}

TEST(DurableFile, ReadsOnlyRegularFilesUpToALimit) {
  const TestFolder folder;
  WriteBytes(folder / "long", std::string(101, 'x'));
  std::filesystem::create_symlink("long", folder / "link");
  EXPECT_THAT(MessageOf([&] { ReadWholeFile(folder / "long", 100); }), HasSubstr("too long"));
  EXPECT_THROW(ReadWholeFile(folder / "link", 1000), Error);
  EXPECT_THROW(ReadWholeFile(folder.path(), 1000), Error);
  EXPECT_THROW(ReadWholeFile(folder / "none", 1000), Error);
}

TEST(DurableFile, MovingIntoPlaceReplacesAFullFolder) {
  const TestFolder folder;
  MakeDirectories(folder / "new");
  MakeDirectories(folder / "old");
  WriteBytes(folder / "new/a", "new");
  WriteBytes(folder / "old/a", "old");
  MoveIntoPlace(folder / "new", folder / "old");
  EXPECT_EQ(ReadBytes(folder / "old/a"), "new");
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
}

TEST(DurableFile, RemovesATreeButNotWhatALinkPointsAt) {
  const TestFolder folder;
  MakeDirectories(folder / "kept");
  MakeDirectories(folder / "gone/inner");
  WriteBytes(folder / "kept/a", "a");
  std::filesystem::create_directory_symlink(folder / "kept", folder / "gone/link");
  EXPECT_TRUE(RemoveTree(folder / "gone"));
  EXPECT_FALSE(std::filesystem::exists(folder / "gone"));
  EXPECT_EQ(ReadBytes(folder / "kept/a"), "a");
}

}  // namespace
}  // namespace trireme
