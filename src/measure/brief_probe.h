// What a machine that was never calibrated can do: the operations of a run, timed for a tenth of a second before it
// begins, put into the shipped cluster file of machines without accelerators.
#pragma once

#include "comm/rank_runner.h"
#include "topology/cluster.h"

namespace trireme {

// Laws of a rank of the run, with its number of threads, measured on devices of their own while as many ranks of its
// machine as have cores do the same; the best of five calls, with what steps take beyond that. dtype: that the run
// works with; fp16 has fp32's laws on cores. options: of the run's devices. Rank 0's laws count. Collective over the
// world; ranks work on cores.
RankRates ProbeBriefly(RankContext& context, const DeviceOptions& options, DType dtype);

// `prior` for this machine: its cores and its memory, on as many nodes, with the laws of a brief measurement instead of
// figures of a data sheet. Collectives keep the prior's links. Its predictions have a wider interval than those of any
// calibration.
Cluster AtHand(Cluster prior, const RankRates& rates, int nodes);

}  // namespace trireme
