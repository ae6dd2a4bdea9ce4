#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "faults/fault_run.h"

namespace {

// Set once, before the first test.
int kills = 10;

}  // namespace

int trireme::KillCount() { return kills; }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--kills") {
      kills = std::atoi(argv[i + 1]);
    }
  }
  return RUN_ALL_TESTS();
}
