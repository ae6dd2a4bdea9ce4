// fp32 products through a BLAS library, loaded when first asked for where it is installed. Each thread of ours
// multiplies its own rectangle of c, since the library's own threads would compete with them.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "device/cpu/parallel.h"
#include "device/cpu/product/kernel_table.h"
#include "device/cpu/product/outside_engines.h"
#include "device/cpu/product/product_plan.h"

namespace trireme {
namespace {

// What is used of the C interface (cblas.h), with 32-bit extents.
constexpr int kRowMajor = 101;
constexpr int kPlain = 111;
constexpr int kTransposed = 112;
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a,
                       int a_stride, const float* b, int b_stride, float beta, float* c, int c_stride);

// A function of a loaded library; none where it has no such name.
template <typename Function>
Function FunctionOf(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::string ConfigurationOfOpenblas(void* library) {
  const auto configuration = FunctionOf<const char* (*)()>(library, "openblas_get_config");
  return configuration == nullptr ? "" : configuration();
}

// The version in "OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY Haswell MAX_THREADS=64".
std::string VersionOfOpenblas(void* library) {
  std::istringstream words(ConfigurationOfOpenblas(library));
  std::string name;
  std::string version = "unknown";
  words >> name >> version;
  return version;
}

bool PrepareOpenblas(void* library) {
  const auto set_threads = FunctionOf<void (*)(int)>(library, "openblas_set_num_threads");
  if (set_threads == nullptr || ConfigurationOfOpenblas(library).find("USE64BITINT") != std::string::npos) {
    return false;
  }
  set_threads(1);
  return true;
}

std::string VersionOfBlis(void* library) {
  const auto version = FunctionOf<const char* (*)()>(library, "bli_info_get_version_str");
  return version == nullptr ? "unknown" : version();
}

bool PrepareBlis(void* library) {
  const auto set_threads = FunctionOf<void (*)(std::int64_t)>(library, "bli_thread_set_num_threads");
  const auto extent_bits = FunctionOf<std::int64_t (*)()>(library, "bli_info_get_blas_int_type_size");
  if (set_threads == nullptr || extent_bits == nullptr || extent_bits() != 32) {
    return false;
  }
  set_threads(1);
  return true;
}

struct BlasFacts {
  BlasLibrary library;
  std::string_view name;
  const char* file;
  std::string (*version)(void* library);
  bool (*prepare)(void* library);  // has each call use one thread; false: its extents are not those above
};
constexpr BlasFacts kLibraries[] = {
    {BlasLibrary::kOpenblas, "OpenBLAS", "libopenblas.so.0", VersionOfOpenblas, PrepareOpenblas},
    {BlasLibrary::kBlis, "BLIS", "libblis.so.4", VersionOfBlis, PrepareBlis},
};

const BlasFacts& FactsOf(BlasLibrary library) {
  return *std::find_if(std::begin(kLibraries), std::end(kLibraries),
                       [&](const BlasFacts& facts) { return facts.library == library; });
}

// Null where the library is not installed or of no use. It stays loaded.
void* Load(const BlasFacts& facts) {
  void* library = dlopen(facts.file, RTLD_LAZY | RTLD_LOCAL);
  const bool usable = library != nullptr && dlsym(library, "cblas_sgemm") != nullptr && facts.prepare(library);
  return usable ? library : nullptr;
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

class BlasEngine final : public MatmulEngine {
 public:
  BlasEngine(std::string name, Sgemm multiply, CpuLevel level, int threads)
      : name_(std::move(name)), multiply_(multiply), kernel_(FloatKernel(level)), threads_(threads) {}
  std::string name() const override { return name_; }
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

  std::string name_;
  Sgemm multiply_;
  ProductKernel kernel_;
  int threads_;
};

}  // namespace

std::string BlasVersion(BlasLibrary library) {
  const BlasFacts& facts = FactsOf(library);
  void* const loaded = Load(facts);
  return loaded == nullptr ? "" : facts.version(loaded);
}

std::unique_ptr<MatmulEngine> MakeBlasEngine(BlasLibrary library, CpuLevel level, int threads) {
  const BlasFacts& facts = FactsOf(library);
  void* const loaded = Load(facts);
  if (loaded == nullptr) {
    return nullptr;
  }
  return std::make_unique<BlasEngine>(fmt::format("{} {}", facts.name, facts.version(loaded)),
                                      FunctionOf<Sgemm>(loaded, "cblas_sgemm"), level, threads);
}

}  // namespace trireme
