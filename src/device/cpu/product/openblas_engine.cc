// fp32 products through OpenBLAS, loaded when first asked for where it is installed. Each thread of ours multiplies its
// own rectangle of c, since the library's own threads would compete with them.
#include <dlfcn.h>

#include "device/cpu/parallel.h"
#include "device/cpu/product/kernel_table.h"
#include "device/cpu/product/outside_engines.h"
#include "device/cpu/product/product_plan.h"

namespace trireme {
namespace {

// What is used of its C interface (cblas.h), with 32-bit extents.
constexpr int kRowMajor = 101;
constexpr int kPlain = 111;
constexpr int kTransposed = 112;
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a,
                       int a_stride, const float* b, int b_stride, float beta, float* c, int c_stride);
using SetThreads = void (*)(int threads);

// A pointer of the library's; none where it is not installed. The library stays loaded.
template <typename Function>
Function LoadFunction(const char* name) {
  void* library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

// How often columns of c are cut for `parts` rectangles that read the least of a and b together.
int CutsOfColumns(const ProductSizes& sizes, int parts) {
  const auto lines = [&](int columns) { return CeilDiv(sizes.m, parts / columns) + CeilDiv(sizes.n, columns); };
  int best = 1;
  for (int columns = 2; columns <= parts; ++columns) {
    if (parts % columns == 0 && lines(columns) < lines(best)) {
      best = columns;
    }
  }
  return best;
}

class OpenblasEngine final : public MatmulEngine {
 public:
  OpenblasEngine(Sgemm multiply, CpuLevel level, int threads)
      : multiply_(multiply), kernel_(FloatKernel(level)), threads_(threads) {}
  std::string name() const override { return "OpenBLAS"; }
  bool Multiplies(DType operands) const override { return operands == DType::kFloat32; }
  std::int64_t internal_bytes() const override { return 0; }

  void Run(const MatmulArgs& args) override {
    const ProductSizes sizes(args);
    const int parts = ThreadsWorth(sizes, threads_);
    const int columns = CutsOfColumns(sizes, parts);
    const int rows = parts / columns;
    ParallelParts(threads_, parts, [&](int part) {
      Multiply(args, CutSpan({0, sizes.m}, part / columns, rows), CutSpan({0, sizes.n}, part % columns, columns));
    });
  }

 private:
  void Multiply(const MatmulArgs& args, const Span& rows, const Span& columns) const {
    const std::int64_t a_stride = args.a.shape[1];
    const std::int64_t b_stride = args.b.shape[1];
    const std::int64_t c_stride = args.c.shape[1];
    const auto extent = [](std::int64_t value) { return static_cast<int>(value); };
    const std::int64_t offset = rows.begin * c_stride + columns.begin;
    float* c = args.c.as<float>() + offset;
    multiply_(kRowMajor, args.transpose_a ? kTransposed : kPlain, args.transpose_b ? kTransposed : kPlain,
              extent(rows.end - rows.begin), extent(columns.end - columns.begin), extent(ProductSizes(args).k), 1.0F,
              args.a.as<float>() + rows.begin * (args.transpose_a ? 1 : a_stride), extent(a_stride),
              args.b.as<float>() + columns.begin * (args.transpose_b ? b_stride : 1), extent(b_stride),
              args.accumulate ? 1.0F : 0.0F, c, extent(c_stride));
    if (!args.bias.given() && args.epilogue == Epilogue::kNone) {
      return;
    }
    kernel_.store({.sums = c,
                   .sums_stride = c_stride,
                   .rows = rows.end - rows.begin,
                   .columns = columns.end - columns.begin,
                   .kind = StoreKindOf(args, false),
                   .bias_type = OperandType::kFloat32,
                   .out_type = OperandType::kFloat32,
                   .bias = args.bias.given() ? args.bias.as<float>() + columns.begin : nullptr,
                   .c = c,
                   .auxiliary = args.auxiliary.given() ? args.auxiliary.as<float>() + offset : nullptr,
                   .out_stride = c_stride});
  }

  Sgemm multiply_;
  ProductKernel kernel_;
  int threads_;
};

}  // namespace

std::unique_ptr<MatmulEngine> MakeOpenblasEngine(CpuLevel level, int threads) {
  const auto multiply = LoadFunction<Sgemm>("cblas_sgemm");
  const auto set_threads = LoadFunction<SetThreads>("openblas_set_num_threads");
  if (multiply == nullptr || set_threads == nullptr) {
    return nullptr;
  }
  set_threads(1);
  return std::make_unique<OpenblasEngine>(multiply, level, threads);
}

}  // namespace trireme
