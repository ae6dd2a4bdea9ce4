// Histograms of what all ranks hold of each parameter, by row of the table: every element is counted by the one rank
// that saves it. Collective over the world; every rank gets the same.
#pragma once

#include <vector>

#include "train/histogram.h"
#include "train/rank_parts.h"

namespace trireme {

// Histograms of the gradients that the coming update reads, times `factor`: within Trainer::set_before_update's
// function.
std::vector<Histogram> HistogramsOfGradients(RankParts& parts, double factor);
// Histograms of the weights, in fp32: between steps. Takes the memory of the gradients (ZeroShard::JoinState).
std::vector<Histogram> HistogramsOfWeights(RankParts& parts);

}  // namespace trireme
