#include "report/against_prediction.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {

std::string AgainstPrediction(double measured, double predicted) {
  if (!(measured > 0) || !(predicted > 0)) {
    return "";
  }
  const double times = std::max(measured / predicted, predicted / measured);
  if (times < 1.05) {
    return "as predicted";
  }
  return fmt::format("{:.{}f}× {} than predicted", times, times < 10 ? 1 : 0,
                     measured > predicted ? "slower" : "faster");
}

}  // namespace trireme
