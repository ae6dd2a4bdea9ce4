// What a context rank asks of its device: attention of its chunks of queries over the keys of all ranks or of one after
// another, and rows that are not in the order of their tokens.
#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "device/op_cases.h"

namespace trireme {
namespace {

struct ChunkCase {
  std::int64_t batch;
  std::int64_t ranks;
  std::int64_t rank;
  std::int64_t chunk;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_size;
  bool alibi = false;
  bool documents = false;
  std::int64_t window = 0;
  float cap = 0;

  std::int64_t here() const { return 2 * chunk; }
  std::int64_t rows() const { return batch * here(); }
  std::int64_t packed() const { return (heads + 2 * kv_heads) * head_size; }
};

std::string NameOf(const ChunkCase& c) {
  return fmt::format("Chunks{}x{}Rank{}of{}Heads{}of{}Size{}{}{}{}{}", c.batch, c.chunk, c.rank, c.ranks, c.heads,
                     c.kv_heads, c.head_size, c.alibi ? "Alibi" : "", c.documents ? "Documents" : "",
                     c.window > 0 ? "Window" : "", c.cap > 0 ? "Cap" : "");
}

class ChunkRun {
 public:
  ChunkRun(Workbench& bench, DType working, const ChunkCase& c) : bench_(bench), c_(c) {
    query_chunks_ = {c.rank * c.chunk, (2 * c.ranks - 1 - c.rank) * c.chunk};
    const Shape out{c.rows(), c.heads * c.head_size};
    args_ = {.batch = c.batch,
             .sequence = c.here(),
             .heads = c.heads,
             .kv_heads = c.kv_heads,
             .head_size = c.head_size,
             .scale = 1.0F / std::sqrt(static_cast<float>(c.head_size)),
             .window = c.window,
             .cap = c.cap,
             .qkv = bench.Normal(working, {c.rows(), c.packed()}, "qkv"),
             .out = bench.Output(working, out),
             .statistics = bench.Output(kFloat, {c.batch, c.heads, c.here()}),
             .query_chunks = query_chunks_,
             .kv = bench.Normal(working, {c.ranks * c.rows(), 2 * c.kv_heads * c.head_size}, "kv"),
             .grad_out = bench.Normal(working, out, "grad_out"),
             .grad_qkv = bench.Filled(working, {c.rows(), c.packed()}, 0),
             .grad_kv = bench.Output(working, {c.ranks * c.rows(), 2 * c.kv_heads * c.head_size})};
    if (c.alibi) {
      args_.slopes = bench.Normal(kFloat, {c.heads}, "slopes", 0.02F, 0.1F);
    }
    if (c.documents) {
      std::vector<float> starts;
      for (std::int64_t row = 0; row < c.rows(); ++row) {
        const std::int64_t position = args_.Position(row % c.here());
        starts.push_back(static_cast<float>(position - position % (c.chunk + 7)));
      }
      args_.document_starts = bench.From(DType::kInt32, {c.batch, c.here()}, starts);
    }
  }

  // Keys of all ranks at once.
  std::vector<OpResult> Gathered() {
    for (std::int64_t chunk = 0; chunk < 2 * c_.ranks; ++chunk) {
      const bool early = chunk < c_.ranks;
      key_chunks_.push_back({.position = chunk * c_.chunk,
                             .row = (early ? chunk : 2 * c_.ranks - 1 - chunk) * c_.rows() + (early ? 0 : c_.chunk)});
    }
    args_.key_chunks = key_chunks_;
    bench_.ops().AttentionForward(args_);
    bench_.ops().AttentionBackward(args_);
    return {{"out", bench_.Read(args_.out)},
            {"statistics", bench_.Read(args_.statistics)},
            {"grad_qkv", bench_.Read(args_.grad_qkv)},
            {"grad_kv", bench_.Read(args_.grad_kv)}};
  }

  // One rank's keys after another's.
  std::vector<OpResult> Passing() {
    const Tensor sum = bench_.Filled(kFloat, args_.out.shape, 0);
    const Tensor statistics = bench_.Filled(kFloat, args_.statistics.shape, -std::numeric_limits<float>::infinity());
    for (std::int64_t source = 0; source < c_.ranks; ++source) {
      bench_.ops().AttentionForward(Of(source));
      bench_.ops().MergeAttention({.batch = c_.batch,
                                   .sequence = c_.here(),
                                   .heads = c_.heads,
                                   .head_size = c_.head_size,
                                   .out = sum,
                                   .statistics = statistics,
                                   .part_out = args_.out,
                                   .part_statistics = args_.statistics});
    }
    bench_.ops().Copy(args_.out, sum);
    args_.statistics = statistics;
    std::vector<OpResult> results{{"out", bench_.Read(sum)}, {"statistics", bench_.Read(statistics)}};
    const Tensor grad_sum = bench_.Filled(kFloat, args_.grad_qkv.shape, 0);
    for (std::int64_t source = 0; source < c_.ranks; ++source) {
      bench_.ops().AttentionBackward(Of(source));
      bench_.ops().Add(grad_sum, args_.grad_qkv);
    }
    results.push_back({"grad_qkv", bench_.Read(grad_sum)});
    results.push_back({"grad_kv", bench_.Read(args_.grad_kv)});
    return results;
  }

 private:
  AttentionArgs Of(std::int64_t source) {
    key_chunks_ = {{.position = source * c_.chunk, .row = 0},
                   {.position = (2 * c_.ranks - 1 - source) * c_.chunk, .row = c_.chunk}};
    AttentionArgs part = args_;
    part.key_chunks = key_chunks_;
    part.kv = args_.kv.Rows(source * c_.rows(), c_.rows());
    part.grad_kv = args_.grad_kv.Rows(source * c_.rows(), c_.rows());
    return part;
  }

  Workbench& bench_;
  ChunkCase c_;
  std::vector<std::int64_t> query_chunks_;
  std::vector<KeyChunk> key_chunks_;
  AttentionArgs args_;
};

// Dropout, the norm after it and learned positions of rows in another order than their tokens'.
std::vector<OpResult> RunScattered(Workbench& bench, DType working) {
  constexpr std::int64_t kRows = 12;
  constexpr std::int64_t kColumns = 40;
  std::vector<float> order;
  for (std::int64_t row = 0; row < kRows; ++row) {
    order.push_back(static_cast<float>((row * 7 + 3) % 24));
  }
  const Tensor tokens = bench.From(DType::kInt32, {kRows}, order);
  const Dropout dropout{.probability = 0.4F, .key = 17, .first_element = 4000, .tokens = tokens};
  const Tensor x = bench.Normal(working, {kRows, kColumns}, "x");
  const Tensor dropped = bench.Output(working, {kRows, kColumns});
  const Tensor sum = bench.Output(working, {kRows, kColumns});
  bench.ops().ApplyDropout(dropped, x, dropout);
  bench.ops().ResidualNormForward(
      {.x = x, .branch = bench.Normal(working, {kRows, kColumns}, "branch"), .dropout = dropout, .sum = sum});
  const Tensor y = bench.Normal(working, {kRows, kColumns}, "y");
  const Tensor table = bench.Normal(working, {10, kColumns}, "table");
  const Tensor grad_table = bench.Filled(kFloat, {10, kColumns}, 1);
  bench.ops().Run(PositionsBackward<Tensor>{.grad = y, .grad_table = grad_table, .positions = tokens});
  bench.ops().Run(AddPositions<Tensor>{.x = y, .table = table, .positions = tokens});
  return {{"dropped", bench.Read(dropped)},
          {"sum", bench.Read(sum)},
          {"positions", bench.Read(y)},
          {"grad_table", bench.Read(grad_table)}};
}

}  // namespace

std::vector<OpCase> ChunkCases() {
  std::vector<OpCase> all{{.name = "ScatteredTokens", .run = RunScattered}};
  for (const ChunkCase& c : std::vector<ChunkCase>{{1, 2, 0, 5, 2, 1, 8},
                                                   {1, 4, 0, 64, 4, 2, 64},
                                                   {2, 4, 1, 64, 4, 4, 64},
                                                   {2, 4, 3, 48, 4, 2, 32},
                                                   {1, 3, 1, 129, 2, 1, 128},
                                                   {1, 3, 2, 40, 2, 2, 16, true},
                                                   {2, 3, 1, 33, 4, 2, 24, false, true},
                                                   {2, 3, 1, 33, 2, 2, 24, false, false, 20, 1.5F},
                                                   {1, 64, 5, 16, 2, 2, 16}}) {
    all.push_back({.name = "Gathered" + NameOf(c),
                   .run = [c](Workbench& bench, DType working) { return ChunkRun(bench, working, c).Gathered(); },
                   .bf16_tolerance = 2.5e-2});
    all.push_back({.name = "Passing" + NameOf(c),
                   .run = [c](Workbench& bench, DType working) { return ChunkRun(bench, working, c).Passing(); },
                   .bf16_tolerance = 2.5e-2});
  }
  return all;
}

}  // namespace trireme
