// Matrix products through oneDNN's matmul primitive (its interfaces 2 and 3), one primitive for each shape met.
#include <omp.h>

#include <dnnl.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/random.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"
#include "device/cpu/product/outside_engines.h"
#include "device/cpu/vector_math.h"

namespace trireme {
namespace {

// What a primitive depends on.
struct Key {
  explicit Key(const MatmulArgs& args)
      : sizes(args),
        flags(args.transpose_a | args.transpose_b << 1 | args.accumulate << 2 | args.bias.given() << 3 |
              static_cast<int>(args.a.dtype) << 4 | static_cast<int>(args.c.dtype) << 8) {}
  bool operator==(const Key& other) const {
    return sizes.m == other.sizes.m && sizes.n == other.sizes.n && sizes.k == other.sizes.k && flags == other.flags;
  }
  ProductSizes sizes;
  int flags;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    const std::uint64_t mn =
        CombineKeys(static_cast<std::uint64_t>(key.sizes.m), static_cast<std::uint64_t>(key.sizes.n));
    return CombineKeys(CombineKeys(mn, static_cast<std::uint64_t>(key.sizes.k)), static_cast<std::uint64_t>(key.flags));
  }
};

dnnl::memory::data_type TypeOf(const Tensor& tensor) {
  return tensor.dtype == DType::kBFloat16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// rows x columns in row-major memory, or the transpose of columns x rows.
dnnl::memory::desc MatrixOf(const Tensor& tensor, bool transposed) {
  const std::int64_t stride = tensor.shape[1];
  if (transposed) {
    return {{tensor.shape[1], tensor.shape[0]}, TypeOf(tensor), dnnl::memory::dims{1, stride}};
  }
  return {{tensor.shape[0], tensor.shape[1]}, TypeOf(tensor), dnnl::memory::dims{stride, 1}};
}

// oneDNN 2 describes a product before it chooses an implementation, oneDNN 3 does both at once. `bias` may be empty.
template <typename Matmul>
typename Matmul::primitive_desc Choose(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                       const dnnl::memory::desc& b, const dnnl::memory::desc& bias,
                                       const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes) {
  const bool biased = bias.get_size() > 0;
  if constexpr (requires { typename Matmul::desc; }) {
    using Description = typename Matmul::desc;
    return {biased ? Description(a, b, bias, c) : Description(a, b, c), attributes, engine};
  } else if (biased) {
    return {engine, a, b, bias, c, attributes};
  } else {
    return {engine, a, b, c, attributes};
  }
}

template <typename T>
void GeluForwardPass(const Tensor& auxiliary, const Tensor& c, int threads) {
  ParallelRanges(threads, c.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
    const T* z = auxiliary.as<T>();
    T* out = c.as<T>();
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = Narrow<T>(Gelu(static_cast<float>(z[i])));
    }
  });
}

template <typename T>
void GeluGradientPass(const Tensor& auxiliary, const Tensor& c, int threads) {
  ParallelRanges(threads, c.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
    const T* z = auxiliary.as<T>();
    T* out = c.as<T>();
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = Narrow<T>(static_cast<float>(out[i]) * GeluGradient(static_cast<float>(z[i])));
    }
  });
}

template <typename T>
void ResidualPass(const Tensor& auxiliary, const Tensor& c, int threads) {
  ParallelRanges(threads, c.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
    const T* x = auxiliary.as<T>();
    T* out = c.as<T>();
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = Narrow<T>(static_cast<float>(out[i]) + static_cast<float>(x[i]));
    }
  });
}

// Calls `call` with a small product of each form that Ops::Matmul allows, but for the epilogues, which are passes of
// ours.
template <typename Call>
void ForEveryForm(DType operands, const Call& call) {
  char given = 0;  // nothing is multiplied
  const auto tensor = [&](DType type, const Shape& shape) { return Tensor{&given, type, shape}; };
  const Tensor matrix = tensor(operands, {64, 64});
  for (const DType out : {operands, DType::kFloat32}) {
    for (const int transposes : {0, 1, 2, 3}) {
      MatmulArgs args{.a = matrix,
                      .b = matrix,
                      .c = tensor(out, matrix.shape),
                      .transpose_a = (transposes & 1) != 0,
                      .transpose_b = (transposes & 2) != 0};
      call(args);
      args.accumulate = true;
      call(args);
      args.accumulate = false;
      args.bias = tensor(operands, {64});
      call(args);
    }
  }
}

class OnednnEngine final : public MatmulEngine {
 public:
  explicit OnednnEngine(int threads) : threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  std::string name() const override { return "oneDNN " + OnednnVersion(); }
  std::int64_t internal_bytes() const override { return scratch_.bytes(); }

  bool Multiplies(DType operands) const override {
    if (operands != DType::kBFloat16) {
      return operands == DType::kFloat32;
    }
    // bf16 needs instructions that a processor may lack: oneDNN says so when it is asked for a primitive. What it has
    // for one form it may lack for another, and a run is not to end at the first product that has it.
    try {
      ForEveryForm(operands, [&](const MatmulArgs& form) { Create(form); });
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }

  void Run(const MatmulArgs& args) override {
    const bool gelu = args.epilogue == Epilogue::kGelu;
    Multiply(args, gelu ? args.auxiliary : args.c);
    if (args.epilogue != Epilogue::kNone) {
      DispatchWorkingType(args.c.dtype, [&](auto type) {
        using T = decltype(type);
        if (gelu) {
          GeluForwardPass<T>(args.auxiliary, args.c, threads_);
        } else if (args.epilogue == Epilogue::kResidual) {
          ResidualPass<T>(args.auxiliary, args.c, threads_);
        } else {
          GeluGradientPass<T>(args.auxiliary, args.c, threads_);
        }
      });
    }
  }

 private:
  // A primitive with its operands; their addresses are set at each call.
  struct Product {
    dnnl::matmul primitive;
    std::unordered_map<int, dnnl::memory> operands;
    std::int64_t scratch_floats = 0;
  };

  Product Create(const MatmulArgs& args) const {
    const dnnl::memory::desc a = MatrixOf(args.a, args.transpose_a);
    const dnnl::memory::desc b = MatrixOf(args.b, args.transpose_b);
    const dnnl::memory::desc c = MatrixOf(args.c, false);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (args.accumulate) {
      dnnl::post_ops operations;
      operations.append_sum(1.0F);
      attributes.set_post_ops(operations);
    }
    const dnnl::memory::desc bias =
        args.bias.given() ? dnnl::memory::desc({1, args.c.shape[1]}, TypeOf(args.a), dnnl::memory::format_tag::ab)
                          : dnnl::memory::desc();
    const auto chosen = Choose<dnnl::matmul>(engine_, a, b, bias, c, attributes);
    const dnnl::memory::desc scratch = chosen.scratchpad_desc();
    Product product{.primitive = dnnl::matmul(chosen),
                    .scratch_floats = CeilDiv(static_cast<std::int64_t>(scratch.get_size()), 4)};
    const auto operand = [&](int argument, const dnnl::memory::desc& shape) {
      product.operands.emplace(argument, dnnl::memory(shape, engine_, nullptr));
    };
    operand(DNNL_ARG_SRC, a);
    operand(DNNL_ARG_WEIGHTS, b);
    operand(DNNL_ARG_DST, c);
    operand(DNNL_ARG_SCRATCHPAD, scratch);
    if (args.bias.given()) {
      operand(DNNL_ARG_BIAS, bias);
    }
    return product;
  }

  void Multiply(const MatmulArgs& args, const Tensor& c) {
    // oneDNN asks OpenMP how many threads the calling thread may use, when it creates and when it runs.
    omp_set_num_threads(threads_);
    try {
      const Key key(args);
      auto found = products_.find(key);
      if (found == products_.end()) {
        found = products_.emplace(key, Create(args)).first;
      }
      Product& product = found->second;
      scratch_.Reserve(1, product.scratch_floats);
      product.operands.at(DNNL_ARG_SRC).set_data_handle(args.a.data);
      product.operands.at(DNNL_ARG_WEIGHTS).set_data_handle(args.b.data);
      product.operands.at(DNNL_ARG_DST).set_data_handle(c.data);
      product.operands.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratch_.of(0));
      if (args.bias.given()) {
        product.operands.at(DNNL_ARG_BIAS).set_data_handle(args.bias.data);
      }
      product.primitive.execute(stream_, product.operands);
      stream_.wait();
    } catch (const dnnl::error& error) {
      Fail("oneDNN, product of {} and {}: {}", args.a.shape.ToString(), args.b.shape.ToString(), error.what());
    }
  }

  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  Scratch scratch_;
  std::unordered_map<Key, Product, KeyHash> products_;
};

}  // namespace

std::string OnednnVersion() {
  const dnnl_version_t* version = dnnl::version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::unique_ptr<MatmulEngine> MakeOnednnEngine(int threads) { return std::make_unique<OnednnEngine>(threads); }

}  // namespace trireme
