// Steps named one by one or in ranges: "1200-1250, 3000".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

class StepList {
 public:
  // An Error names the part that is no step or range; "" is no step.
  explicit StepList(const std::string& text);

  bool Has(std::int64_t step) const;

 private:
  struct Range {
    std::int64_t first = 0;
    std::int64_t last = 0;
  };
  std::vector<Range> ranges_;
};

}  // namespace trireme
