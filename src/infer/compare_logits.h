// Whether two forms of a model compute the same: logits of both on the same drawn tokens.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

struct LogitComparison {
  std::int64_t tokens = 0;
  double largest_difference = 0;  // of any logit; infinite where one is not a number
  double largest_logit = 0;       // of the first model, by absolute value
};

// `first` and `second` are paths as OpenModelFiles takes them: runs, checkpoints, Hugging Face directories. One rank on
// the CPU, in fp32. An Error when their vocabularies differ. `tokens` are drawn by `seed`, one sequence of them,
// shorter where the model's sequence is.
LogitComparison CompareLogits(const std::string& first, const std::string& second, std::int64_t tokens,
                              std::uint64_t seed);

}  // namespace trireme
