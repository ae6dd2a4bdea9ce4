// The lowered block: its buffers, its parts, and what it costs in memory.
#include "lowering/module_program.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "lowering/operands.h"

namespace trireme {
namespace {

ModelConfig ModelOf(const std::string& family) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.hidden = 32;
  config.heads = 4;
  config.ffn = 128;
  config.vocabulary = 50;
  config.sequence = 8;
  return Completed(config);
}

struct Case {
  std::string name;
  ModelConfig model;
  LocalSizes sizes;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const std::string family : {"gpt2", "bloom", "llama", "qwen3", "olmo2", "gemma2", "gpt_neox", "opt"}) {
    for (const double dropout : {0.0, 0.1}) {
      for (const Recompute recompute : {Recompute::kNone, Recompute::kLight, Recompute::kSelective, Recompute::kFull}) {
        for (const bool split : {false, true}) {
          for (const ParallelLayout& cut :
               {ParallelLayout{}, ParallelLayout{.tensor = 2}, ParallelLayout{.tensor = 2, .sequence_parallel = true},
                ParallelLayout{.context = 2}, ParallelLayout{.context = 2, .context_kind = ContextKind::kRing},
                ParallelLayout{.context = 2, .context_kind = ContextKind::kUlysses}}) {
            for (const DType dtype : {DType::kFloat32, DType::kFloat8E4M3}) {
              ModelConfig model = ModelOf(family);
              model.dropout = dropout;
              ParallelLayout layout = cut;
              layout.recompute = recompute;
              layout.micro_batch = 2;
              cases.push_back({fmt::format("{} dropout {} recompute {} split {} {} dtype {}", family, dropout,
                                           static_cast<int>(recompute), split, cut.ToString(), static_cast<int>(dtype)),
                               model, LocalSizes(model, layout, dtype, split)});
            }
          }
        }
      }
    }
  }
  return cases;
}

std::int64_t EndOf(const Place& place) {
  return place.offset + RoundUp(place.shape.count() * SizeOf(place.dtype), kPlanAlignment);
}

std::vector<BufferId> BuffersOf(const StepWork& work) {
  std::vector<BufferId> buffers;
  for (const Operand& operand : OperandsOf(work)) {
    if (operand.is_buffer()) {
      buffers.push_back(operand.id);
    }
  }
  return buffers;
}

// Replays a part: before each step every buffer that a later step of the program reads must still hold what was put
// there, so that no two buffers in use at once may overlap.
void ExpectApart(const ModuleProgram& program) {
  const std::vector<const std::vector<ProgramStep>*> parts = {&program.forward, &program.backward,
                                                              &program.backward_weight};
  for (const auto* part : parts) {
    std::vector<std::set<BufferId>> in_use(part->size());
    for (std::size_t first = 0; first < part->size(); ++first) {
      for (const BufferId id : BuffersOf((*part)[first].work)) {
        for (std::size_t last = first; last < part->size(); ++last) {
          for (const BufferId other : BuffersOf((*part)[last].work)) {
            for (std::size_t step = first; other == id && step <= last; ++step) {
              in_use[step].insert(id);
            }
          }
        }
      }
    }
    for (const std::set<BufferId>& together : in_use) {
      for (const BufferId a : together) {
        const Place& place = program.buffers[static_cast<std::size_t>(a)];
        EXPECT_TRUE(place.present()) << a;
        EXPECT_LE(EndOf(place), place.area == Area::kKept      ? program.kept_bytes
                                : place.area == Area::kScratch ? program.scratch_bytes
                                : place.area == Area::kWeights ? program.weight_bytes
                                                               : INT64_MAX);
        for (const BufferId b : together) {
          const Place& other = program.buffers[static_cast<std::size_t>(b)];
          const bool share = a != b && place.area == other.area && place.area != Area::kGiven &&
                             place.offset < EndOf(other) && other.offset < EndOf(place);
          EXPECT_FALSE(share) << "buffers " << a << " and " << b;
        }
      }
    }
  }
}

TEST(BlockProgram, BuffersInUseAtOnceNeverOverlap) {
  for (const Case& one : AllCases()) {
    SCOPED_TRACE(one.name);
    ExpectApart(PlanBlock(one.model, one.sizes));
    ExpectApart(PlanBlock(one.model, one.sizes, ProgramPurpose::kInference));
  }
}

TEST(BlockProgram, KeptIsExactlyWhatAnotherPartReads) {
  for (const Case& one : AllCases()) {
    SCOPED_TRACE(one.name);
    const ModuleProgram program = PlanBlock(one.model, one.sizes);
    std::vector<std::set<int>> parts(program.buffers.size());
    int number = 0;
    for (const auto* part : {&program.forward, &program.backward, &program.backward_weight}) {
      for (const ProgramStep& step : *part) {
        for (const BufferId id : BuffersOf(step.work)) {
          parts[static_cast<std::size_t>(id)].insert(number);
        }
      }
      ++number;
    }
    for (std::size_t i = kGradInput + 1; i < parts.size(); ++i) {
      if (program.buffers[i].area == Area::kWeights) {
        EXPECT_TRUE(one.sizes.float8);
        continue;
      }
      const Area expected = parts[i].empty() ? Area::kAbsent : parts[i].size() > 1 ? Area::kKept : Area::kScratch;
      EXPECT_EQ(program.buffers[i].area, expected) << "buffer " << i;
    }
    EXPECT_EQ(program.buffers[kModuleInput].area, Area::kKept);
    EXPECT_EQ(program.buffers[kModuleInput].offset, 0);
  }
}

TEST(BlockProgram, RecomputationKeepsLessAtEveryLevel) {
  std::int64_t before = INT64_MAX;
  const ModelConfig model = ModelOf("llama");
  for (const Recompute recompute : {Recompute::kNone, Recompute::kLight, Recompute::kSelective, Recompute::kFull}) {
    const LocalSizes sizes(model, {.recompute = recompute, .micro_batch = 2}, DType::kFloat32, false);
    const ModuleProgram program = PlanBlock(model, sizes);
    EXPECT_LT(program.kept_bytes, before);
    before = program.kept_bytes;
  }
  EXPECT_EQ(before, 2 * 8 * 32 * 4) << "of a block that is recomputed whole only its input stays";
}

// On one rank without dropout both branches are added as their last products are stored, unless a norm or an adapter
// comes in between; a tensor group adds up partial sums first.
TEST(BlockProgram, ResidualSumsArePartOfProducts) {
  for (const Case& one : AllCases()) {
    SCOPED_TRACE(one.name);
    const ModuleProgram program = PlanBlock(one.model, one.sizes);
    int fused = 0;
    int sums = 0;
    for (const ProgramStep& step : program.forward) {
      const auto* product = std::get_if<ProductStep>(&step.work);
      const auto* norm = std::get_if<NormStep>(&step.work);
      fused += product != nullptr && product->epilogue == Epilogue::kResidual ? 1 : 0;
      sums += std::holds_alternative<SumStep>(step.work) || (norm != nullptr && norm->branch != kNoId) ? 1 : 0;
    }
    EXPECT_EQ(fused + sums, 2);
    EXPECT_EQ(fused, one.sizes.tensor > 1 || one.sizes.dropout || one.model.post_norm ? 0 : 2);
  }
}

TEST(BlockProgram, AnInferencePassKeepsNothingButItsInput) {
  for (const Case& one : AllCases()) {
    const ModuleProgram program = PlanBlock(one.model, one.sizes, ProgramPurpose::kInference);
    EXPECT_EQ(program.kept_bytes, EndOf(program.buffers[kModuleInput]));
    EXPECT_TRUE(program.backward.empty());
  }
}

TEST(BlockProgram, EveryParameterIsReadAndEveryOneGetsItsGradientOnce) {
  for (const Case& one : AllCases()) {
    SCOPED_TRACE(one.name);
    const BlockDescription block = DescribeBlock(one.model, false);
    const ModuleProgram program = PlanBlock(one.model, one.sizes);
    std::multiset<int> gradients;
    for (const auto* part : {&program.backward, &program.backward_weight}) {
      for (const ProgramStep& step : *part) {
        for (const Operand& operand : OperandsOf(step.work)) {
          if (operand.owner != Owner::kGradient) {
            continue;
          }
          gradients.insert(operand.id);
          EXPECT_TRUE(step.weight_part || std::holds_alternative<QuantizeStep>(step.work));
        }
      }
    }
    std::multiset<int> all;
    for (int i = 0; i < static_cast<int>(block.parameters.size()); ++i) {
      all.insert(i);
    }
    EXPECT_EQ(gradients, all);
  }
}

struct Float8Copies {
  int copies = 0;  // of tensors
  int noted = 0;   // of these, with a largest magnitude from the step that made the tensor
  int biases = 0;  // whose gradients they add up
};

Float8Copies CopiesIn(const std::vector<ProgramStep>& steps) {
  Float8Copies found;
  for (const ProgramStep& step : steps) {
    if (const auto* copy = std::get_if<QuantizeStep>(&step.work); copy != nullptr && copy->from != kNoId) {
      found.copies += 1;
      found.noted += copy->largest != kNoId ? 1 : 0;
      EXPECT_NE(copy->largest != kNoId, copy->guess != kNoId);
      found.biases += copy->bias != kNoId ? 1 : 0;
    }
    EXPECT_FALSE(std::holds_alternative<BiasGradientStep>(step.work));
  }
  return found;
}

TEST(BlockProgram, Float8CopiesTakeWhatOtherStepsHaveAtHand) {
  const auto lowered = [](const char* family) {
    const ModelConfig model = ModelOf(family);
    return LowerBlock(DescribeBlock(model, false), LocalSizes(model, {}, DType::kFloat8E4M3, false));
  };
  const ModuleProgram gpt = lowered("gpt2");
  // Both norms' outputs; not those of attention and of the product with GELU.
  EXPECT_EQ(CopiesIn(gpt.forward).copies, 4);
  EXPECT_EQ(CopiesIn(gpt.forward).noted, 2);
  // What GELU's and a norm's backward make; not the block's own gradient and attention's.
  EXPECT_EQ(CopiesIn(gpt.backward).copies, 4);
  EXPECT_EQ(CopiesIn(gpt.backward).noted, 2);
  EXPECT_EQ(CopiesIn(gpt.backward).biases, 4);
  const ModuleProgram llama = lowered("llama");
  EXPECT_EQ(CopiesIn(llama.forward).noted, 3);
  EXPECT_EQ(CopiesIn(llama.backward).noted, 2);
  EXPECT_EQ(CopiesIn(llama.backward).biases, 0);
}

TEST(BlockProgram, Float8CopiesOfWeightsThatAreKeptAreMadeOnceAndServeBackward) {
  const ModelConfig model = ModelOf("gpt2");
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    LocalSizes sizes(model, {.recompute = recompute, .micro_batch = 2}, DType::kFloat8E4M3, false);
    const ModuleProgram plain = PlanBlock(model, sizes);
    sizes.float8_weights = true;
    const ModuleProgram kept = PlanBlock(model, sizes);
    EXPECT_LE(plain.weight_bytes, 20 * kPlanAlignment);  // guesses of scales
    // Two bytes for each element of four matrices, and their scales.
    const std::int64_t elements = sizes.hidden * (sizes.qkv + sizes.attention + 2 * sizes.ffn);
    EXPECT_GE(kept.weight_bytes, 2 * elements);
    EXPECT_LE(kept.weight_bytes, 2 * elements + 28 * kPlanAlignment);
    EXPECT_EQ(kept.kept_bytes, plain.kept_bytes);
    EXPECT_LE(kept.scratch_bytes, plain.scratch_bytes);
    int made = 0;
    for (const ProgramStep& step : kept.forward) {
      const auto* copy = std::get_if<QuantizeStep>(&step.work);
      if (copy != nullptr && copy->weight != kNoId) {
        EXPECT_TRUE(copy->once && copy->rows != kNoId && copy->columns != kNoId);
        made += 1;
      }
    }
    EXPECT_EQ(made, 4);
    for (const ProgramStep& step : kept.backward) {
      const auto* copy = std::get_if<QuantizeStep>(&step.work);
      EXPECT_TRUE(copy == nullptr || copy->weight == kNoId);
    }
  }
}

// Norms of queries and keys before and after the rotation, say: each has gradients of its own.
TEST(BlockProgram, TwoHeadNormsOfABlockHaveGradientsOfTheirOwn) {
  const ModelConfig model = ModelOf("qwen3");
  BlockDescription block = DescribeBlock(model, false);
  const auto place = std::find_if(block.operations.begin(), block.operations.end(),
                                  [](const BlockOperation& operation) { return operation.op == BlockOp::kHeadNorm; });
  ASSERT_NE(place, block.operations.end());
  const BlockOperation first = *place;
  BlockOperation second = first;
  second.input = first.output;
  second.output = static_cast<int>(block.values.size());
  second.weight = static_cast<int>(block.parameters.size());
  second.key_gain = second.weight + 1;
  block.values.push_back(block.values[static_cast<std::size_t>(first.output)]);
  for (auto later = place + 1; later != block.operations.end(); ++later) {
    later->input = later->input == first.output ? second.output : later->input;
  }
  block.operations.insert(place + 1, second);
  std::map<int, BufferId> source;  // by parameter
  for (const ProgramStep& step : LowerBlock(block, LocalSizes(model, {}, DType::kFloat32, false)).backward) {
    if (const auto* add = std::get_if<AddGradientStep>(&step.work); add != nullptr) {
      source[add->parameter] = add->from;
    }
  }
  std::set<BufferId> buffers;
  for (const int gain : {first.weight, first.key_gain, second.weight, second.key_gain}) {
    ASSERT_TRUE(source.contains(gain)) << gain;
    buffers.insert(source[gain]);
  }
  EXPECT_EQ(buffers.size(), 4U);
}

// Every case of a model after the other, and again: what is remembered is what planning anew gives.
TEST(BlockProgramCache, RemembersEveryBlockOfAModel) {
  std::vector<Case> cases = AllCases();
  std::erase_if(cases, [model = cases.front().model](const Case& one) { return one.model != model; });
  EXPECT_GE(cases.size(), 90U);
  BlockProgramCache cache;
  std::vector<std::shared_ptr<const ModuleProgram>> first;
  for (const Case& one : cases) {
    first.push_back(cache.ProgramOf(one.model, one.sizes));
    const ModuleProgram planned = PlanBlock(one.model, one.sizes);
    EXPECT_EQ(first.back()->kept_bytes, planned.kept_bytes) << one.name;
    EXPECT_EQ(first.back()->scratch_bytes, planned.scratch_bytes) << one.name;
    EXPECT_EQ(first.back()->backward.size(), planned.backward.size()) << one.name;
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(cache.ProgramOf(cases[i].model, cases[i].sizes), first[i]) << cases[i].name;
  }
}

TEST(BlockProgramCache, AnotherModelHasProgramsOfItsOwn) {
  BlockProgramCache cache;
  const ModelConfig gpt = ModelOf("gpt2");
  const ModelConfig llama = ModelOf("llama");
  const LocalSizes sizes(gpt, {}, DType::kFloat32, false);
  const std::size_t of_gpt = cache.ProgramOf(gpt, sizes)->forward.size();
  const LocalSizes others(llama, {}, DType::kFloat32, false);
  EXPECT_EQ(cache.ProgramOf(llama, others)->forward.size(), PlanBlock(llama, others).forward.size());
  EXPECT_EQ(cache.ProgramOf(gpt, sizes)->forward.size(), of_gpt);
}

}  // namespace
}  // namespace trireme
