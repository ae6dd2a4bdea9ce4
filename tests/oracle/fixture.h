// The fixture that make_fixture.py writes with PyTorch, and the numbers that both sides make alike.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/samples/sample_source.h"
#include "run/run_config.h"

namespace trireme::oracle {

// 32 random bits of (name, index); a multiple of 1/512 in [-1/4, 1/4]; where a weight starts. As in make_fixture.py.
std::uint32_t Number(const std::string& name, std::int64_t index);
float Centred(const std::string& name, std::int64_t index);
float FirstValue(const std::string& name, std::int64_t index);

// What stands in the fixture for the values of one parameter, all of them or its gradient.
struct Summary {
  double norm = 0;
  double projection = 0;  // on Centred("direction", i)
  std::vector<double> samples;
};
Summary SummaryOf(const std::string& name, const std::vector<float>& values);

struct StepNumbers {
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
};

struct Case {
  std::string name;
  std::string weights;  // ones | masked | fractions
  bool documents = false;
  RunConfig config;  // of one rank
  std::vector<StepNumbers> steps;
  std::map<std::string, Summary> gradients;  // of the first step, before clipping
  std::map<std::string, Summary> moved;      // after the last step
};
const std::vector<Case>& Cases();

// The samples of a case.
class FixtureSource : public SampleSource {
 public:
  explicit FixtureSource(const Case& one) : case_(one) {}
  std::int64_t vocabulary() const override { return case_.config.model.vocabulary; }
  std::string description() const override { return "the fixture's samples"; }
  Sample Get(std::int64_t index) const override;

 private:
  const Case& case_;
};

}  // namespace trireme::oracle
