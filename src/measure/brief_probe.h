// What a machine that was never calibrated can do: the operations of a run, timed for a tenth of a second before it
// begins, put into the shipped cluster file of machines without accelerators.
#pragma once

#include <optional>

#include "comm/rank_runner.h"
#include "topology/cluster.h"

namespace trireme {

// Laws of a rank of the run, with its number of threads and its engines, measured on devices of their own while as many
// ranks of its machine as have cores do the same; the best of five calls, with what steps take beyond that. dtype: that
// the run works with; fp16 has fp32's laws on cores. Rank 0's laws count; none there where they could not be measured,
// which is said on stderr. Collective over the world; ranks work on cores.
struct BriefProbe {
  RankRates rates;
  double waited = 0;  // share of the time in which rank 0's machine had no core for the measuring threads
};
std::optional<BriefProbe> ProbeBriefly(RankContext& context, DType dtype);

// `prior` for this machine: its cores and its memory, on as many nodes, with the laws of a brief measurement instead of
// figures of a data sheet. Collectives keep the prior's links. Its predictions have a wider interval than an
// undisturbed calibration's, and on a busy machine a wider one yet.
Cluster WithMeasuredRates(Cluster prior, const BriefProbe& probe, int nodes);

}  // namespace trireme
