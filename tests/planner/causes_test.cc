// Why programs and machines take as long as they do: each cause that stack and cluster files hold, by its direction.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "planner/fixtures.h"
#include "planner/pricing/data_parallel_time.h"
#include "planner/pricing/interval.h"
#include "planner/pricing/module_time.h"
#include "planner/pricing/step_estimate.h"
#include "planner/queries/explain.h"
#include "planner/queries/first_choice.h"
#include "planner/validation/sick_runs.h"
#include "planner/validation/validate.h"

namespace trireme {
namespace {

using test::Machine;
using test::ShippedCluster;
using test::ShippedFiles;
using test::ShippedStack;

ModelConfig LlamaShape(std::int64_t layers, std::int64_t hidden = 4096) {
  return Completed(ModelConfig{.family = "llama",
                               .layers = layers,
                               .hidden = hidden,
                               .heads = hidden / 128,
                               .kv_heads = 8,
                               .vocabulary = 128256,
                               .sequence = 4096});
}

StepTerms TermsOf(const PlanPoint& point) {
  PipelineClock clock;
  return EstimateTime(point, ModelAccount(point.config.model), clock).terms;
}

double SecondsOf(const PlanPoint& point) {
  PipelineClock clock;
  return EstimateTime(point, ModelAccount(point.config.model), clock).seconds;
}

double SecondsIn(const Machine& machine, const StackState& state, const std::string& dtype) {
  PlanPoint point = machine.Point(LlamaShape(8), {.data = 8, .zero = 1, .micro_batch = 1}, 64).Under(state);
  point.config.train.dtype = dtype;
  return SecondsOf(point);
}

// stas00/ml-engineering, compute/accelerator: maximum achievable matmul FLOPS of peak.
TEST(Causes, BlackwellSustainsNoMoreThanItsMeasuredMaximum) {
  struct Row {
    const char* cluster;
    double bf16;
    double fp8;
  };
  for (const Row& row : {Row{"dgx-b200", 0.776, 0.763}, Row{"dgx-b300", 0.786, 0.745}, Row{"gb200-nvl72", 0.729, 0.723},
                         Row{"gb300-nvl72", 0.786, 0.745}}) {
    const DeviceSpec device = ShippedCluster(row.cluster).device;
    EXPECT_LE(device.Peak(DType::kBFloat16) / device.peak_half, row.bf16) << row.cluster;
    EXPECT_LE(device.Peak(ProductFormat::kFloat8, DType::kBFloat16) / device.peak_fp8, row.fp8) << row.cluster;
    EXPECT_LE(device.sustained_fp4, device.sustained_fp8 + 1e-12) << row.cluster;
  }
}

TEST(Causes, NarrowerFormatsCostMoreToMake) {
  for (const char* cluster : {"dgx-b200", "gb200-nvl72", "gb300-nvl72"}) {
    const Machine machine(cluster, "megatron-core-2024");
    const DeviceSpec& device = machine.cluster.device;
    const double fp8 = SecondsIn(machine, machine.state, "fp8");
    EXPECT_LT(fp8, SecondsIn(machine, machine.state, "mxfp8")) << cluster;
    const double gain = fp8 / SecondsIn(machine, machine.state, "nvfp4");
    EXPECT_LT(gain, device.peak_fp4 / device.peak_fp8) << cluster;
  }
}

TEST(Causes, ALaterReleaseIsNeverSlower) {
  const Machine machine("dgx-b200", "megatron-core-2024");
  for (const char* dtype : {"bf16", "fp8", "mxfp8", "nvfp4"}) {
    double before = SecondsIn(machine, Resolve(machine.stack, machine.cluster, "2024-11"), dtype);
    for (const char* date : {"2025-04", "2026-04", ""}) {
      const double now = SecondsIn(machine, Resolve(machine.stack, machine.cluster, date), dtype);
      EXPECT_LE(now, before * (1 + 1e-12)) << dtype << " " << date;
      before = now;
    }
  }
  EXPECT_LT(SecondsIn(machine, Resolve(machine.stack, machine.cluster, "2025-04"), "fp8"),
            SecondsIn(machine, Resolve(machine.stack, machine.cluster, "2024-11"), "fp8"));
}

// Two batch sizes of one layout: what is left at none.
TEST(Causes, ASubmissionHasNextToNothingBesideItsSteps) {
  const auto intercept = [](const char* stack) {
    const Machine machine("dgx-h100", stack);
    const ParallelLayout layout{.data = 8, .zero = 1, .micro_batch = 1};
    const double small = SecondsOf(machine.Point(LlamaShape(8), layout, 8));
    return 2 * small - SecondsOf(machine.Point(LlamaShape(8), layout, 16));
  };
  EXPECT_LT(intercept("mlperf-2024") + 0.04, intercept("megatron-core-2024"));
}

constexpr const char* kRunColumns =
    "id,source,table,cluster,accelerator,gpus_per_node,gpus,system,family,layers,hidden,heads,kv_heads,ffn,vocab,seq,"
    "tp,pp,dp,zero_stage,micro_batch,global_batch,dtype,seconds_per_iteration,outcome,date,note\n";

Understood UnderstoodOf(const std::string& row, std::vector<MeasuredRun>& runs) {
  runs = ParseRuns(std::string(kRunColumns) + row, "x");
  return Understand(runs[0], ShippedFiles());
}

std::string FormatOf(const std::string& source, const std::string& accelerator, const std::string& dtype) {
  std::vector<MeasuredRun> runs;
  const Understood understood =
      UnderstoodOf(fmt::format("a,{},t,{},{},8,8,nemo,llama,8,4096,32,8,,128256,4096,1,1,8,1,1,8,{},1,ok,,\n", source,
                               accelerator == "a100-80g" ? "dgx-a100" : "dgx-h100", accelerator, dtype),
                   runs);
  EXPECT_TRUE(understood.point) << understood.reason;
  return understood.point ? understood.point->config.train.dtype : "";
}

TEST(Causes, ASubmissionThatNamesNoFormatIsNotBFloat16WhereTheChipHasFp8) {
  EXPECT_EQ(FormatOf("mlperf-training-v4.1", "h100-80g", ""), "fp8");
  EXPECT_EQ(FormatOf("mlperf-training-v4.1", "h100-80g", "bf16"), "bf16");
  EXPECT_EQ(FormatOf("mlperf-training-v2.1", "a100-80g", ""), "bf16");
  EXPECT_EQ(FormatOf("dgxc-v25.04", "h100-80g", ""), "bf16");
  std::vector<MeasuredRun> runs;
  const Understood named = UnderstoodOf(
      "a,results,t,dgx-h100,h100-80g,8,8,nvidia-mlperf,llama,8,4096,32,8,,128256,4096,1,1,8,1,1,8,,1,ok,,\n", runs);
  ASSERT_TRUE(named.point) << named.reason;
  EXPECT_EQ(named.point->config.train.dtype, "fp8") << "the program's name tells it too";
}

TEST(Causes, ASourceTellsTheMonthOfItsRelease) {
  EXPECT_EQ(ReleaseDate("dgxc-v25.04.01"), "2025-04");
  EXPECT_EQ(ReleaseDate("dgxc-v24.11.1-maxtext"), "2024-11");
  EXPECT_EQ(ReleaseDate("torchtitan-202412"), "2024-12");
  EXPECT_EQ(ReleaseDate("mlperf-training-v5.0"), "");
  EXPECT_EQ(ReleaseDate("gpt-2-v100"), "");
  EXPECT_EQ(ReleaseDate("a-v"), "");
  std::vector<MeasuredRun> runs;
  UnderstoodOf(
      "a,dgxc-v25.04.01,t,dgx-h100,h100-80g,8,8,nemo,llama,8,4096,32,8,,1000,4096,1,1,8,1,1,8,,1,ok,2024-01-02,\n",
      runs);
  EXPECT_EQ(runs[0].date, "2024-01-02") << "a date that is told stands";
}

double TitanSeconds(const std::string& note, const std::string& dtype, int tensor) {
  const Machine machine("dgx-h100", "torchtitan-2024");
  const StackState state = Resolve(machine.stack, machine.cluster, StackUse{.date = "2024-12", .note = note});
  PlanPoint point =
      machine
          .Point(LlamaShape(8), {.tensor = tensor, .data = 8 / tensor, .zero = 3, .sequence_parallel = tensor > 1}, 16)
          .Under(state);
  point.config.train.dtype = dtype;
  return SecondsOf(point);
}

TEST(Causes, WhatANoteTellsOfARunIsPriced) {
  EXPECT_GT(TitanSeconds("eager", "bf16", 1), 1.05 * TitanSeconds("compile", "bf16", 1));
  EXPECT_GT(TitanSeconds("compile", "bf16", 8), TitanSeconds("compile; 2D + async TP", "bf16", 8));
  EXPECT_EQ(TitanSeconds("compile", "bf16", 1), TitanSeconds("async TP", "bf16", 1));
  EXPECT_GT(TitanSeconds("float8 rowwise", "fp8", 1), TitanSeconds("float8", "fp8", 1));
  EXPECT_EQ(TitanSeconds("float8 rowwise", "bf16", 1), TitanSeconds("float8", "bf16", 1));
}

double NanotronData(const ModelConfig& model, int zero, int tensor, int data, std::int64_t batch) {
  const Machine machine("hf-h100-efa", "nanotron-2025");
  return TermsOf(machine.Point(model, {.tensor = tensor, .data = data, .zero = zero, .micro_batch = 1}, batch)).data;
}

TEST(Causes, NanotronPaysForItsShardsTensorByTensor) {
  const auto extra = [](const ModelConfig& model, int tensor) {
    return NanotronData(model, 1, tensor, 8, 8) - NanotronData(model, 0, tensor, 8, 8);
  };
  EXPECT_GT(extra(LlamaShape(16), 1), 0) << "with one accumulation step";
  EXPECT_GT(extra(LlamaShape(32), 1), 1.5 * extra(LlamaShape(16), 1)) << "it grows with the parameters";
  // A tensor group shares the bytes, not the tensors.
  const Machine machine("hf-h100-efa", "nanotron-2025");
  const auto kernels = [&](int tensor) {
    return ShardCopySeconds(
        machine.Point(LlamaShape(16), {.tensor = tensor, .data = 8, .zero = 1, .micro_batch = 1}, 8), 0);
  };
  EXPECT_GT(kernels(1), 0);
  EXPECT_EQ(kernels(4), kernels(1));
  EXPECT_GT(NanotronData(LlamaShape(16), 1, 1, 64, 64), NanotronData(LlamaShape(16), 1, 1, 8, 8))
      << "and with the ranks";
}

TEST(Causes, ProductsInPartsTakeNoLessThanWhole) {
  Machine machine("hf-h100-efa", "nanotron-2025");
  const auto matmul = [&](int tensor, bool in_parts) {
    machine.state.time.products_in_parts = in_parts;
    const ParallelLayout layout{.tensor = tensor, .data = 1, .sequence_parallel = tensor > 1, .micro_batch = 1};
    return TermsOf(machine.Point(LlamaShape(8), layout, 4)).matmul;
  };
  EXPECT_EQ(matmul(1, true), matmul(1, false));
  EXPECT_GT(matmul(8, true), 1.02 * matmul(8, false)) << "512 tokens leave units idle";
}

TEST(Causes, BucketsCostARingEach) {
  Machine machine("hf-h100-efa", "nanotron-2025");
  const auto data = [&](int ranks) {
    return TermsOf(machine.Point(LlamaShape(16), {.data = ranks, .zero = 0, .micro_batch = 1}, 4 * ranks)).data;
  };
  EXPECT_GT(data(256), data(64)) << "at equal tokens a device";
  const double buckets = data(256) - data(64);
  machine.state.time.bucket_bytes = 0;
  EXPECT_GT(buckets, data(256) - data(64)) << "more than one call of all grows";
}

TEST(Causes, SeveralNodesMakeTheTensorGroupOfAPipelineWait) {
  Machine machine("hf-h100-efa", "nanotron-2025");
  machine.state.efficiencies.stall_seconds = 2e-3;
  const auto overhead = [&](int tensor, int data) {
    return TermsOf(machine.Point(LlamaShape(16), {.tensor = tensor, .pipeline = 2, .data = data, .micro_batch = 1}, 32))
        .overhead;
  };
  EXPECT_GT(overhead(4, 2), overhead(4, 1)) << "two nodes, one node";
  EXPECT_GT(overhead(8, 1), overhead(4, 2)) << "it grows with the group";
}

// Runs of one sweep whose truth has a long wait of tensor groups between stages on several nodes.
TEST(Causes, FiveRunsTellAWaitFromASlowLink) {
  const PlannerFiles files = ShippedFiles();
  std::string table = kRunColumns;
  struct Layout {
    int tensor, pipeline, data;
  };
  for (const Layout& at : {Layout{1, 1, 8}, Layout{2, 1, 4}, Layout{4, 1, 2}, Layout{1, 2, 4}, Layout{4, 2, 2},
                           Layout{2, 4, 2}, Layout{2, 2, 8}, Layout{8, 2, 2}, Layout{4, 1, 8}}) {
    table += fmt::format(
        "t{0}p{1}d{2},s,t,hf-h100-efa,h100-80g,8,{3},nanotron,llama,16,2048,32,32,8192,131072,4096,{0},{1},{2},1,1,64,"
        "bf16,1,ok,,\n",
        at.tensor, at.pipeline, at.data, at.tensor * at.pipeline * at.data);
  }
  std::vector<MeasuredRun> runs = ParseRuns(table, "x");
  const SoftwareStack stack = ShippedStack("nanotron-2025");
  StackCalibration truth{.efficiencies = stack.defaults, .memory = stack.memory};
  truth.efficiencies.stall_seconds *= 60;
  PipelineClock clock;
  for (MeasuredRun& run : runs) {
    const RunPoint point = *Understand(run, files).point;
    const Cluster& cluster = files.clusters[static_cast<std::size_t>(point.cluster)];
    const StackState state = StateFor(stack, cluster, run, &truth);
    run.seconds = EstimateTime(point.PointUnder(cluster, state), ModelAccount(point.config.model), clock).seconds;
  }
  for (const Prediction& one : Validate(runs, files, {.fit = 5}).predictions) {
    EXPECT_NEAR(one.seconds / *one.run->seconds, 1, 0.15) << one.run->id;
  }
}

TEST(Causes, AMessageThatTakesLongerThanAnyLinkIsAFault) {
  std::string table = kRunColumns;
  for (const int pipeline : {1, 2, 4}) {
    table += fmt::format(
        "p{0},s{0},t,hf-h100-efa,h100-80g,8,8,nanotron,llama,16,2048,32,32,8192,131072,4096,1,{0},{1},1,1,64,bf16,1,ok,"
        ","
        "\n",
        pipeline, 8 / pipeline);
  }
  const std::vector<MeasuredRun> runs = ParseRuns(table, "x");
  const PlannerFiles files = ShippedFiles();
  std::vector<PricedRun> priced;
  for (const MeasuredRun& run : runs) {
    const Understood understood = Understand(run, files);
    ASSERT_TRUE(understood.point) << understood.reason;
    priced.push_back({.point = *understood.point, .account = ModelAccount(understood.point->config.model)});
  }
  const auto sick = [&](double quantum) {
    std::vector<const PricedRun*> group;
    for (PricedRun& run : priced) {
      const ParallelLayout& layout = run.point.config.layout;
      const double messages = layout.pipeline > 2 ? 4 : 2;
      run.seconds = 2 + quantum * messages * 64 / layout.data;
      group.push_back(&run);
    }
    return FindSick(group, {2, 2, 2});
  };
  EXPECT_EQ(sick(0.3), (std::vector<bool>{false, true, true})) << "no stage, no message";
  EXPECT_EQ(sick(0.02), std::vector<bool>(3, false));
}

TEST(Causes, ExpectedRegretGrowsWithDoubtAndShrinksWithTheLead) {
  EXPECT_EQ(ExpectedRegret(1, 1.1, 0), 0);
  EXPECT_GT(ExpectedRegret(1, 1.1, 0.2), ExpectedRegret(1, 1.1, 0.1));
  EXPECT_GT(ExpectedRegret(1, 1.1, 0.1), ExpectedRegret(1, 1.3, 0.1));
  // Equal ones: the mean of the better half of a normal distribution.
  EXPECT_NEAR(ExpectedRegret(1, 1, 0.1), std::expm1(0.1 / std::sqrt(2 * std::acos(-1.0))), 1e-9);
  EXPECT_LT(ExpectedRegret(1, 2, 0.1), 1e-6);
}

TEST(Causes, WhatMovesTwoRunsAlikeDoesNotPartThem) {
  const std::vector<double> covariance = PriorCovariance();
  std::vector<double> a(EfficiencyFields().size(), 0.0);
  a[0] = 1;
  std::vector<double> b = a;
  EXPECT_NEAR(PairedDeviation(a, b, covariance), std::sqrt(2.0) * kModelNoise, 1e-12);
  b[0] = 0;
  EXPECT_GT(PairedDeviation(a, b, covariance), std::sqrt(2.0) * kModelNoise);
}

TEST(Causes, AFirstChoiceOfAnUnknownSiteMayCostSomething) {
  Machine machine("dgx-h100", "megatron-core-2024");
  const SearchRequest request = machine.Request(LlamaShape(32), 64, 256);
  const SearchResult result = Search(request);
  ASSERT_GT(result.ranked.size(), 1U);
  const FirstChoice choice = JudgeFirst(request, result.ranked);
  EXPECT_GT(choice.expected_regret, 0);
  EXPECT_LT(choice.expected_regret, 0.3);
  EXPECT_GE(choice.rival, 1);
  EXPECT_NE(ToText(FirstChoice{.expected_regret = 0.034, .rival = 2}).find("3.4 % (against row 3)"), std::string::npos);
  EXPECT_EQ(ToText(FirstChoice{.expected_regret = 0.004, .rival = 1}), "");
  machine.state.calibrated = true;
  EXPECT_EQ(JudgeFirst(request, result.ranked).rival, 0) << "a long record says how sure it is";
}

TEST(Causes, TheSentenceBesideAnIntervalSaysItsWidth) {
  const Machine machine("dgx-h100", "megatron-core-2024");
  const SearchRequest request = machine.Request(LlamaShape(32), 64, 256);
  const Explanation explanation = Explain(request, {.tensor = 2, .data = 32, .zero = 1, .micro_batch = 1});
  const double width = 100 * (explanation.estimate.high / explanation.estimate.seconds - 1);
  const std::string sentence = fmt::format("8 of 10 runs are within {:.0f} %", width);
  EXPECT_TRUE(std::any_of(explanation.warnings.begin(), explanation.warnings.end(), [&](const std::string& text) {
    return text.find(sentence) != std::string::npos;
  })) << sentence;
}

TEST(Causes, ResidualsHaveAPage) {
  const std::vector<MeasuredRun> runs = LoadRuns(test::Source("tests/planner/public_runs.csv"));
  const std::string page = ToResiduals(Validate(runs, ShippedFiles(), {}));
  for (const char* part : {"<h2>Layout</h2>", "<h2>Model size</h2>", "<h2>Devices</h2>", "<h2>Format</h2>",
                           "<h2>Release</h2>", "megatron-sc21", "Runs that miss most", "mtnlg-420", "</html>"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_NE(ToResiduals({}).find("No run has seconds"), std::string::npos);
}

}  // namespace
}  // namespace trireme
