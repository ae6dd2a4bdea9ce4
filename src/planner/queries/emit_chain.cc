#include "planner/queries/emit_chain.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

std::string EmitChain(const EmitRequest& request, int devices, const std::string& recipe_path,
                      const std::string& script) {
  const Cluster& cluster = request.search.cluster;
  RequireEmittable(cluster, request.name, request.job);
  const int per_node = cluster.devices_per_node;
  const int tasks = std::min(per_node, devices);
  const std::string accelerators = cluster.device.is_host ? "" : fmt::format("#SBATCH --gres=gpu:{}\n", per_node);
  std::string text = fmt::format(
      "#!/bin/bash\n"
      "# {}: a chain of jobs, each on as many nodes as its stage of the run has\n"
      "#SBATCH --job-name={}\n"
      "#SBATCH --nodes={}\n"
      "#SBATCH --ntasks-per-node={}\n"
      "{}{}"
      "#SBATCH --exclusive\n"
      "#SBATCH --signal=TERM@300\n"
      "#SBATCH --no-requeue\n"
      "#SBATCH --output=%x-%j.out\n\n",
      cluster.description, JobName(request.name), (devices + per_node - 1) / per_node, tasks, accelerators,
      SiteOptions(request.job));
  text += fmt::format("recipe={}\nrun={}\nscript={}\nper_node={}\n", ShellWord(FolderWord(recipe_path), "--out"),
                      ShellWord(FolderWord(request.name), "--out"), ShellWord(FolderWord(script), "--out"), per_node);
  return text + R"(
# Nodes of the stage that the run is in, by its newest checkpoint.
look() {
  ranks=$(trireme train "$recipe" --run "$run" --next-ranks) || exit 2
  nodes=$(( (ranks + per_node - 1) / per_node ))
}
submit() { # failures so far, more options
  local failures=$1
  shift
  sbatch --parsable --nodes="$nodes" --export="ALL,TRIREME_FAILURES=$failures,TRIREME_NEWEST=$newest" "$@" "$script"
}

newest=$(ls "$run/checkpoints" 2> /dev/null | grep '^step-[0-9]*$' | sort | tail -n 1)
failures=${TRIREME_FAILURES:-0}
# A job before that saved something was no failure, however it ended.
if [ "$newest" != "${TRIREME_NEWEST:-}" ]; then failures=0; fi
look
if [ "$nodes" != "${SLURM_JOB_NUM_NODES:-$nodes}" ]; then
  echo "this stage of the run has $nodes nodes, not $SLURM_JOB_NUM_NODES: starting again on as many"
  submit "$failures"
  exit 0
fi
# Waits for this job and starts however it ends, also when the job is lost with its nodes.
next=$(submit $((failures + 1)) --dependency="afterany:$SLURM_JOB_ID")

trireme train "$recipe" --run "$run" --supervise \
  --launcher "srun --nodes=$nodes --ntasks=$ranks --kill-on-bad-exit=1"
code=$?
# 0: finished. 5: the last save failed and the disk needs room. 3: saved in time, or the stage is done.
case $code in
  0 | 5)
    scancel "$next"
    ;;
  3)
    scancel "$next"
    newest=
    look
    submit 0
    code=0
    ;;
  *)
    if [ $((failures + 1)) -ge 3 ]; then
      echo "three jobs in a row failed without a new checkpoint: the chain ends here"
      scancel "$next"
    fi
    ;;
esac
exit $code
)";
}

}  // namespace trireme
