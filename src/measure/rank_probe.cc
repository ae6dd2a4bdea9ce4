#include "measure/rank_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "device/best_seconds.h"
#include "measure/probe_tensors.h"
#include "measure/rate_fit.h"
#include "planner/pricing/matmul_time.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

struct Sizes {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

struct AttentionSizes {
  std::int64_t batch, sequence, heads, head_size;
};

// Sizes that training steps have: small models on CPUs, large ones on accelerators. Ascending.
struct Range {
  std::vector<std::int64_t> tokens;
  std::vector<Sizes> weights;  // out x in
  std::vector<Sizes> activations;
  std::vector<AttentionSizes> attention;
  std::vector<Sizes> logits;
  std::vector<std::int64_t> parameters;
};

// A size at which a call's own cost shows, and one whose operands are larger than a core's caches. Many threads get
// more of it: otherwise they would mostly wait for each other.
Range BriefRange(int threads) {
  const std::int64_t times = std::clamp(threads / 2, 1, 16);
  return {.tokens = {32, 256 * times},
          .weights = {{64, 64}, {512, 512}},
          .activations = {{32, 64}, {512 * times, 768}},
          .attention = {{1, 32, 2, 32}, {times, 256, 4, 64}},
          .logits = {{32, 64}, {128 * times, 4096}},
          .parameters = {1 << 10, std::min<std::int64_t>(times, 4) << 20}};
}

Range RangeOf(const Device& device, bool quick) {
  Range range;
  if (device.is_host()) {
    range = {.tokens = {128, 512, 1024},
             .weights = {{128, 128}, {512, 128}, {128, 512}, {512, 512}, {2048, 512}, {512, 2048}, {1024, 1024}},
             .activations = {{128, 128}, {512, 256}, {1024, 512}, {512, 2048}},
             .attention = {{2, 64, 4, 32}, {4, 128, 4, 32}, {4, 128, 8, 64}, {1, 256, 8, 64}, {1, 512, 8, 64}},
             .logits = {{128, 512}, {256, 2048}, {512, 4096}},
             .parameters = {1 << 14, 1 << 18, 1 << 22}};
  } else {
    range = {
        .tokens = {2048, 8192, 16384},
        .weights = {{768, 768}, {3072, 768}, {768, 3072}, {2048, 2048}, {8192, 2048}, {4096, 4096}, {4096, 16384}},
        .activations = {{2048, 768}, {8192, 2048}, {8192, 8192}},
        .attention = {{2, 1024, 12, 64}, {8, 1024, 12, 64}, {4, 2048, 16, 64}, {2, 2048, 32, 128}, {1, 4096, 32, 128}},
        .logits = {{2048, 50304}, {8192, 50304}},
        .parameters = {1 << 20, 1 << 24, 1 << 27}};
  }
  if (quick) {
    range.tokens = {range.tokens.front(), range.tokens[1]};
    range.weights.resize(4);
    range.activations.resize(2);
    range.attention.resize(2);
    range.logits.resize(2);
    range.parameters.resize(2);
  }
  return range;
}

// The largest of the ranks' numbers, on every rank.
double LargestOf(RankContext& context, double value) {
  auto number = static_cast<float>(value);
  const Tensor shared{context.device.Allocate(4), DType::kFloat32, {1}};
  context.device.CopyFromHost(shared.data, &number, 4);
  context.world.AllReduce(shared, ReduceOp::kMax);
  context.device.CopyToHost(&number, shared.data, 4);
  context.device.Free(shared.data);
  return number;
}

// The measuring of one rank: laws are filled in one after another.
class Prober {
 public:
  Prober(RankContext& context, DType dtype, const ProbeOptions& options)
      : context_(context),
        ops_(context.device.ops()),
        options_(options),
        range_(options.brief ? BriefRange(context.threads) : RangeOf(context.device, options.quick)),
        dtype_(dtype) {
    probe_.rates.dtype = dtype;
    probe_.rates.threads = context.device.is_host() ? context.threads : 1;
  }

  RankProbe Run() {
    Tell("products");
    options_.brief ? BriefProducts() : Products();
    Tell("attention");
    Attention();
    Tell("kernels");
    Norms();
    Activations();
    Vocabulary();
    Updates();
    if (options_.brief && !IsLate()) {
      BriefProducts();
    }
    probe_.error = std::sqrt(squares_ / std::max(laws_, 1));
    return probe_;
  }

 private:
  void Tell(const char* what) const {
    if (options_.progress && context_.world.rank() == 0) {
      options_.progress(what);
    }
  }

  // Beyond a core's caches, for a brief measurement beyond the second level; a quick one leaves the operands in them.
  std::int64_t Footprint() const { return options_.brief ? 6 << 20 : options_.quick ? 0 : 48 << 20; }

  double Seconds(const std::function<void()>& work) {
    return options_.brief ? BestSeconds(context_.device, {.least = IsLate() ? 2 : 5, .seconds = 2e-4}, work)
                          : MedianSeconds(context_, work, options_.quick);
  }

  // Whether a brief measurement has taken as long as it may: what remains then has its largest size alone. From a small
  // one, which is mostly the cost of a call, a step's work would follow some thousand times too long.
  bool IsLate() const {
    constexpr double kMost = 0.17;
    return options_.brief && context_.device.Now() - start_ > kMost;
  }

  // A single sample has no cost of a call to tell from the rest.
  static RateLaw LawOf(const std::vector<WorkSample>& samples) {
    return samples.size() == 1 ? RateLaw{.rate = samples[0].work / samples[0].seconds} : FitRate(samples);
  }

  template <typename Law, typename Sample>
  void Count(const Law& law, const std::vector<Sample>& samples) {
    squares_ += std::pow(ErrorOf(law, samples), 2);
    ++laws_;
  }

  // Fits the law of `work` over what `measure` gives for each size, the largest first.
  template <typename Size, typename Measure>
  void Fit(RankWork work, const std::vector<Size>& sizes, const Measure& measure) {
    std::vector<WorkSample> samples;
    for (auto size = sizes.rbegin(); size != sizes.rend() && (samples.empty() || !IsLate()); ++size) {
      ProbeTensors tensors(context_.device, Footprint());
      samples.push_back(measure(tensors, *size));
    }
    probe_.rates[work] = LawOf(samples);
    Count(probe_.rates[work], samples);
  }

  // The three products of a linear layer in training.
  struct LayerProducts {
    MatmulArgs passes[kProductPasses];
  };
  LayerProducts MakeProducts(ProbeTensors& tensors, std::int64_t tokens, const Sizes& weight) const {
    const Tensor x = tensors.Make(dtype_, {tokens, weight.columns});
    const Tensor w = tensors.Make(dtype_, {weight.rows, weight.columns});
    const Tensor y = tensors.Make(dtype_, {tokens, weight.rows});
    const Tensor bias = tensors.Make(dtype_, {weight.rows});
    const Tensor gradient = tensors.Make(DType::kFloat32, {weight.rows, weight.columns});
    return {{{.a = x, .b = w, .c = y, .transpose_b = true, .bias = bias},
             {.a = y, .b = w, .c = x},
             {.a = y, .b = x, .c = gradient, .transpose_a = true, .accumulate = true}}};
  }

  using PassSamples = std::array<std::vector<ProductSample>, kProductPasses>;

  void MeasureProducts(std::int64_t tokens, const Sizes& weight, PassSamples& samples) {
    ProbeTensors tensors(context_.device, Footprint());
    RotatingOperands<LayerProducts> layer(tensors, [&] { return MakeProducts(tensors, tokens, weight); });
    ProductSample shapes[kProductPasses] = {Shaped(tokens, weight.rows, weight.columns),
                                            Shaped(tokens, weight.columns, weight.rows),
                                            Shaped(weight.rows, weight.columns, tokens)};
    shapes[static_cast<int>(ProductPass::kBackwardWeight)].filled = 1;  // libraries cut the long sum as well
    for (std::size_t pass = 0; pass < samples.size(); ++pass) {
      ProductSample sample = shapes[pass];
      sample.seconds = Seconds([&] { ops_.Matmul(layer.Next().passes[pass]); });
      probe_.product_flops = std::max(probe_.product_flops, 2 * sample.m * sample.n * sample.k / sample.seconds);
      probe_.seconds += sample.seconds;
      samples[pass].push_back(sample);
    }
  }

  // Two sizes tell a call's cost from the work's, and no more. Measured first and, where time is left,
  // last, of which the faster counts: a team of new threads may share a core for some tens of milliseconds, until the
  // system spreads it. Products that are over soon, with tile instructions, are measured with more tokens.
  void BriefProducts() {
    constexpr double kSoon = 2.5e-4;
    constexpr std::int64_t kMostTokens = 4096;
    PassSamples samples;
    for (std::size_t size = 0; size < range_.tokens.size(); ++size) {
      MeasureProducts(range_.tokens[size], range_.weights[size], samples);
    }
    while (brief_products_[0].empty() && samples[0].back().seconds < kSoon && 4 * range_.tokens.back() <= kMostTokens &&
           !IsLate()) {
      range_.tokens.back() *= 4;
      std::for_each(samples.begin(), samples.end(), [](auto& pass) { pass.pop_back(); });
      MeasureProducts(range_.tokens.back(), range_.weights.back(), samples);
    }
    for (std::size_t pass = 0; pass < samples.size(); ++pass) {
      std::vector<WorkSample>& works = brief_products_[pass];
      works.resize(samples[pass].size(), {.seconds = std::numeric_limits<double>::infinity()});
      for (std::size_t size = 0; size < works.size(); ++size) {
        const ProductSample& sample = samples[pass][size];
        works[size] = {2 * sample.m * sample.n * sample.k, std::min(works[size].seconds, sample.seconds)};
      }
      const RateLaw law = LawOf(works);
      probe_.rates[static_cast<ProductPass>(pass)] = {.call = law.call, .flops = law.rate};
    }
  }

  void Products() {
    PassSamples samples;
    for (const std::int64_t tokens : range_.tokens) {
      for (const Sizes& weight : range_.weights) {
        MeasureProducts(tokens, weight, samples);
      }
    }
    for (std::size_t pass = 0; pass < samples.size(); ++pass) {
      const auto which = static_cast<ProductPass>(pass);
      probe_.rates[which] = FitProduct(samples[pass]);
      Count(probe_.rates[which], samples[pass]);
    }
  }

  ProductSample Shaped(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return {.m = static_cast<double>(m),
            .n = static_cast<double>(n),
            .k = static_cast<double>(k),
            .filled = FilledShare(m, n, options_.units)};
  }

  AttentionArgs MakeAttention(ProbeTensors& tensors, const AttentionSizes& size) const {
    const std::int64_t rows = size.batch * size.sequence;
    const std::int64_t width = size.heads * size.head_size;
    return {.batch = size.batch,
            .sequence = size.sequence,
            .heads = size.heads,
            .kv_heads = size.heads,
            .head_size = size.head_size,
            .scale = 1.0F / std::sqrt(static_cast<float>(size.head_size)),
            .qkv = tensors.Make(dtype_, {rows, 3 * width}),
            .out = tensors.Make(dtype_, {rows, width}),
            .statistics = tensors.Make(DType::kFloat32, {size.heads * rows}),
            .grad_out = tensors.Make(dtype_, {rows, width}),
            .grad_qkv = tensors.Make(dtype_, {rows, 3 * width})};
  }

  void Attention() {
    const auto run = [&](bool backward) {
      return [this, backward](ProbeTensors& tensors, const AttentionSizes& size) -> WorkSample {
        RotatingOperands<AttentionArgs> args(tensors, [&] {
          AttentionArgs made = MakeAttention(tensors, size);
          ops_.AttentionForward(made);
          return made;
        });
        const std::int64_t flops = AttentionForwardFlops(size.batch, size.sequence, size.heads, size.head_size);
        if (!backward) {
          return {static_cast<double>(flops), Seconds([&] { ops_.AttentionForward(args.Next()); })};
        }
        return {2.5 * static_cast<double>(flops), Seconds([&] { ops_.AttentionBackward(args.Next()); })};
      };
    };
    Fit(RankWork::kAttentionForward, range_.attention, run(false));
    Fit(RankWork::kAttentionBackward, range_.attention, run(true));
    Fit(RankWork::kRotary, range_.attention, [this](ProbeTensors& tensors, const AttentionSizes& size) -> WorkSample {
      const std::int64_t width = 3 * size.heads * size.head_size;
      RotatingOperands<Rotary<Tensor>> ops(tensors, [&]() -> Rotary<Tensor> {
        return {.qkv = tensors.Make(dtype_, {size.batch * size.sequence, width}),
                .sequence = size.sequence,
                .heads = size.heads,
                .kv_heads = size.heads,
                .head_size = size.head_size};
      });
      return {static_cast<double>(size.batch * size.sequence * width), Seconds([&] { ops_.Run(ops.Next()); })};
    });
  }

  ResidualNormArgs NormArgs(ProbeTensors& tensors, const Sizes& size) const {
    const Shape shape{size.rows, size.columns};
    return {.x = tensors.Make(dtype_, shape),
            .branch = tensors.Make(dtype_, shape),
            .bias = tensors.Make(dtype_, {size.columns}),
            .sum = tensors.Make(dtype_, shape),
            .gamma = tensors.Make(dtype_, {size.columns}),
            .beta = tensors.Make(dtype_, {size.columns}),
            .normed = tensors.Make(dtype_, shape),
            .statistics = tensors.Make(DType::kFloat32, {2 * size.rows})};
  }

  NormBackwardArgs NormBackwardOf(ProbeTensors& tensors, const Sizes& size) const {
    const ResidualNormArgs forward = NormArgs(tensors, size);
    ops_.ResidualNormForward(forward);
    return {.grad_normed = forward.branch,
            .x = forward.sum,
            .statistics = forward.statistics,
            .gamma = forward.gamma,
            .grad_residual = forward.normed,
            .grad_x = forward.x,
            .grad_gamma = tensors.Make(DType::kFloat32, {size.columns}),
            .grad_beta = tensors.Make(DType::kFloat32, {size.columns})};
  }

  static double Elements(const Sizes& size) {
    return static_cast<double>(size.rows) * static_cast<double>(size.columns);
  }

  void Norms() {
    Fit(RankWork::kNormForward, range_.activations, [this](ProbeTensors& tensors, const Sizes& size) -> WorkSample {
      RotatingOperands<ResidualNormArgs> args(tensors, [&] { return NormArgs(tensors, size); });
      return {Elements(size), Seconds([&] { ops_.ResidualNormForward(args.Next()); })};
    });
    Fit(RankWork::kNormBackward, range_.activations, [this](ProbeTensors& tensors, const Sizes& size) -> WorkSample {
      RotatingOperands<NormBackwardArgs> args(tensors, [&] { return NormBackwardOf(tensors, size); });
      return {Elements(size), Seconds([&] { ops_.NormBackward(args.Next()); })};
    });
    Fit(RankWork::kResidual, range_.activations, [this](ProbeTensors& tensors, const Sizes& size) -> WorkSample {
      RotatingOperands<ResidualNormArgs> args(tensors, [&]() -> ResidualNormArgs {
        const ResidualNormArgs whole = NormArgs(tensors, size);
        return {.x = whole.x, .branch = whole.branch, .bias = whole.bias, .sum = whole.sum};
      });
      return {Elements(size), Seconds([&] { ops_.ResidualNormForward(args.Next()); })};
    });
    Fit(RankWork::kBiasGradient, range_.activations, [this](ProbeTensors& tensors, const Sizes& size) -> WorkSample {
      RotatingOperands<Tensor> rows(tensors, [&] { return tensors.Make(dtype_, {size.rows, size.columns}); });
      const Tensor bias = tensors.Make(DType::kFloat32, {size.columns});
      return {Elements(size), Seconds([&] { ops_.BiasGradient(rows.Next(), bias); })};
    });
  }

  // A product with and without an epilogue.
  struct Pair {
    MatmulArgs plain;
    MatmulArgs with;
  };
  // What the epilogue adds. A short sum makes it show.
  WorkSample Added(ProbeTensors& tensors, const Sizes& size, Epilogue epilogue) {
    constexpr std::int64_t kDepth = 128;
    const bool forward = epilogue == Epilogue::kGelu;
    RotatingOperands<Pair> pairs(tensors, [&] {
      Pair pair;
      pair.plain.a = tensors.Make(dtype_, {size.rows, kDepth});
      pair.plain.b = tensors.Make(dtype_, forward ? Shape{size.columns, kDepth} : Shape{kDepth, size.columns});
      pair.plain.c = tensors.Make(dtype_, {size.rows, size.columns});
      pair.plain.transpose_b = forward;
      pair.plain.bias = forward ? tensors.Make(dtype_, {size.columns}) : Tensor{};
      pair.with = pair.plain;
      pair.with.epilogue = epilogue;
      pair.with.auxiliary = tensors.Make(dtype_, {size.rows, size.columns});
      return pair;
    });
    const double base = Seconds([&] { ops_.Matmul(pairs.Next().plain); });
    const double whole = Seconds([&] { ops_.Matmul(pairs.Next().with); });
    return {Elements(size), std::max(whole - base, 1e-3 * base)};
  }

  struct Gated {
    Tensor z;
    Tensor out;
    Tensor grad;
  };

  void Activations() {
    Fit(RankWork::kGelu, range_.activations,
        [this](ProbeTensors& tensors, const Sizes& size) { return Added(tensors, size, Epilogue::kGelu); });
    Fit(RankWork::kGeluGradient, range_.activations,
        [this](ProbeTensors& tensors, const Sizes& size) { return Added(tensors, size, Epilogue::kGeluGradient); });
    const auto gated = [&](bool backward) {
      return [this, backward](ProbeTensors& tensors, const Sizes& size) -> WorkSample {
        RotatingOperands<Gated> args(tensors, [&]() -> Gated {
          return {tensors.Make(dtype_, {size.rows, 2 * size.columns}), tensors.Make(dtype_, {size.rows, size.columns}),
                  tensors.Make(dtype_, {size.rows, 2 * size.columns})};
        });
        constexpr ActivationKind kKind = ActivationKind::kSwiGlu;
        return {Elements(size), Seconds([&] {
                  const Gated& one = args.Next();
                  backward ? ops_.Run(ActivationBackward<Tensor>{
                                 .kind = kKind, .grad_out = one.out, .from = one.z, .grad_from = one.grad})
                           : ops_.Run(ActivationForward<Tensor>{.kind = kKind, .from = one.z, .to = one.out});
                })};
      };
    };
    Fit(RankWork::kActivation, range_.activations, gated(false));
    Fit(RankWork::kActivationBackward, range_.activations, gated(true));
  }

  void Vocabulary() {
    Fit(RankWork::kLoss, range_.logits, [this](ProbeTensors& tensors, const Sizes& size) -> WorkSample {
      const CrossEntropyArgs args{.logits = tensors.Make(dtype_, {size.rows, size.columns}),
                                  .valid_columns = size.columns,
                                  .targets = tensors.MakeIndices(size.rows, size.columns),
                                  .statistics = tensors.Make(DType::kFloat32, {3 * size.rows}),
                                  .weights = tensors.Make(DType::kFloat32, {size.rows}),
                                  .losses = tensors.Make(DType::kFloat32, {size.rows})};
      return {Elements(size), Seconds([&] { ops_.CrossEntropy(args); })};
    });
    const auto table = [&](bool backward) {
      return [this, backward](ProbeTensors& tensors, const Sizes& size) -> WorkSample {
        constexpr std::int64_t kRows = 2048;
        RotatingOperands<EmbeddingArgs> args(tensors, [&]() -> EmbeddingArgs {
          return {.tokens = tensors.MakeIndices(size.rows, kRows),
                  .table = tensors.Make(dtype_, {kRows, size.columns}),
                  .out = tensors.Make(dtype_, {size.rows, size.columns}),
                  .grad_out = tensors.Make(dtype_, {size.rows, size.columns}),
                  .grad_table = tensors.Make(DType::kFloat32, {kRows, size.columns})};
        });
        return {Elements(size),
                Seconds([&] { backward ? ops_.EmbeddingBackward(args.Next()) : ops_.EmbeddingForward(args.Next()); })};
      };
    };
    Fit(RankWork::kEmbedding, range_.activations, table(false));
    Fit(RankWork::kEmbeddingBackward, range_.activations, table(true));
  }

  UpdateRange UpdateOf(ProbeTensors& tensors, std::int64_t count) const {
    UpdateRange range{.weight = tensors.Make(dtype_, {count}),
                      .low = dtype_ == DType::kFloat32 ? Tensor{} : tensors.Make(DType::kUInt16, {count}),
                      .first_moment = tensors.Make(DType::kFloat32, {count}),
                      .second_moment = tensors.Make(DType::kFloat32, {count}),
                      .gradient = tensors.Make(DType::kFloat32, {count}),
                      .weight_decay = 0.1F};
    ops_.Fill(range.first_moment, 0);
    ops_.Fill(range.second_moment, 0);
    return range;
  }

  void Updates() {
    Fit(RankWork::kOptimizer, range_.parameters, [this](ProbeTensors& tensors, std::int64_t count) -> WorkSample {
      RotatingOperands<UpdateRange> ranges(tensors, [&] { return UpdateOf(tensors, count); });
      const UpdateArgs args{.learning_rate = 1e-6F};
      return {static_cast<double>(count), Seconds([&] { ops_.Update({&ranges.Next(), 1}, args); })};
    });
    Fit(RankWork::kSquares, range_.parameters, [this](ProbeTensors& tensors, std::int64_t count) -> WorkSample {
      RotatingOperands<Tensor> ranges(tensors, [&] { return tensors.Make(DType::kFloat32, {count}); });
      const Tensor sums = tensors.Make(DType::kFloat32, {1});
      return {static_cast<double>(count), Seconds([&] { ops_.SumOfSquares({&ranges.Next(), 1}, sums); })};
    });
    Fit(RankWork::kFill, range_.parameters, [this](ProbeTensors& tensors, std::int64_t count) -> WorkSample {
      RotatingOperands<Tensor> ranges(tensors, [&] { return tensors.Make(DType::kFloat32, {count}); });
      return {static_cast<double>(count), Seconds([&] { ops_.Fill(ranges.Next(), 0); })};
    });
  }

  RankContext& context_;
  Ops& ops_;
  const ProbeOptions& options_;
  Range range_;
  DType dtype_;
  RankProbe probe_;
  std::array<std::vector<WorkSample>, kProductPasses> brief_products_;
  double squares_ = 0;
  int laws_ = 0;
  double start_ = context_.device.Now();
};

}  // namespace

double MedianSeconds(RankContext& context, const std::function<void()>& work, bool quick) {
  Device& device = context.device;
  const auto timed = [&](std::int64_t count) {
    context.world.Barrier();
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < count; ++i) {
      work();
    }
    device.Synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(count);
  };
  timed(1);  // prepares what is prepared once
  const double first = LargestOf(context, std::max(timed(1), 1e-7));
  // An accelerator under load falls to what its power allows within some tens of milliseconds, and a step is such a
  // load.
  const double round = quick ? 1e-3 : device.is_host() ? 4e-3 : 2e-2;
  const auto count = static_cast<std::int64_t>(std::clamp(round / first, 1.0, 1000.0));
  const int rounds = quick || !device.is_host() ? 3 : 5;
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    seconds.push_back(timed(count));
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return seconds[static_cast<std::size_t>(rounds / 2)];
}

RankProbe MeasureRank(RankContext& context, DType dtype, const ProbeOptions& options) {
  return Prober(context, dtype, options).Run();
}

}  // namespace trireme
