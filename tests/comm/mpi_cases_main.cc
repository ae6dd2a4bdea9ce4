// Runs under mpirun: every collective case over MPI, on the host and staged from a device that is not; then transfers
// in pieces. Any failure ends the job with a nonzero code.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "comm/collective_cases.h"
#include "comm/device_array.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_transfer.h"
#include "comm/off_host_device.h"

namespace trireme {
namespace {

void RunCases(RankContext& context, const char* where) {
  for (const CollectiveCase& collective_case : CollectiveCases()) {
    try {
      collective_case.run(context);
    } catch (const Error& error) {
      Fail("{} {}: {}", collective_case.name, where, error.what());
    }
    context.world.Barrier();
  }
}

// Byte i of what `from` has for `to`.
char ByteOf(int from, int to, int i) { return static_cast<char>(from * 31 + to * 7 + i); }

void PiecesArriveWhole(RankContext& context, bool yields) {
  constexpr int kBytes = 1000;
  constexpr std::int64_t kPiece = 7;
  const MpiGroup world = {MPI_COMM_WORLD, yields};
  const int size = context.world.size();
  const int rank = context.world.rank();
  std::vector<char> out;
  std::vector<char> expected;
  for (int other = 0; other < size; ++other) {
    for (int i = 0; i < kBytes; ++i) {
      out.push_back(ByteOf(rank, other, i));
      expected.push_back(ByteOf(other, rank, i));
    }
  }
  std::vector<char> in(out.size());
  AllToAllBytes(world, out.data(), in.data(), kBytes, kPiece);
  Require(in == expected, "all-to-all in pieces on rank {}", rank);

  std::vector<char> gathered(out.size());
  char* const own = gathered.data() + rank * kBytes;
  std::copy(out.begin(), out.begin() + kBytes, own);
  AllGatherBytes(world, own, gathered.data(), kBytes, kPiece);
  for (int other = 0; other < size; ++other) {
    Require(gathered[static_cast<std::size_t>(other * kBytes + 9)] == ByteOf(other, 0, 9), "all-gather in pieces");
  }

  std::vector<char> news(out.begin(), out.begin() + kBytes);
  BroadcastBytes(world, news.data(), kBytes, size - 1, kPiece);
  Require(news.back() == ByteOf(size - 1, 0, kBytes - 1), "broadcast in pieces");

  std::vector<MPI_Request> requests;
  StartSendBytes({world, (rank + 1) % size, 1}, out.data(), kBytes, requests, kPiece);
  ReceiveBytes({world, (rank + size - 1) % size, 1}, news.data(), kBytes, kPiece);
  WaitFor(requests, yields);
  Require(news.back() == ByteOf((rank + size - 1) % size, 0, kBytes - 1), "message in pieces");
}

// Larger than the blocks in which sums are taken.
void LargeSumsAreWhole(RankContext& context) {
  constexpr std::int64_t kPart = 1200007;
  const int size = context.world.size();
  const std::int64_t whole = std::max<std::int64_t>(kPart * size, 4500000 / size * size);
  std::vector<float> values(static_cast<std::size_t>(whole));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 1021) + static_cast<float>(context.world.rank());
  }
  const float ranks = static_cast<float>(size * (size - 1)) / 2;
  const auto expected = [&](std::size_t i) { return static_cast<float>(i % 1021) * static_cast<float>(size) + ranks; };
  const DeviceArray<float> array(context.device, values);
  const std::int64_t part = whole / size;
  const DeviceArray<float> own(context.device, part);
  context.world.ReduceScatter(array.tensor(), own.tensor());
  context.world.AllReduce(array.tensor());
  const std::vector<float> sums = array.Read();
  const std::vector<float> own_sums = own.Read();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    Require(sums[i] == expected(i), "element {} of a large all-reduce is {}, not {}", i, sums[i], expected(i));
  }
  const auto first = static_cast<std::size_t>(part * context.world.rank());
  for (std::size_t i = 0; i < own_sums.size() && size > 1; ++i) {
    Require(own_sums[i] == expected(first + i), "element {} of a large reduce-scatter is {}", i, own_sums[i]);
  }
}

// As ranks beyond cores wait over MPICH.
void RunYielding(RankContext& context) {
  MpiSession session;
  session.set_yields(true);
  MpiCommunicator world(session, context.device);
  RankContext yielding{context.device, world};
  RunCases(yielding, "with ranks that yield");
  LargeSumsAreWhole(yielding);
  PiecesArriveWhole(yielding, true);
  session.Finish();
}

void Run(RankContext& context) {
  RunCases(context, "on the host");
  {
    MpiSession session;
    OffHostDevice device;
    MpiCommunicator staged(session, device);
    RankContext staged_context{device, staged};
    RunCases(staged_context, "staged");
    session.Finish();
  }
  LargeSumsAreWhole(context);
  PiecesArriveWhole(context, false);
  RunYielding(context);
  context.world.Barrier();
  if (context.world.rank() == 0) {
    std::printf("%zu cases passed on %d processes\n", CollectiveCases().size(), context.world.size());
  }
}

}  // namespace
}  // namespace trireme

int main() {
  trireme::RunMpiRank({.kind = "cpu"}, trireme::Run);
  return 0;
}
