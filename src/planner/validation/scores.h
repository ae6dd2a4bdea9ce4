// Scores of predictions: errors, rank correlation, regret. Plain functions of numbers.
#pragma once

#include <vector>

namespace trireme {

// Mean ranks for ties; 0 when either side is constant.
double Spearman(const std::vector<double>& a, const std::vector<double>& b);
// Tau-b.
double Kendall(const std::vector<double>& a, const std::vector<double>& b);
// For each two members: how far the ratio of their predictions is from that of their measurements, as a logarithm
// without its sign. Errors that both share do not count.
std::vector<double> PairedResiduals(const std::vector<double>& predicted, const std::vector<double>& measured);
// How much slower the one predicted fastest measured than the fastest: 0.02 is 2 %.
double Regret(const std::vector<double>& predicted, const std::vector<double>& measured);
double Mean(const std::vector<double>& values);
double Median(std::vector<double> values);

}  // namespace trireme
