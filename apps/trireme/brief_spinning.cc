#include "apps/trireme/brief_spinning.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace trireme {
namespace {

constexpr std::array<std::string_view, 6> kComputing = {"train", "generate", "chat", "evaluate", "calibrate", "bench"};
// Some 0.1 ms: several times as long as it takes to wake a thread that sleeps.
constexpr const char* kSpins = "3000";

}  // namespace

void SpinBriefly(int argc, char** argv) {
  const bool computes =
      argc > 1 && std::find(kComputing.begin(), kComputing.end(), std::string_view(argv[1])) != kComputing.end();
  if (!computes || std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) {
    return;
  }
  // By its own path: started by the link, the process would be called "exe".
  std::array<char, 4096> program{};
  if (readlink("/proc/self/exe", program.data(), program.size() - 1) > 0) {
    setenv("GOMP_SPINCOUNT", kSpins, 1);
    execv(program.data(), argv);
  }
}

}  // namespace trireme
