#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

// The numbers of a router as kernels read them.
struct RouterNumbers {
  RouterScore score;
  bool renormalize;
  float scale;
  int experts;
  int chosen;
};

__device__ float SigmoidOf(float x) { return 1.0F / (1.0F + expf(-x)); }

// Softmax of a row by a warp; returns the logarithm of the sum of exponentials.
__device__ float SoftmaxOfRow(const float* logits, float* to, int experts) {
  const int lane = static_cast<int>(threadIdx.x);
  float largest = -INFINITY;
  for (int e = lane; e < experts; e += kWarp) {
    largest = fmaxf(largest, logits[e]);
  }
  largest = WarpMax(largest);
  float sum = 0;
  for (int e = lane; e < experts; e += kWarp) {
    to[e] = expf(logits[e] - largest);
    sum += to[e];
  }
  sum = WarpSum(sum);
  for (int e = lane; e < experts; e += kWarp) {
    to[e] /= sum;
  }
  __syncthreads();
  return largest + logf(sum);
}

__device__ void ScoresOfRow(const RouterNumbers& router, const float* logits, float* scores) {
  if (router.score == RouterScore::kSoftmax) {
    SoftmaxOfRow(logits, scores, router.experts);
    return;
  }
  for (int e = static_cast<int>(threadIdx.x); e < router.experts; e += kWarp) {
    scores[e] = SigmoidOf(logits[e]);
  }
  __syncthreads();
}

// Whether expert `a` comes before `b` (-1: none): the larger score, the lower number of equal ones, NaN last.
__device__ bool ComesBefore(const float* ranked, int a, int b) {
  if (a < 0 || b < 0) {
    return a >= 0;
  }
  const bool a_is_nan = isnan(ranked[a]);
  const bool b_is_nan = isnan(ranked[b]);
  if (a_is_nan != b_is_nan) {
    return b_is_nan;
  }
  return ranked[a] > ranked[b] || ((a_is_nan || ranked[a] == ranked[b]) && a < b);
}

__device__ void ChooseExperts(const float* ranked, const RouterNumbers& router, std::int32_t* chosen) {
  for (int j = 0; j < router.chosen; ++j) {
    int best = -1;
    for (int e = static_cast<int>(threadIdx.x); e < router.experts; e += kWarp) {
      bool taken = false;
      for (int before = 0; before < j; ++before) {
        taken = taken || chosen[before] == e;
      }
      best = !taken && ComesBefore(ranked, e, best) ? e : best;
    }
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      const int other = __shfl_xor_sync(0xffffffffU, best, offset);
      best = ComesBefore(ranked, other, best) ? other : best;
    }
    if (threadIdx.x == 0) {
      chosen[j] = best;
    }
    __syncthreads();
  }
}

__device__ float DivisorOf(const RouterNumbers& router, const float* scores, const std::int32_t* chosen) {
  if (!router.renormalize) {
    return 1;
  }
  float sum = 0;
  for (int j = 0; j < router.chosen; ++j) {
    sum += scores[chosen[j]];
  }
  return fmaxf(sum, 1.17549435e-38F);
}

// A block of one warp for each token.
__global__ void __launch_bounds__(kWarp) RouteKernel(RouterNumbers router, const float* logits, const float* bias,
                                                     const std::int32_t* kept, std::int32_t* chosen, float* weights) {
  TRIREME_DYNAMIC_SHARED(float, shared);
  float* const scores = shared;
  float* const ranked = shared + router.experts;
  auto* const choice = reinterpret_cast<std::int32_t*>(shared + 2 * router.experts);
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x);
  ScoresOfRow(router, logits + token * router.experts, scores);
  if (kept == nullptr) {
    for (int e = lane; e < router.experts; e += kWarp) {
      ranked[e] = scores[e] + (bias == nullptr ? 0.0F : bias[e]);
    }
    __syncthreads();
    ChooseExperts(ranked, router, choice);
  } else {
    for (int j = lane; j < router.chosen; j += kWarp) {
      choice[j] = kept[token * router.chosen + j];
    }
    __syncthreads();
  }
  const float divisor = DivisorOf(router, scores, choice);
  for (int j = lane; j < router.chosen; j += kWarp) {
    weights[token * router.chosen + j] = router.scale * (scores[choice[j]] / divisor);
    if (kept == nullptr) {
      chosen[token * router.chosen + j] = choice[j];
    }
  }
}

struct RouterLosses {
  const float* counts;
  const float* token_weights;
  std::int64_t sequence;
  float balance;
  float z;
};

template <typename T>
__global__ void __launch_bounds__(kWarp)
    RouteBackwardKernel(RouterNumbers router, RouterLosses losses, const float* grad_weights, const float* logits,
                        const std::int32_t* chosen, T* grad_logits) {
  TRIREME_DYNAMIC_SHARED(float, shared);
  float* const scores = shared;
  float* const gradient = shared + router.experts;
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x);
  const int experts = router.experts;
  const float* const row = logits + token * experts;
  const std::int32_t* const choice = chosen + token * router.chosen;
  const float* const grad = grad_weights + token * router.chosen;
  ScoresOfRow(router, row, scores);
  const float divisor = DivisorOf(router, scores, choice);
  float mean = 0;
  for (int j = 0; router.renormalize && j < router.chosen; ++j) {
    mean += scores[choice[j]] / divisor * grad[j];
  }
  const float weight = losses.token_weights == nullptr ? 0.0F : losses.token_weights[token];
  const bool balances = losses.balance != 0 && weight > 0;
  const float* const counts = balances ? losses.counts + token / losses.sequence * (experts + 1) : nullptr;
  const float frequency = balances ? losses.balance * weight * static_cast<float>(experts) /
                                         (static_cast<float>(router.chosen) * counts[experts])
                                   : 0.0F;
  float sum = 0;
  float expected = 0;
  for (int e = lane; e < experts; e += kWarp) {
    sum += scores[e];
    expected += balances ? scores[e] * frequency * counts[e] : 0.0F;
  }
  sum = WarpSum(sum);
  expected = WarpSum(expected);
  const bool softmax = router.score == RouterScore::kSoftmax;
  float product = 0;
  for (int e = lane; e < experts; e += kWarp) {
    float value = 0;
    for (int j = 0; j < router.chosen; ++j) {
      value = choice[j] == e ? router.scale / divisor * (grad[j] - mean) : value;
    }
    if (balances) {
      value += softmax ? frequency * counts[e] : (frequency * counts[e] - expected / sum) / sum;
    }
    gradient[e] = value;
    product += scores[e] * value;
  }
  product = WarpSum(product);
  for (int e = lane; e < experts; e += kWarp) {
    gradient[e] = softmax ? scores[e] * (gradient[e] - product) : gradient[e] * scores[e] * (1 - scores[e]);
  }
  __syncthreads();
  if (losses.z != 0 && weight != 0) {
    const float normaliser = SoftmaxOfRow(row, scores, experts);
    for (int e = lane; e < experts; e += kWarp) {
      gradient[e] += 2 * losses.z * weight * normaliser * scores[e];
    }
  }
  for (int e = lane; e < experts; e += kWarp) {
    grad_logits[token * experts + e] = FromFloat<T>(gradient[e]);
  }
}

// Whole numbers: their sums do not depend on the order.
struct CountBody {
  const std::int32_t* chosen;
  const float* token_weights;
  float* counts;
  std::int64_t sequence;
  std::int64_t columns;
  std::int64_t count;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t token = first + i;
      if (token_weights[token] > 0) {
        float* const own = counts + token / sequence * columns;
        atomicAdd(own + columns - 1, 1.0F);
        for (std::int64_t j = 0; j < count; ++j) {
          atomicAdd(own + chosen[token * count + j], 1.0F);
        }
      }
    }
  }
};

RouterNumbers NumbersOf(const RouterChoices& router, const Tensor& logits, const Tensor& choice) {
  return {router.score, router.renormalize, router.scale, static_cast<int>(logits.shape[1]),
          static_cast<int>(choice.shape[1])};
}

LaunchShape WarpPerToken(std::int64_t tokens, std::int64_t shared_floats) {
  return {dim3(static_cast<unsigned>(tokens)), dim3(kWarp), static_cast<std::size_t>(shared_floats) * sizeof(float)};
}

}  // namespace

void CudaOps::Do(const Route<Tensor>& op) {
  const std::int64_t experts = op.logits.shape[1];
  Launch(context_, WarpPerToken(op.logits.shape[0], 2 * experts + op.weights.shape[1]), RouteKernel,
         NumbersOf(op.router, op.logits, op.weights), op.logits.as<float>(), op.bias.as<float>(),
         op.kept.as<std::int32_t>(), op.chosen.as<std::int32_t>(), op.weights.as<float>());
}

void CudaOps::Do(const RouteBackward<Tensor>& op) {
  const std::int64_t sequences = op.counts.given() ? op.counts.shape[0] : 1;
  const RouterLosses losses{op.counts.as<float>(), op.token_weights.as<float>(), op.logits.shape[0] / sequences,
                            op.balance, op.z};
  DispatchFloat(op.grad_logits.dtype, "RouteBackward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch(context_, WarpPerToken(op.logits.shape[0], 2 * op.logits.shape[1]), RouteBackwardKernel<T>,
           NumbersOf(op.router, op.logits, op.chosen), losses, op.grad_weights.as<float>(), op.logits.as<float>(),
           op.chosen.as<std::int32_t>(), op.grad_logits.as<T>());
  });
}

void CudaOps::Do(const CountChosen<Tensor>& op) {
  ClearMemory(context_, op.counts.data, op.counts.bytes());
  const std::int64_t tokens = op.chosen.shape[0];
  ForEach(context_, tokens, false,
          CountBody{op.chosen.as<std::int32_t>(), op.token_weights.as<float>(), op.counts.as<float>(),
                    tokens / op.counts.shape[0], op.counts.shape[1], op.chosen.shape[1]});
}

}  // namespace trireme
