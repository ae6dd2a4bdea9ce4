#include "report/live_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "report/pages.h"
#include "report/run_names.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class LiveFolder {
 public:
  LiveFolder() { std::filesystem::create_directories(root() + "/run"); }
  std::string root() const { return scratch_.path().string(); }
  std::string run() const { return root() + "/run"; }
  void Append(const std::string& name, const std::string& text) const {
    std::ofstream(run() + "/" + name, std::ios::app | std::ios::binary) << text;
  }
  // Each with a loss of its own.
  void AddSteps(int first, int last, double loss = 1) const {
    for (int step = first; step <= last; ++step) {
      Append("metrics.jsonl", fmt::format("{{\"step\":{},\"loss\":{},\"seconds\":0.5}}\n", step, loss + step));
    }
  }

 private:
  ScratchDirectory scratch_;
};

TEST(RunFollower, ReadsOnlyWhatIsNew) {
  const LiveFolder folder;
  folder.AddSteps(1, 3);
  RunFollower follower(folder.run());
  EXPECT_TRUE(follower.Refresh());
  EXPECT_EQ(follower.run().steps(), 3);
  EXPECT_FALSE(follower.Refresh());
  folder.AddSteps(4, 4);
  folder.Append("metrics.jsonl", R"({"step":5,"lo)");
  EXPECT_TRUE(follower.Refresh());
  EXPECT_EQ(follower.steps_kept(), 3);
  EXPECT_THAT(follower.run().metrics.loss, ElementsAre(2, 3, 4, 5));
  folder.Append("metrics.jsonl", "ss\":6}\n{\"step\":5,\"validation_loss\":7}\n");
  EXPECT_TRUE(follower.Refresh());
  EXPECT_THAT(follower.run().metrics.loss, ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(follower.run().metrics.validation_loss, ElementsAre(7));
  folder.Append("events.jsonl", "{\"step\":5,\"kind\":\"save\",\"text\":\"saved\"}\n");
  EXPECT_TRUE(follower.Refresh());
  EXPECT_EQ(follower.steps_kept(), 5);
  EXPECT_EQ(follower.run().events.size(), 1U);
}

// A run that resumes cuts the file and goes on; between two readings it may have grown beyond where it was.
TEST(RunFollower, NoticesStepsThatWereDroppedAndMadeAgain) {
  const LiveFolder folder;
  folder.AddSteps(1, 4);
  RunFollower follower(folder.run());
  follower.Refresh();
  std::filesystem::resize_file(folder.run() + "/metrics.jsonl",
                               std::filesystem::file_size(folder.run() + "/metrics.jsonl") / 2);
  folder.AddSteps(3, 6, 10);
  EXPECT_TRUE(follower.Refresh());
  EXPECT_EQ(follower.steps_kept(), 0);
  EXPECT_THAT(follower.run().metrics.loss, ElementsAre(2, 3, 13, 14, 15, 16));
}

TEST(RunFollower, FollowsNoLinks) {
  const LiveFolder folder;
  folder.AddSteps(1, 1);
  std::ofstream(folder.root() + "/elsewhere.jsonl") << "{\"step\":9,\"kind\":\"note\",\"text\":\"secret\"}\n";
  std::filesystem::create_symlink(folder.root() + "/elsewhere.jsonl", folder.run() + "/events.jsonl");
  RunFollower follower(folder.run());
  follower.Refresh();
  EXPECT_TRUE(follower.run().events.empty());
}

LivePage PageOf(const LiveFolder& folder) {
  return LivePage(
      {.paths = {folder.root()}, .program = "trireme", .token = "0123abcd", .hosts = {"node7"}, .most_points = 1000});
}

HttpRequest Get(const std::string& path, const std::string& host = "localhost:8080") {
  return {.method = "GET", .path = path, .host = host, .query = {}};
}

TEST(LivePage, AnswersOnlyWithTheTokenAndAHostOfThisMachine) {
  const LiveFolder folder;
  folder.AddSteps(1, 2);
  LivePage page = PageOf(folder);
  for (const char* const host : {"localhost", "localhost:1", "127.0.0.1:8080", "[::1]:9", "node7:80"}) {
    EXPECT_EQ(page.Answer(Get("/0123abcd/changes", host)).status, 200) << host;
  }
  for (const char* const host :
       {"", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "[::2]:9"}) {
    EXPECT_EQ(page.Answer(Get("/0123abcd/changes", host)).status, 403) << host;
  }
  for (const char* const path :
       {"", "/", "/changes", "/0123abc/changes", "/0123abcde/changes", "/0123abcd/../run/run.toml",
        "/0123abcd/run/metrics.jsonl", "//0123abcd/", "/0123ABCD/"}) {
    const HttpResponse refused = page.Answer(Get(path));
    EXPECT_EQ(refused.status, 404) << path;
    EXPECT_THAT(refused.body, Not(HasSubstr("0123abcd")));
  }
  HttpRequest post = Get("/0123abcd/");
  post.method = "POST";
  EXPECT_EQ(page.Answer(post).status, 405);
  const HttpResponse moved = page.Answer(Get("/0123abcd"));
  EXPECT_EQ(moved.status, 308);
  EXPECT_EQ(moved.headers.at("Location"), "/0123abcd/");
  EXPECT_EQ(moved.headers.at("Referrer-Policy"), "no-referrer");
}

TEST(LivePage, SendsWhatIsNewSinceAVersion) {
  const LiveFolder folder;
  folder.AddSteps(1, 3);
  LivePage page = PageOf(folder);
  const nlohmann::json first = ParseJson(page.Answer(Get("/0123abcd/changes")).body);
  ASSERT_EQ(first["runs"].size(), 1U);
  EXPECT_EQ(first["runs"][0]["from"], 0);
  EXPECT_EQ(first["runs"][0]["run"]["steps"], 3);
  EXPECT_EQ(first["signs"][0]["id"], 0);
  HttpRequest later = Get("/0123abcd/changes");
  later.query["since"] = std::to_string(first["version"].get<int>());
  EXPECT_TRUE(ParseJson(page.Answer(later).body)["runs"].empty());
}

TEST(LivePage, RefusesAPathThatIsNoFolder) {
  EXPECT_THAT([] { LivePage({.paths = {"/nowhere/at/all"}, .program = "", .token = "t", .hosts = {}}); },
              testing::ThrowsMessage<std::exception>(HasSubstr("'/nowhere/at/all' is no folder")));
}

TEST(RandomToken, HasManyBitsAndNeverRepeats) {
  const std::string token = RandomToken();
  EXPECT_THAT(token, testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(token, RandomToken());
}

TEST(NamesOfRuns, AreTheSettingsOfAStudysCases) {
  const ScratchDirectory scratch;
  const std::string study = scratch / "study";
  std::filesystem::create_directories(study + "/runs");
  std::ofstream(study + "/rows.jsonl") << R"({"key":"0123456789abcdef","case":"layout.tensor=2","repeat":0})"
                                       << "\n"
                                       << R"({"key":"fedcba9876543210","case":"layout.tensor=2","repeat":1})"
                                       << "\nbroken\n"
                                       << R"({"key":"00000000000000ff","case":"","repeat":0})"
                                       << "\n";
  EXPECT_THAT(
      NamesOfRuns({study + "/runs/0123456789ab", study + "/runs/fedcba987654", study + "/runs/000000000000",
                   study + "/runs/other", "a/run", "b/run"}),
      ElementsAre("layout.tensor=2", "layout.tensor=2, repeat 2", "as the recipe is", "other", "a/run", "b/run"));
}

}  // namespace
}  // namespace trireme
