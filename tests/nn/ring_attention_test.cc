// Ring attention gives each rank its rows of whole attention, in the order of a host, which sends before it works, and
// of a device with streams, which is given its work first.
#include "nn/ring_attention.h"

#include <gtest/gtest.h>

#include <mutex>

#include "comm/off_host_device.h"
#include "comm/rank_runner.h"
#include "device/workbench.h"

namespace trireme {
namespace {

constexpr int kRanks = 3;
constexpr std::int64_t kTokens = 24;

ModelConfig SmallModel() {
  ModelConfig config;
  config.family = "llama";
  config.layers = 1;
  config.hidden = 16;
  config.heads = 4;
  config.kv_heads = 2;
  config.vocabulary = 16;
  config.sequence = kTokens;
  return Completed(config);
}

struct Result {
  std::vector<float> out;
  std::vector<float> grad_qkv;
};

AttentionArgs MakeArgs(Workbench& bench, const LocalSizes& sizes, const Tensor& qkv, const Tensor& grad_out) {
  return {.batch = 1,
          .sequence = sizes.sequence,
          .heads = sizes.heads,
          .kv_heads = sizes.kv_heads,
          .head_size = sizes.head_size,
          .scale = 0.5F,
          .qkv = qkv,
          .out = bench.Output(DType::kFloat32, {sizes.tokens, sizes.attention}),
          .statistics = bench.Output(DType::kFloat32, {1, sizes.heads, sizes.sequence}),
          .grad_out = grad_out,
          .grad_qkv = bench.Output(DType::kFloat32, {sizes.tokens, sizes.qkv})};
}

// The rows of all tokens that a rank has.
Tensor OwnRows(Workbench& bench, const Tensor& all, const ContextShare& share) {
  const std::vector<float> values = bench.Read(all);
  std::vector<float> own;
  for (std::int64_t i = 0; i < share.tokens(); ++i) {
    const auto row = values.begin() + share.Position(i) * all.shape[1];
    own.insert(own.end(), row, row + all.shape[1]);
  }
  return bench.From(DType::kFloat32, {share.tokens(), all.shape[1]}, own);
}

// Results of every rank; on a device that is not the host where `streams`.
std::vector<Result> RunRing(const ModelConfig& model, bool streams, int& events) {
  std::vector<Result> results(kRanks);
  std::mutex mutex;
  RunThreadRanks(kRanks, {.kind = "cpu"}, [&](RankContext& context) {
    LocalSizes sizes(model, {.context = kRanks, .context_kind = ContextKind::kRing}, DType::kFloat32, false);
    sizes.context_rank = context.world.rank();
    Workbench bench(context.device);
    const Tensor qkv = OwnRows(bench, bench.Normal(DType::kFloat32, {kTokens, sizes.qkv}, "qkv"), sizes.share());
    const Tensor grad_out =
        OwnRows(bench, bench.Normal(DType::kFloat32, {kTokens, sizes.attention}, "grad_out"), sizes.share());
    AttentionArgs args = MakeArgs(bench, sizes, qkv, grad_out);
    const std::vector<std::int64_t> queries = sizes.share().Chunks();
    args.query_chunks = queries;
    const std::int64_t bytes = std::max(RingPlan(sizes, false).bytes, RingPlan(sizes, true).bytes);
    OffHostDevice apart;
    const RingAttention ring{.ops = context.device.ops(),
                             .group = context.world,
                             .sizes = sizes,
                             .scratch = bench.Filled(DType::kFloat32, {CeilDiv(bytes, 4)}, 0).as<char>(),
                             .device = streams ? &apart : nullptr};
    ring.Forward(args);
    ring.Backward(args);
    const std::lock_guard<std::mutex> lock(mutex);
    results[static_cast<std::size_t>(context.world.rank())] = {bench.Read(args.out), bench.Read(args.grad_qkv)};
    events += apart.events;
  });
  return results;
}

TEST(RingAttention, GivesTheRowsOfWholeAttentionInBothOrders) {
  const ModelConfig model = SmallModel();
  int events = 0;
  const std::vector<Result> host = RunRing(model, false, events);
  EXPECT_EQ(events, 0);
  const std::vector<Result> device = RunRing(model, true, events);
  EXPECT_EQ(events, kRanks * 2 * kRanks) << "messages start after one event per rank, pass and block";

  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const LocalSizes sizes(model, {}, DType::kFloat32, false);
  const AttentionArgs whole = MakeArgs(bench, sizes, bench.Normal(DType::kFloat32, {kTokens, sizes.qkv}, "qkv"),
                                       bench.Normal(DType::kFloat32, {kTokens, sizes.attention}, "grad_out"));
  bench.ops().AttentionForward(whole);
  bench.ops().AttentionBackward(whole);
  for (int rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    const auto at = static_cast<std::size_t>(rank);
    const ContextShare share{.sequence = kTokens, .degree = kRanks, .rank = rank};
    EXPECT_LE(RelativeDifference(host[at].out, bench.Read(OwnRows(bench, whole.out, share))), 1e-6);
    EXPECT_LE(RelativeDifference(host[at].grad_qkv, bench.Read(OwnRows(bench, whole.grad_qkv, share))), 2e-6);
    EXPECT_EQ(device[at].out, host[at].out);
    EXPECT_EQ(device[at].grad_qkv, host[at].grad_qkv);
  }
}

}  // namespace
}  // namespace trireme
