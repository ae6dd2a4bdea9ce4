#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "faults/fault_run.h"

namespace {

// Set once, before the first test.
trireme::FaultOptions options{.program = TRIREME_PROGRAM};

}  // namespace

const trireme::FaultOptions& trireme::Faults() { return options; }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const char* const named = std::getenv("TRIREME_TEST_PROGRAM")) {  // scripts/mutants gives one with a fault
    options.program = named;
  }
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--kills") {
      options.kills = std::atoi(argv[i + 1]);
    } else if (name == "--rounds") {
      options.rounds = std::atoi(argv[i + 1]);
    } else if (name == "--soak") {
      options.soak_seconds = std::atoi(argv[i + 1]);
    } else if (name == "--program") {
      options.program = argv[i + 1];
    } else {
      std::fprintf(stderr, "options: --kills N --rounds N --soak SECONDS --program PATH, and those of GoogleTest\n");
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
