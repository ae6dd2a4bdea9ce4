#include "device/product_forms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace trireme {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
constexpr double kLinear = 1.5957691216057308;
constexpr double kCubic = 0.044715 * kLinear;
double Gelu(double x) { return x * Sigmoid(x * (kLinear + kCubic * x * x)); }
double GeluGradient(double x) {
  const double s = Sigmoid(x * (kLinear + kCubic * x * x));
  return s + x * s * (1 - s) * (kLinear + 3 * kCubic * x * x);
}

std::vector<std::vector<float>> Expected(Workbench& bench, const Form& form, const MatmulArgs& args) {
  const std::vector<float> a = bench.Read(args.a);
  const std::vector<float> b = bench.Read(args.b);
  const Shape shape{form.m, form.n};
  const std::vector<float> before = bench.Read(bench.Normal(form.out, shape, form.accumulate ? "c" : "auxiliary"));
  const std::vector<float> bias = form.bias ? bench.Read(args.bias) : std::vector<float>();
  std::vector<std::vector<float>> outputs(form.epilogue == Epilogue::kGelu ? 2 : 1);
  for (std::int64_t i = 0; i < form.m; ++i) {
    for (std::int64_t j = 0; j < form.n; ++j) {
      double z = form.bias ? static_cast<double>(bias[static_cast<std::size_t>(j)]) : 0;
      for (std::int64_t k = 0; k < form.k; ++k) {
        z += static_cast<double>(a[static_cast<std::size_t>(form.transpose_a ? k * form.m + i : i * form.k + k)]) *
             static_cast<double>(b[static_cast<std::size_t>(form.transpose_b ? j * form.k + k : k * form.n + j)]);
      }
      const double old = static_cast<double>(before[static_cast<std::size_t>(i * form.n + j)]);
      if (form.epilogue == Epilogue::kGelu) {
        outputs[1].push_back(static_cast<float>(z));
        z = Gelu(z);
      } else if (form.epilogue == Epilogue::kGeluGradient) {
        z *= GeluGradient(old);
      } else if (form.accumulate || form.epilogue == Epilogue::kResidual) {
        z += old;
      }
      outputs[0].push_back(static_cast<float>(z));
    }
  }
  return outputs;
}

// What follows a product, in all the ways that Ops::Matmul allows.
std::vector<Form> EndsOf(const Form& form) {
  std::vector<Form> forms(8, form);
  forms[1].bias = true;
  forms[2].accumulate = true;
  forms[3].epilogue = Epilogue::kGelu;
  forms[4].epilogue = Epilogue::kGelu;
  forms[4].bias = true;
  forms[5].epilogue = Epilogue::kGeluGradient;
  forms[6].epilogue = Epilogue::kResidual;
  forms[7].epilogue = Epilogue::kResidual;
  forms[7].bias = true;
  return forms;
}

}  // namespace

std::string Form::ToString() const {
  return fmt::format("{}x{}x{}, transposes {} {}, accumulate {}, bias {}, epilogue {}, {} to {}", m, n, k, transpose_a,
                     transpose_b, accumulate, bias, static_cast<int>(epilogue), Name(operands), Name(out));
}

MatmulArgs MakeArgs(Workbench& bench, const Form& form) {
  MatmulArgs args{
      .a = bench.Normal(form.operands, form.transpose_a ? Shape{form.k, form.m} : Shape{form.m, form.k}, "a"),
      .b = bench.Normal(form.operands, form.transpose_b ? Shape{form.n, form.k} : Shape{form.k, form.n}, "b", 0.25F),
      .transpose_a = form.transpose_a,
      .transpose_b = form.transpose_b,
      .accumulate = form.accumulate,
      .epilogue = form.epilogue};
  if (form.bias) {
    args.bias = bench.Normal(form.operands, {form.n}, "bias");
  }
  return args;
}

std::vector<std::vector<float>> Outputs(Workbench& bench, const Form& form, MatmulArgs args, MatmulEngine& engine) {
  const Shape shape{form.m, form.n};
  args.c = form.accumulate ? bench.Normal(form.out, shape, "c") : bench.Output(form.out, shape);
  if (form.epilogue == Epilogue::kGelu) {
    args.auxiliary = bench.Output(form.out, shape);
  } else if (form.epilogue != Epilogue::kNone) {
    args.auxiliary = bench.Normal(form.out, shape, "auxiliary");
  }
  engine.Run(args);
  std::vector<std::vector<float>> outputs{bench.Read(args.c)};
  if (form.epilogue == Epilogue::kGelu) {
    outputs.push_back(bench.Read(args.auxiliary));
  }
  return outputs;
}

std::vector<Form> FormsOfSize(std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<Form> forms;
  for (const int transposes : {0, 1, 2, 3}) {
    for (const auto& [operands, out] : {std::pair{kFloat, kFloat},
                                        {DType::kBFloat16, DType::kBFloat16},
                                        {DType::kBFloat16, kFloat},
                                        {DType::kFloat16, DType::kFloat16},
                                        {DType::kFloat16, kFloat}}) {
      for (const Form& form : EndsOf({.m = m,
                              .n = n,
                              .k = k,
                              .transpose_a = (transposes & 1) != 0,
                              .transpose_b = (transposes & 2) != 0,
                              .operands = operands,
                              .out = out})) {
        forms.push_back(form);
      }
    }
  }
  return forms;
}

void ExpectSums(const std::vector<NamedEngine>& engines, const Form& form) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const MatmulArgs args = MakeArgs(bench, form);
  const auto expected = Expected(bench, form, args);
  for (const NamedEngine& named : engines) {
    if (!named.engine->Multiplies(form.operands)) {
      continue;
    }
    const auto outputs = Outputs(bench, form, args, *named.engine);
    const double tolerance = form.out == kFloat ? 1e-5 : form.out == DType::kFloat16 ? 1e-3 : 8e-3;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_LT(RelativeDifference(outputs[i], expected[i]), tolerance) << named.name << ": " << form.ToString();
    }
  }
}

}  // namespace trireme
