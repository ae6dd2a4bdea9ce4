#include "device/cpu/product/engine_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "device/cpu/product/kernel_table.h"
#include "device/cpu/product/outside_engines.h"
#include "device/cpu/product/packed_engine.h"

namespace trireme {
namespace {

constexpr std::pair<ProductEngine, std::string_view> kNames[] = {
    {ProductEngine::kPacked, "packed"},     {ProductEngine::kWidened, "widened"}, {ProductEngine::kOnednn, "onednn"},
    {ProductEngine::kOpenblas, "openblas"}, {ProductEngine::kBlis, "blis"},
};

ProductEngine ParseEngine(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& row) { return row.second == name; });
  Require(found != std::end(kNames),
          "engine '{}' of products is unknown; known are packed, widened, onednn, openblas and blis", name);
  return found->first;
}

// Sends a product to the engine of its operands' type.
class ChosenEngines final : public MatmulEngine {
 public:
  ChosenEngines(CpuLevel level, int threads, const EngineTable& table)
      : fp32_(MakeSingleEngine(table.fp32, level, threads)) {
    if (table.bf16 != table.fp32) {
      bf16_ = MakeSingleEngine(table.bf16, level, threads);
    }
    if (!fp32_->Multiplies(DType::kFloat16)) {
      fp16_ = MakeSingleEngine(ProductEngine::kPacked, level, threads);
    }
  }
  std::string name() const override {
    return bf16_ == nullptr ? fp32_->name() : fmt::format("{}, bf16 {}", fp32_->name(), bf16_->name());
  }
  bool Multiplies(DType operands) const override { return EngineOf(operands).Multiplies(operands); }
  void Run(const MatmulArgs& args) override { EngineOf(args.a.dtype).Run(args); }
  void set_spare_bytes(std::int64_t bytes) override {
    for (MatmulEngine* engine : {fp32_.get(), bf16_.get(), fp16_.get()}) {
      if (engine != nullptr) {
        engine->set_spare_bytes(bytes);
      }
    }
  }
  std::int64_t internal_bytes() const override {
    return fp32_->internal_bytes() + (bf16_ == nullptr ? 0 : bf16_->internal_bytes()) +
           (fp16_ == nullptr ? 0 : fp16_->internal_bytes());
  }

 private:
  MatmulEngine& EngineOf(DType operands) const {
    if (operands == DType::kFloat16 && fp16_ != nullptr) {
      return *fp16_;
    }
    return operands == DType::kBFloat16 && bf16_ != nullptr ? *bf16_ : *fp32_;
  }

  std::unique_ptr<MatmulEngine> fp32_;
  std::unique_ptr<MatmulEngine> bf16_;  // none where fp32_ does both
  std::unique_ptr<MatmulEngine> fp16_;  // the packed one where fp32_ does not multiply fp16
};

ProductEngine RunnableEngine(ProductEngine engine, DType operands, CpuLevel level) {
  if (engine == ProductEngine::kPacked) {
    return engine;
  }
  const std::unique_ptr<MatmulEngine> made = MakeSingleEngine(engine, level, 1);
  return made != nullptr && made->Multiplies(operands) ? engine : ProductEngine::kPacked;
}

}  // namespace

std::string_view NameOf(ProductEngine engine) {
  return std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& row) { return row.first == engine; })
      ->second;
}

std::string EngineTable::ToString() const { return fmt::format("fp32={} bf16={}", NameOf(fp32), NameOf(bf16)); }

EngineTable EngineTable::Parse(std::string_view text) {
  EngineTable table = FixedEngines();
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string type = word.substr(0, equals);
    Require(equals < word.size() && (type == "fp32" || type == "bf16"),
            "'{}' is not an engine of products; write fp32=ENGINE or bf16=ENGINE", word);
    const ProductEngine engine = ParseEngine(word.substr(equals + 1));
    (type == "fp32" ? table.fp32 : table.bf16) = engine;
  }
  return table;
}

EngineTable FixedEngines() { return {}; }

EngineTable RunnableEngines(const EngineTable& table, CpuLevel level) {
  return {.fp32 = RunnableEngine(table.fp32, DType::kFloat32, level),
          .bf16 = RunnableEngine(table.bf16, DType::kBFloat16, level)};
}

std::string Substitutions(const EngineTable& asked, const EngineTable& runnable) {
  std::string text;
  const auto compare = [&](const char* type, ProductEngine before, ProductEngine after) {
    if (before != after) {
      text += fmt::format("{}engine {} cannot multiply {} here: {} multiplies it instead", text.empty() ? "" : "; ",
                          NameOf(before), type, NameOf(after));
    }
  };
  compare("fp32", asked.fp32, runnable.fp32);
  compare("bf16", asked.bf16, runnable.bf16);
  return text;
}

std::unique_ptr<MatmulEngine> MakeSingleEngine(ProductEngine engine, CpuLevel level, int threads) {
  switch (engine) {
    case ProductEngine::kPacked:
      return MakePackedEngine("packed", FloatKernel(level), Bf16Kernel(level), threads);
    case ProductEngine::kWidened:
      return MakePackedEngine("widened", FloatKernel(level), FloatKernel(level), threads);
    case ProductEngine::kOnednn:
      return MakeOnednnEngine(threads);
    case ProductEngine::kOpenblas:
      return MakeBlasEngine(BlasLibrary::kOpenblas, level, threads);
    case ProductEngine::kBlis:
      return MakeBlasEngine(BlasLibrary::kBlis, level, threads);
  }
  return nullptr;
}

std::string LibraryVersion(ProductEngine engine) {
  switch (engine) {
    case ProductEngine::kOnednn:
      return OnednnVersion();
    case ProductEngine::kOpenblas:
      return BlasVersion(BlasLibrary::kOpenblas);
    case ProductEngine::kBlis:
      return BlasVersion(BlasLibrary::kBlis);
    case ProductEngine::kPacked:
    case ProductEngine::kWidened:
      return "";
  }
  return "";
}

std::unique_ptr<MatmulEngine> MakeMatmulEngine(CpuLevel level, int threads, const EngineTable& table) {
  return std::make_unique<ChosenEngines>(level, threads, RunnableEngines(table, level));
}

}  // namespace trireme
