#include "comm/launch_environment.h"

#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "comm/rank_runner.h"

namespace trireme {
namespace {

std::optional<int> IntegerFromEnvironment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) {
    return std::nullopt;
  }
  const std::string_view view(text);
  int value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<int> FirstOf(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const std::optional<int> number = IntegerFromEnvironment(name)) {
      return number;
    }
  }
  return std::nullopt;
}

}  // namespace

bool LaunchedByMpi() {
  // Open MPI; MPICH's Hydra, Intel MPI and MVAPICH; PMIx launchers (PRRTE, srun --mpi=pmix).
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (IntegerFromEnvironment(name).has_value()) {
      return true;
    }
  }
  // srun sets the size of the step; a batch script, which has the job's numbers too, does not get it.
  return IntegerFromEnvironment("SLURM_PROCID").has_value() &&
         IntegerFromEnvironment("SLURM_STEP_NUM_TASKS").value_or(1) > 1;
}

std::optional<int> RankFromEnvironment() {
  return FirstOf({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"});
}

std::optional<int> LocalRankFromEnvironment() {
  return FirstOf({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"});
}

}  // namespace trireme
