#include <fmt/core.h>

#include <cmath>

#include "device/attention_operands.h"
#include "device/op_cases.h"

namespace trireme {
namespace {

struct AttentionCase {
  std::int64_t batch;
  std::int64_t sequence;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_size;
  bool alibi = false;
  bool documents = false;
  std::int64_t window = 0;
  float cap = 0;
  bool plain = false;
  float dropout = 0;
};

std::string NameOf(const AttentionCase& c) {
  return fmt::format("{}Attention{}x{}Heads{}of{}Size{}{}{}{}{}{}", c.plain ? "Plain" : "", c.batch, c.sequence,
                     c.heads, c.kv_heads, c.head_size, c.alibi ? "Alibi" : "", c.documents ? "Documents" : "",
                     c.window > 0 ? "Window" : "", c.cap > 0 ? "Cap" : "", c.dropout > 0 ? "Dropout" : "");
}

// Documents of changing length, other ones in each sequence.
Tensor DocumentStarts(Workbench& bench, std::int64_t batch, std::int64_t sequence) {
  std::vector<float> starts;
  for (std::int64_t b = 0; b < batch; ++b) {
    std::int64_t start = 0;
    for (std::int64_t t = 0; t < sequence; ++t) {
      if (t - start > (t * 7 + b * 5) % 41) {
        start = t;
      }
      starts.push_back(static_cast<float>(start));
    }
  }
  return bench.From(DType::kInt32, {batch, sequence}, starts);
}

AttentionArgs MakeArgs(Workbench& bench, DType working, const AttentionCase& c) {
  AttentionArgs args = MakeAttentionArgs(bench, working, {c.batch, c.sequence, c.heads, c.kv_heads, c.head_size});
  args.window = c.window;
  args.cap = c.cap;
  if (c.plain) {
    const Shape pairs{c.batch, c.heads, c.sequence, c.sequence};
    args.weights = bench.Output(working, pairs);
    args.scores = bench.Output(working, pairs);
    args.dropout = {.probability = c.dropout, .key = 7};
    args.all_heads = c.heads;
    args.all_positions = c.sequence;
  }
  if (c.alibi) {
    std::vector<float> slopes;
    for (std::int64_t head = 0; head < c.heads; ++head) {
      slopes.push_back(std::exp2(-8.0F * static_cast<float>(head + 1) / static_cast<float>(c.heads)));
    }
    args.slopes = bench.From(DType::kFloat32, {c.heads}, slopes);
  }
  if (c.documents) {
    args.document_starts = DocumentStarts(bench, c.batch, c.sequence);
  }
  return args;
}

// statistics are left out: a back end may keep them in its own form, as backward alone reads them.
std::vector<OpResult> RunAttention(Workbench& bench, DType working, const AttentionCase& c) {
  const AttentionArgs args = MakeArgs(bench, working, c);
  bench.ops().AttentionForward(args);
  bench.ops().AttentionBackward(args);
  std::vector<OpResult> results = {{"out", bench.Read(args.out)}, {"grad_qkv", bench.Read(args.grad_qkv)}};
  if (c.plain) {
    results.push_back({"weights", bench.Read(args.weights)});
  }
  return results;
}

// Two calls over one cache: `sequence - 2` tokens of every sequence, then two more.
std::vector<OpResult> RunDecode(Workbench& bench, DType working, const AttentionCase& c) {
  const AttentionArgs full = MakeArgs(bench, working, c);
  const Shape cache{c.batch, c.sequence, c.kv_heads * c.head_size};
  DecodeAttentionArgs args{.batch = c.batch,
                           .queries = c.sequence - 2,
                           .capacity = c.sequence,
                           .heads = c.heads,
                           .kv_heads = c.kv_heads,
                           .head_size = c.head_size,
                           .scale = full.scale,
                           .window = full.window,
                           .cap = full.cap,
                           .slopes = full.slopes,
                           .keys = bench.Filled(working, cache, 0),
                           .values = bench.Filled(working, cache, 0)};
  std::vector<OpResult> results;
  for (const std::int64_t start : {std::int64_t{0}, c.sequence - 2}) {
    args.queries = start == 0 ? c.sequence - 2 : 2;
    args.starts = bench.Filled(DType::kInt32, {c.batch}, static_cast<float>(start));
    args.qkv = full.qkv.Rows(start * c.batch, c.batch * args.queries);
    args.out = bench.Output(working, {c.batch * args.queries, c.heads * c.head_size});
    bench.ops().DecodeAttention(args);
    results.push_back({start == 0 ? "prompt" : "next", bench.Read(args.out)});
  }
  results.push_back({"keys", bench.Read(args.keys)});
  results.push_back({"values", bench.Read(args.values)});
  return results;
}

}  // namespace

std::vector<OpCase> AttentionCases() {
  const std::vector<AttentionCase> cases = {
      {1, 1, 1, 1, 8},
      {2, 17, 3, 3, 16},
      {1, 64, 4, 2, 64},
      {2, 100, 4, 1, 32, true},
      {1, 130, 2, 2, 80, true},
      {2, 97, 2, 1, 24, false, true},
      {1, 128, 2, 2, 64, true, true},
      {1, 33, 2, 2, 5},
      {1, 256, 2, 2, 128},
      {2, 97, 4, 2, 24, false, false, 33},
      {1, 256, 4, 4, 64, false, false, 64},
      {1, 300, 2, 1, 256, false, false, 129},
      {1, 1100, 2, 1, 128, false, false, 200},
      {2, 100, 4, 2, 32, true, false, 30},
      {1, 200, 2, 1, 64, false, false, 70, 1.5F},
      {2, 60, 2, 2, 16, true, true, 9, 0.7F},
      {1, 256, 4, 2, 128, false, false, 0, 2.0F},
      {2, 144, 4, 2, 64, false, true, 33, 1.5F},
      {2, 17, 3, 3, 16, false, false, 0, 0, true},
      {1, 64, 4, 2, 64, false, false, 0, 0, true},
      {2, 100, 4, 1, 32, true, false, 0, 0, true, 0.2F},
      {2, 96, 2, 1, 24, false, true, 33, 1.5F, true},
      {1, 256, 2, 2, 128, false, false, 0, 0, true, 0.1F},
  };
  std::vector<OpCase> all;
  for (const AttentionCase& c : cases) {
    all.push_back({.name = NameOf(c),
                   .run = [c](Workbench& bench, DType working) { return RunAttention(bench, working, c); },
                   .bf16_tolerance = 2.5e-2});
  }
  for (const AttentionCase& c : std::vector<AttentionCase>{{2, 17, 3, 3, 16},
                                                           {1, 64, 4, 2, 64},
                                                           {2, 100, 4, 1, 32, true},
                                                           {1, 33, 2, 2, 5},
                                                           {2, 40, 2, 1, 200},
                                                           {2, 50, 2, 1, 16, false, false, 7, 1.5F}}) {
    all.push_back({.name = "Decode" + NameOf(c),
                   .run = [c](Workbench& bench, DType working) { return RunDecode(bench, working, c); },
                   .bf16_tolerance = 2.5e-2});
  }
  return all;
}

}  // namespace trireme
