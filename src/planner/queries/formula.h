// Sums that people do by hand about a training, each with its arithmetic: parameters of a shape, bytes of a layer and
// of the embedding, TFLOPs of a measured time, days at an assumed rate.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "model/model_config.h"

namespace trireme {

// What is not given is 0, and what follows from it is left out.
struct FormulaQuestion {
  std::optional<ModelConfig> model;  // completed
  double parameters = 0;             // where there is no model
  double devices = 0;
  int tensor = 1;  // degrees over which a layer and the embedding are cut
  int data = 1;    // replicas that share the optimizer's state, as ZeRO 1 does
  double global_batch = 0;
  double seconds = 0;  // of a step that was measured
  double tflops = 0;   // a device, assumed
  double tokens = 0;   // of a training
  double price = 0;    // of a device-hour
  bool recomputation = true;
};

// NOLINTNEXTLINE(bugprone-exception-escape): the move of a JSON value does not throw
struct FormulaAnswer {
  std::string text;
  nlohmann::ordered_json json;
};

// An Error names what else would have to be given.
FormulaAnswer AnswerFormula(const FormulaQuestion& question);

}  // namespace trireme
