// Runs under mpirun and is expected to end as its argument says: "throw", "mismatch", "message" or "early".
#include <string>

#include "base/error.h"
#include "comm/device_array.h"
#include "comm/rank_runner.h"

namespace trireme {
namespace {

void Run(RankContext& context, const std::string& how) {
  Communicator& world = context.world;
  const DeviceArray<float> array(context.device, std::vector<float>{1, 2, 3, 4});
  if (how == "throw") {
    const auto pair = world.Split("pair", world.rank() / 2, 0);
    if (world.rank() == 1) {
      Fail("no space left in tank {}", 7);
    }
    world.rank() == 0 ? pair->Barrier() : world.Receive(array.tensor(), 0, 5);
  } else if (how == "mismatch") {
    world.rank() == world.size() - 1 ? world.Barrier() : world.AllReduce(array.tensor());
  } else if (how == "message") {
    world.Send(array.tensor(), (world.rank() + 1) % world.size(), 2);
    world.Receive(array.tensor().Range(0, 3), (world.rank() + world.size() - 1) % world.size(), 2);
  } else if (how == "early") {
    if (world.rank() != 0) {
      world.Barrier();
    }
  }
}

}  // namespace
}  // namespace trireme

int main(int argument_count, char** arguments) {
  const std::string how = argument_count > 1 ? arguments[1] : "";
  trireme::RunMpiRank({.kind = "cpu"}, [&how](trireme::RankContext& context) { trireme::Run(context, how); });
  return 0;
}
