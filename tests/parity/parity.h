// Law 1's bench: trains a small model under a layout on thread ranks and collects what must not depend on the layout.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cost/step_cost.h"
#include "run/run_config.h"
#include "train/trainer.h"

namespace trireme::parity {

// What a run leaves behind, in terms that every layout shares.
struct Outcome {
  std::vector<double> losses;
  std::vector<double> gradient_norms;
  double validation = 0;
  std::map<std::string, std::vector<float>> parameters;  // whole, by name
  bool tied_copies_equal = true;                         // law 4
  std::string differing_copy;                            // where they are not: a parameter whose copies differ
  std::vector<std::string> accounting;                   // law 5: one line for each difference
};

struct Experiment {
  RunConfig config;
  int steps = 20;
  bool validate = false;
  bool keeps_packed_weights = true;  // false: every product packs its operands for itself
};

// A small model of a family that tensor degrees 1–4 and all sequence modes can cut; fp32, fixed learning rate. A GPU
// records its work unless TRIREME_TEST_GRAPHS is "off".
RunConfig SmallRun(const std::string& family);
// Whether TRIREME_TEST_DEVICE names a GPU. Its fused attention has no dropout of weights, and its plain attention takes
// no keys of other ranks: laws leave these out there.
bool TestsUseGpu();
// Trains on config.layout.ranks() thread ranks of the device that TRIREME_TEST_DEVICE names ("cpu" when unset).
Outcome Train(const Experiment& experiment);
// The run on one rank: every axis 1, no recomputation, one micro batch at a time.
RunConfig OneRank(const RunConfig& config);

// What breaks the law: losses and parameters beyond `tolerance` relative (gradient norms ten times that), law 4, law 5.
std::vector<std::string> Differences(const Outcome& expected, const Outcome& actual, double tolerance);
void ExpectSame(const Outcome& expected, const Outcome& actual, double tolerance);
// Trains `config` and compares with one rank; outcomes of one rank are kept and used again.
void ExpectLaw(const RunConfig& config, double tolerance = 1e-5);

// Steps of law runs: 20, or TRIREME_LAW_STEPS.
int LawSteps();

}  // namespace trireme::parity
