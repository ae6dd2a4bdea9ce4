#include <gtest/gtest.h>

#include "cost/step_cost.h"

namespace trireme {
namespace {

struct Float8Shape {
  const char* family;
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t ffn;
  std::int64_t sequence;
  int micro_batch;
};

RunConfig RunOf(const Float8Shape& shape, const std::string& dtype, Recompute recompute) {
  RunConfig config;
  config.model.family = shape.family;
  config.model.layers = shape.layers;
  config.model.hidden = shape.hidden;
  config.model.heads = shape.heads;
  config.model.kv_heads = shape.kv_heads;
  config.model.ffn = shape.ffn;
  config.model.vocabulary = 50304;
  config.model.sequence = shape.sequence;
  config.model = Completed(config.model);
  config.layout.micro_batch = shape.micro_batch;
  config.layout.recompute = recompute;
  config.batch.global = shape.micro_batch;
  config.train.dtype = dtype;
  return config;
}

// GPT 124M and 1.3B, and a Llama of 1B.
TEST(Float8Memory, IsNoMoreThanThatOfBf16AndHoldsCopiesOfWeightsWhereThereIsRoom) {
  for (const Float8Shape& shape :
       {Float8Shape{"gpt2", 12, 768, 12, 12, 3072, 1024, 8}, Float8Shape{"gpt2", 24, 2048, 16, 16, 8192, 2048, 16},
        Float8Shape{"llama", 16, 2048, 32, 8, 8192, 4096, 4}}) {
    const auto memory = [&](const std::string& dtype, Recompute recompute) {
      const RunConfig config = RunOf(shape, dtype, recompute);
      const StageOfRun stage(config, 0, config.batch.global);
      EXPECT_EQ(stage.description().sizes.float8_weights, dtype == "fp8" && recompute == Recompute::kNone);
      return MemoryOfStage(stage.description()).total();
    };
    EXPECT_LE(memory("fp8", Recompute::kNone), memory("bf16", Recompute::kNone)) << shape.hidden;
    const std::int64_t light = memory("bf16", Recompute::kLight);
    EXPECT_LE(memory("fp8", Recompute::kLight), light + light / 20) << shape.hidden;
  }
}

}  // namespace
}  // namespace trireme
