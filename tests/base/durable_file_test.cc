#include "base/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <tuple>

#include "message_of.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

// The process's umask while it lives.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t before_;
};

mode_t ModeOf(const std::string& path) {
  struct stat about {};
  EXPECT_EQ(::stat(path.c_str(), &about), 0) << path;
  return about.st_mode & 0777;
}

TEST(DurableFile, NewFilesAndFoldersAreAsTheUmaskSays) {
  for (const auto& [mask, file, folder] :
       {std::tuple{0077, 0600U, 0700U}, {0022, 0644U, 0755U}, {0027, 0640U, 0750U}}) {
    const ScratchDirectory scratch;
    const Umask umask(static_cast<mode_t>(mask));
    ReplaceFile(scratch / "run.toml", "[model]\n");
    EXPECT_EQ(ModeOf(scratch / "run.toml"), file);
    EXPECT_EQ(ModeOf(MakeTemporaryFolder(scratch / "export")), folder);
    DurableFile durable(scratch / "shard");
    durable.Close();
    EXPECT_EQ(ModeOf(scratch / "shard") & 0077, file & 0077);
  }
}

TEST(DurableFile, AReplacedFileLeavesNothingElse) {
  const ScratchDirectory scratch;
  ReplaceFile(scratch / "a", "one");
  ReplaceFile(scratch / "a", "two");
  EXPECT_EQ(ReadBytes(scratch / "a"), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
  EXPECT_THAT(test::MessageOf([&] { ReplaceFile(scratch / "none/a", "x"); }), testing::HasSubstr("No such file"));
}

TEST(DurableFile, ALinkIsRefusedWhereAFolderIsWritten) {
  const ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "elsewhere");
  std::filesystem::create_directory_symlink(scratch / "elsewhere", scratch / "link");
  EXPECT_THAT(test::MessageOf([&] { RefuseLink(scratch / "link"); }), testing::HasSubstr("is a symbolic link"));
  EXPECT_EQ(test::MessageOf([&] { RefuseLink(scratch / "elsewhere"); }), "");
  EXPECT_EQ(test::MessageOf([&] { RefuseLink(scratch / "none"); }), "");
}

}  // namespace
}  // namespace trireme
