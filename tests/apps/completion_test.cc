// Completion and the manual page are written from the tree of commands: they must name all of it, and shells must be
// able to read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/program.h"

namespace trireme {
namespace {

using testing::HasSubstr;

TEST(Completion, NamesCommandsAndOptionsForEveryShell) {
  const Workplace place;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = place.Run({"completion", shell});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("trireme/checkpoint/inspect")) << shell;
    // fish has the dashes of an option apart.
    EXPECT_THAT(outcome.out, HasSubstr("micro-batches")) << shell;
  }
}

TEST(Completion, OfBashOffersWhatMayFollow) {
  const Workplace place;
  place.Write("complete.sh", R"(source <("$1" completion bash)
answer() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _trireme; echo "${COMPREPLY[*]}"; }
answer trireme sche
answer trireme checkpoint ins
answer trireme schedule 1f1b --micro
answer trireme train no-such-thing
)");
  const Outcome outcome = place.End(place.Start({"complete.sh", ProgramUnderTest()}, "/bin/bash"), 0);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "schedule\ninspect\n--micro-batches\n\n");
}

TEST(Completion, OfAnUnknownShellIsBadInput) {
  const Outcome outcome = Workplace().Run({"completion", "tcsh"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("bash"));
}

TEST(Manual, HasASectionForEveryCommand) {
  const Outcome outcome = Workplace().Run({"manual"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {".TH TRIREME 1", ".SS \"trireme train\"", ".SS \"trireme checkpoint inspect\"",
                           "\\fB\\-\\-micro\\-batches\\fR \\fIVALUE\\fR", ".SH EXIT STATUS"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
}

TEST(Recipe, ThatComesWithTheProgramIsFoundByItsName) {
  const Workplace place;
  const Outcome found = place.Run({"train", "quickstart", "--dry-run"});
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("model.layers"));
  const Outcome unknown = place.Run({"train", "quickstrat", "--dry-run"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("quickstart"));
}

}  // namespace
}  // namespace trireme
