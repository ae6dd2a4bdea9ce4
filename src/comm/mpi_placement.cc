#include "comm/mpi_placement.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "comm/mpi_session.h"

namespace trireme {
namespace {

constexpr int kMaskWords = 256;  // 16,384 processors
using Mask = std::array<std::uint64_t, kMaskWords>;

Mask MaskOf(const HostCores& cores) {
  Mask mask{};
  for (const Processor& processor : cores.processors) {
    if (processor.id < kMaskWords * 64) {
      mask[static_cast<std::size_t>(processor.id / 64)] |= std::uint64_t{1} << (processor.id % 64);
    }
  }
  return mask;
}

bool Overlap(const Mask& a, const Mask& b) {
  for (std::size_t word = 0; word < a.size(); ++word) {
    if ((a[word] & b[word]) != 0) {
      return true;
    }
  }
  return false;
}

// The processes of this machine, as a communicator for the time of this object.
class Machine {
 public:
  Machine() {
    CheckMpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &processes_),
             "MPI_Comm_split_type");
    CheckMpi(MPI_Comm_rank(processes_, &rank_), "MPI_Comm_rank");
    CheckMpi(MPI_Comm_size(processes_, &size_), "MPI_Comm_size");
  }
  ~Machine() { MPI_Comm_free(&processes_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::vector<Mask> Gather(const Mask& mask) const {
    std::vector<Mask> masks(static_cast<std::size_t>(size_));
    CheckMpi(MPI_Allgather(mask.data(), kMaskWords, MPI_UINT64_T, masks.data(), kMaskWords, MPI_UINT64_T, processes_),
             "MPI_Allgather");
    return masks;
  }
  int FromFirst(int value) const {
    CheckMpi(MPI_Bcast(&value, 1, MPI_INT, 0, processes_), "MPI_Bcast");
    return value;
  }

 private:
  MPI_Comm processes_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

RankPlacement PlaceProcesses(const HostCores& cores, const DeviceOptions& options) {
  const Machine machine;
  const Mask own = MaskOf(cores);
  const std::vector<Mask> masks = machine.Gather(own);
  const auto sharers = static_cast<int>(
      std::count_if(masks.begin(), masks.end(), [&own](const Mask& mask) { return Overlap(mask, own); }));
  const bool one_mask =
      std::all_of(masks.begin(), masks.end(), [&masks](const Mask& mask) { return mask == masks.front(); });

  DeviceOptions counted = options;
  if (counted.threads == 0) {
    counted.threads = ThreadsPerRank(cores, std::max(sharers, 1));
  }
  CheckMpi(MPI_Allreduce(MPI_IN_PLACE, &counted.threads, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  if (machine.FromFirst(one_mask ? 1 : 0) == 0) {
    counted.pin = "none";
  }
  // The first process of a machine claims its cores for all of them.
  DeviceOptions shared = counted;
  shared.pin = machine.rank() == 0 ? counted.pin : "none";
  RankPlacement first = PlaceRanks(cores, machine.size(), shared);
  int suffice = sharers * counted.threads <= cores.usable() ? 1 : 0;
  CheckMpi(MPI_Allreduce(MPI_IN_PLACE, &suffice, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  first.cores_suffice = suffice != 0;
  const bool bound = machine.FromFirst(first.processors.empty() ? 0 : 1) != 0;
  if (bound && machine.rank() != 0) {
    first.processors = ProcessorsOfRanks(cores, {"cores", machine.size(), counted.threads});
  }
  if (bound) {
    first.processors = {first.of_rank(machine.rank())};
  }
  return first;
}

std::string FromFirstProcess(const std::string& text) {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  CheckMpi(MPI_Bcast(&length, 1, MPI_INT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
  std::string shared = text;
  shared.resize(static_cast<std::size_t>(length));
  CheckMpi(MPI_Bcast(shared.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return shared;
}

}  // namespace trireme
