#include "base/error.h"
#include "comm/rank_runner.h"

namespace trireme {
namespace {

TEST(RunMpiRank, SaysThatMpiWasNotBuilt) {
  try {
    RunMpiRank({.kind = "cpu"}, [](RankContext&) { FAIL() << "ran without MPI"; });
    FAIL() << "no Error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("not built with MPI"));
  }
}

}  // namespace
}  // namespace trireme
