#include "planner/queries/formula.h"

#include <fmt/format.h>

#include <cmath>

#include "base/count_text.h"
#include "base/error.h"
#include "base/units.h"
#include "cost/formulas.h"
#include "model/parameter_table.h"

namespace trireme {
namespace {

// Mixed precision with Adam: weights 2, gradients 4, and fp32 weights and two moments, which ZeRO 1 shards.
constexpr double kWeightBytes = 2;
constexpr double kFp32GradientBytes = 4;
constexpr double kStateBytes = 12;

std::string Commas(double value) { return GroupedDigits(fmt::format("{:.0f}", value)); }

// "145.6B"
std::string Short(double count) {
  for (const auto& [unit, letter] : {std::pair{1e12, "T"}, {1e9, "B"}, {1e6, "M"}}) {
    if (count >= unit) {
      return fmt::format("{:.4g}{}", count / unit, letter);
    }
  }
  return Commas(count);
}

// How much of the parameters is where.
struct ShapeParts {
  double all = 0;
  double layer = 0;
  double embedding = 0;  // token table; an output of its own counts too
  double rest = 0;       // positions, last norm
};

ShapeParts PartsOf(const ModelConfig& model) {
  ModelConfig more = model;
  ++more.layers;
  ShapeParts parts{.all = static_cast<double>(ParameterCount(model))};
  parts.layer = static_cast<double>(ParameterCount(more)) - parts.all;
  const auto table = static_cast<double>(model.vocabulary * model.hidden);
  const double outside = parts.all - parts.layer * static_cast<double>(model.layers);
  parts.embedding = outside >= 2 * table ? 2 * table : table;
  parts.rest = outside - parts.embedding;
  return parts;
}

class Sums {
 public:
  explicit Sums(const FormulaQuestion& question) : question_(question) {}

  FormulaAnswer Take() {
    if (question_.model) {
      Shape(*question_.model);
    }
    parameters_ = question_.model ? static_cast<double>(ParameterCount(*question_.model)) : question_.parameters;
    if (question_.seconds > 0) {
      MeasuredStep();
    }
    if (question_.tokens > 0) {
      Training();
    }
    Require(!answer_.text.empty(),
            "there is nothing to work out: give a model or a shape, --seconds of a step, or --tokens of a training");
    return std::move(answer_);
  }

 private:
  void Line(const std::string& label, const std::string& text) {
    answer_.text += fmt::format("{:<16}  {}\n", label, text);
  }

  void Bytes(const std::string& label, const std::string& key, double parameters) {
    const double own = parameters / question_.tensor;
    const double state = kStateBytes / question_.data;
    const double bytes = own * (kWeightBytes + kFp32GradientBytes + state);
    const std::string cut = question_.tensor > 1 ? fmt::format(" / tp {}", question_.tensor) : "";
    const std::string shared = question_.data > 1 ? fmt::format(" / dp {}", question_.data) : "";
    Line(label, fmt::format("{}{} x (2 weights + 4 gradients + 12{} state) bytes = {:.3f} GiB a device (weights alone "
                            "{:.3f} GiB)",
                            Commas(parameters), cut, shared, bytes / kGibi, own * kWeightBytes / kGibi));
    answer_.json[key] = {{"parameters", parameters}, {"bytes", bytes}, {"weight_bytes", own * kWeightBytes}};
  }

  void Shape(const ModelConfig& model) {
    const ShapeParts parts = PartsOf(model);
    const double ratio = static_cast<double>(model.hidden) / static_cast<double>(model.layers);
    Line("shape",
         fmt::format("{}: {} layers, hidden {}, {} heads of {}, vocabulary {}, sequence {}", model.family, model.layers,
                     model.hidden, model.heads, model.head_size(), model.vocabulary, model.sequence));
    Line("parameters",
         fmt::format("{} layers x {} + embedding {} + rest {} = {} ({})", model.layers, Commas(parts.layer),
                     Commas(parts.embedding), Commas(parts.rest), Commas(parts.all), Short(parts.all)));
    Line("hidden / layers", fmt::format("{} / {} = {:.1f}", model.hidden, model.layers, ratio));
    answer_.json["parameters"] = parts.all;
    answer_.json["ratio"] = ratio;
    Bytes("a layer", "layer", parts.layer);
    Bytes("the embedding", "embedding", parts.embedding);
  }

  void MeasuredStep() {
    Require(question_.devices > 0 && question_.global_batch > 0 && question_.model,
            "TFLOPs of a step need --seconds, --gpus, --global-batch and a model or a shape");
    const ModelConfig& model = *question_.model;
    const double samples = question_.global_batch;
    const double tokens = samples * static_cast<double>(model.sequence);
    const double each = question_.seconds * question_.devices * 1e12;
    const bool again = question_.recomputation;
    const auto tflops = [&](double flops) { return flops / each; };
    Line("step", fmt::format("{} samples x {} tokens = {} tokens in {} s on {} devices: {} tokens/s", Commas(samples),
                             model.sequence, Commas(tokens), question_.seconds, question_.devices,
                             Commas(tokens / question_.seconds)));
    const double estimated = tflops(EstimatedFlops(model, samples, again));
    Line(again ? "TFLOPs 4x" : "TFLOPs 3x",
         fmt::format("{} x {} parameters x {} tokens / {} s / {} devices = {:.2f}", again ? 8 : 6, Commas(parameters_),
                     Commas(tokens), question_.seconds, question_.devices, estimated));
    const double megatron = tflops(MegatronFlops(model, samples, again));
    Line("TFLOPs Megatron",
         fmt::format("24 x {} x {} x {} x {} x {}^2 x (1 + {} / (6 x {}) + {} / (16 x {} x {})) / {} s / {} devices = "
                     "{:.2f}",
                     again ? 4 : 3, Commas(samples), model.sequence, model.layers, model.hidden, model.sequence,
                     model.hidden, model.vocabulary, model.layers, model.hidden, question_.seconds, question_.devices,
                     megatron));
    const double needed = tflops(ModelFlops(model, samples));
    Line("TFLOPs model",
         fmt::format("{:.4g} FLOPs that the model needs, attention halved by its mask / {} s / {} devices = {:.2f}",
                     ModelFlops(model, samples), question_.seconds, question_.devices, needed));
    answer_.json["tflops"] = {{again ? "4x" : "3x", estimated}, {"megatron", megatron}, {"model", needed}};
    measured_ = estimated;
  }

  void Training() {
    const double rate = question_.tflops > 0 ? question_.tflops : measured_;
    Require(rate > 0 && parameters_ > 0,
            "days of a training need --tokens, a model or --parameters, and --tflops of a device (or --seconds of a "
            "measured step)");
    const bool again = question_.recomputation;
    const double hours = TrainingDeviceHours(question_.tokens, parameters_, rate * 1e12, again);
    Line("device-hours", fmt::format("{} x {} tokens x {} parameters / ({:.4g} TFLOP/s x 3600) = {}", again ? 8 : 6,
                                     Short(question_.tokens), Short(parameters_), rate, Commas(hours)));
    answer_.json["device_hours"] = hours;
    if (question_.devices > 0) {
      const double days = TrainingDays(question_.tokens, parameters_, question_.devices, rate * 1e12, again);
      Line("days", fmt::format("{} device-hours / {} devices / 24 = {:.2f}", Commas(hours), question_.devices, days));
      answer_.json["days"] = days;
    }
    if (question_.price > 0) {
      Line("cost",
           fmt::format("{} device-hours x {} = {}", Commas(hours), question_.price, Commas(hours * question_.price)));
      answer_.json["cost"] = hours * question_.price;
    }
  }

  const FormulaQuestion& question_;
  double parameters_ = 0;
  double measured_ = 0;  // TFLOPs of the measured step
  FormulaAnswer answer_;
};

}  // namespace

FormulaAnswer AnswerFormula(const FormulaQuestion& question) {
  Require(!question.model || question.parameters == 0,
          "a model or a shape says how many parameters there are: leave out --parameters");
  return Sums(question).Take();
}

}  // namespace trireme
