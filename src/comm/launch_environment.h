// What a launcher (mpirun, srun) says through the environment, read without starting MPI.
#pragma once

#include <optional>

namespace trireme {

// This process's number in the job, where the launcher says it.
std::optional<int> RankFromEnvironment();

// This process's number among those on its machine, where the launcher says it.
std::optional<int> LocalRankFromEnvironment();

}  // namespace trireme
