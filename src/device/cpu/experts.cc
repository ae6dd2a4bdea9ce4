#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/experts.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"
#include "device/cpu/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

// Softmax of a row; returns the logarithm of the sum of exponentials.
float SoftmaxRow(const float* logits, float* to, std::int64_t experts) {
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t e = 0; e < experts; ++e) {
    largest = std::max(largest, logits[e]);
  }
  float sum = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    to[e] = VectorExp(logits[e] - largest);
    sum += to[e];
  }
  for (std::int64_t e = 0; e < experts; ++e) {
    to[e] /= sum;
  }
  return largest + std::log(sum);
}

void ScoresOfRow(RouterScore kind, const float* logits, float* scores, std::int64_t experts) {
  if (kind == RouterScore::kSoftmax) {
    SoftmaxRow(logits, scores, experts);
    return;
  }
  for (std::int64_t e = 0; e < experts; ++e) {
    scores[e] = Sigmoid(logits[e]);
  }
}

// The largest of `ranked` that are not taken yet, the lowest number of equal ones.
void ChooseRow(const float* ranked, std::int64_t experts, std::int32_t* chosen, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < experts; ++e) {
      const bool taken = std::find(chosen, chosen + j, static_cast<std::int32_t>(e)) != chosen + j;
      const bool better = best < 0 || ranked[e] > ranked[best] || (std::isnan(ranked[best]) && !std::isnan(ranked[e]));
      if (!taken && better) {
        best = e;
      }
    }
    chosen[j] = static_cast<std::int32_t>(best);
  }
}

// What the chosen scores are divided by.
float Divisor(const RouterChoices& router, const float* scores, const std::int32_t* chosen, std::int64_t count) {
  if (!router.renormalize) {
    return 1;
  }
  float sum = 0;
  for (std::int64_t j = 0; j < count; ++j) {
    sum += scores[chosen[j]];
  }
  return std::max(sum, std::numeric_limits<float>::min());
}

// The routing of one token: gradients of its scores, then of its logits.
struct TokenBackward {
  const RouteBackward<Tensor>& op;
  std::int64_t experts;
  std::int64_t count;
  std::vector<float> scores;
  std::vector<float> gradient;

  void Run(std::int64_t token) {
    const float* logits = op.logits.as<float>() + token * experts;
    const std::int32_t* chosen = op.chosen.as<std::int32_t>() + token * count;
    ScoresOfRow(op.router.score, logits, scores.data(), experts);
    OfWeights(chosen, op.grad_weights.as<float>() + token * count);
    const float weight = op.token_weights.given() ? op.token_weights.as<float>()[token] : 0;
    if (op.balance != 0 && weight > 0) {
      OfBalance(token, op.balance * weight);
    }
    ToLogits();
    if (op.z != 0 && weight != 0) {
      const float normaliser = SoftmaxRow(logits, scores.data(), experts);
      for (std::int64_t e = 0; e < experts; ++e) {
        gradient[static_cast<std::size_t>(e)] += 2 * op.z * weight * normaliser * scores[static_cast<std::size_t>(e)];
      }
    }
  }

 private:
  void OfWeights(const std::int32_t* chosen, const float* grad) {
    std::fill(gradient.begin(), gradient.end(), 0.0F);
    const float divisor = Divisor(op.router, scores.data(), chosen, count);
    float mean = 0;
    for (std::int64_t j = 0; op.router.renormalize && j < count; ++j) {
      mean += scores[static_cast<std::size_t>(chosen[j])] / divisor * grad[j];
    }
    for (std::int64_t j = 0; j < count; ++j) {
      gradient[static_cast<std::size_t>(chosen[j])] = op.router.scale / divisor * (grad[j] - mean);
    }
  }

  // With p = scores / sum of scores, which a softmax has made 1.
  void OfBalance(std::int64_t token, float factor) {
    const std::int64_t sequence = op.logits.shape[0] / op.counts.shape[0];
    const float* counts = op.counts.as<float>() + token / sequence * (experts + 1);
    const float frequency = factor * static_cast<float>(experts) / (static_cast<float>(count) * counts[experts]);
    float sum = 0;
    float mean = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      sum += scores[static_cast<std::size_t>(e)];
      mean += scores[static_cast<std::size_t>(e)] * frequency * counts[e];
    }
    const bool softmax = op.router.score == RouterScore::kSoftmax;
    for (std::int64_t e = 0; e < experts; ++e) {
      gradient[static_cast<std::size_t>(e)] +=
          softmax ? frequency * counts[e] : (frequency * counts[e] - mean / sum) / sum;
    }
  }

  void ToLogits() {
    float mean = 0;
    for (std::int64_t e = 0; op.router.score == RouterScore::kSoftmax && e < experts; ++e) {
      mean += scores[static_cast<std::size_t>(e)] * gradient[static_cast<std::size_t>(e)];
    }
    for (std::int64_t e = 0; e < experts; ++e) {
      const float score = scores[static_cast<std::size_t>(e)];
      float& value = gradient[static_cast<std::size_t>(e)];
      value = op.router.score == RouterScore::kSoftmax ? score * (value - mean) : value * score * (1 - score);
    }
  }
};

template <typename T>
void CombineRow(const CombineRows<Tensor>& op, std::int64_t token, std::vector<float>& sum) {
  const std::int64_t columns = op.to.shape[1];
  const std::int64_t count = op.positions.shape[1];
  const std::int32_t* positions = op.positions.as<std::int32_t>() + token * count;
  float* to = sum.data();
  const T* first = op.rows.as<T>() + positions[0] * columns;
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    to[c] = static_cast<float>(first[c]);
  }
  for (std::int64_t j = 1; j < count; ++j) {
    const T* row = op.rows.as<T>() + positions[j] * columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) {
      to[c] += static_cast<float>(row[c]);
    }
  }
  if (op.added.given()) {
    const float share = op.gate.given() ? Sigmoid(op.gate.as<float>()[token]) : 1.0F;
    const T* added = op.added.as<T>() + token * columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) {
      to[c] += share * static_cast<float>(added[c]);
    }
  }
  T* out = op.to.as<T>() + token * columns;
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    out[c] = Narrow<T>(to[c]);
  }
}

template <typename T>
float DotRow(const T* a, const T* b, std::int64_t columns) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < columns; ++c) {
    sum += static_cast<float>(a[c]) * static_cast<float>(b[c]);
  }
  return sum;
}

}  // namespace

void CpuOps::Do(const Route<Tensor>& op) {
  const std::int64_t experts = op.logits.shape[1];
  const std::int64_t count = op.weights.shape[1];
  const float* bias = op.bias.as<float>();
  ParallelRanges(threads_, op.logits.shape[0], RowGrain(experts * count),
                 [&](int, std::int64_t begin, std::int64_t end) {
                   std::vector<float> scores(static_cast<std::size_t>(experts));
                   std::vector<float> ranked(static_cast<std::size_t>(experts));
                   for (std::int64_t token = begin; token < end; ++token) {
                     ScoresOfRow(op.router.score, op.logits.as<float>() + token * experts, scores.data(), experts);
                     const std::int32_t* chosen = nullptr;
                     if (op.kept.given()) {
                       chosen = op.kept.as<std::int32_t>() + token * count;
                     } else {
                       for (std::size_t e = 0; e < ranked.size(); ++e) {
                         ranked[e] = scores[e] + (bias == nullptr ? 0.0F : bias[e]);
                       }
                       std::int32_t* const choice = op.chosen.as<std::int32_t>() + token * count;
                       ChooseRow(ranked.data(), experts, choice, count);
                       chosen = choice;
                     }
                     const float divisor = Divisor(op.router, scores.data(), chosen, count);
                     for (std::int64_t j = 0; j < count; ++j) {
                       op.weights.as<float>()[token * count + j] =
                           op.router.scale * (scores[static_cast<std::size_t>(chosen[j])] / divisor);
                     }
                   }
                 });
}

void CpuOps::Do(const RouteBackward<Tensor>& op) {
  const std::int64_t experts = op.logits.shape[1];
  const std::int64_t count = op.chosen.shape[1];
  DispatchWorkingType(op.grad_logits.dtype, [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, op.logits.shape[0], RowGrain(8 * experts), [&](int, std::int64_t begin, std::int64_t end) {
      TokenBackward one{.op = op,
                        .experts = experts,
                        .count = count,
                        .scores = std::vector<float>(static_cast<std::size_t>(experts)),
                        .gradient = std::vector<float>(static_cast<std::size_t>(experts))};
      for (std::int64_t token = begin; token < end; ++token) {
        one.Run(token);
        for (std::int64_t e = 0; e < experts; ++e) {
          op.grad_logits.as<T>()[token * experts + e] = Narrow<T>(one.gradient[static_cast<std::size_t>(e)]);
        }
      }
    });
  });
}

void CpuOps::Do(const CountChosen<Tensor>& op) {
  const std::int64_t columns = op.counts.shape[1];
  const std::int64_t sequence = op.chosen.shape[0] / op.counts.shape[0];
  const std::int64_t count = op.chosen.shape[1];
  ParallelRanges(threads_, op.counts.shape[0], RowGrain(sequence * count),
                 [&](int, std::int64_t begin, std::int64_t end) {
                   std::vector<std::int64_t> counts(static_cast<std::size_t>(columns));
                   for (std::int64_t b = begin; b < end; ++b) {
                     std::fill(counts.begin(), counts.end(), 0);
                     for (std::int64_t token = b * sequence; token < (b + 1) * sequence; ++token) {
                       if (op.token_weights.as<float>()[token] <= 0) {
                         continue;
                       }
                       ++counts.back();
                       for (std::int64_t j = 0; j < count; ++j) {
                         ++counts[static_cast<std::size_t>(op.chosen.as<std::int32_t>()[token * count + j])];
                       }
                     }
                     for (std::int64_t c = 0; c < columns; ++c) {
                       op.counts.as<float>()[b * columns + c] = static_cast<float>(counts[static_cast<std::size_t>(c)]);
                     }
                   }
                 });
}

// A counting sort.
void CpuOps::Do(const OrderRows<Tensor>& op) {
  const std::int64_t slots = op.chosen.count();
  const std::int32_t* chosen = op.chosen.as<std::int32_t>();
  auto* const offsets = op.offsets.as<std::int32_t>();
  const std::int64_t experts = op.offsets.count() - 1;
  std::fill_n(offsets, experts + 1, 0);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    ++offsets[chosen[slot] + 1];
  }
  for (std::int64_t e = 0; e < experts; ++e) {
    offsets[e + 1] += offsets[e];
  }
  std::vector<std::int32_t> next(offsets, offsets + experts);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const std::int32_t row = next[static_cast<std::size_t>(chosen[slot])]++;
    op.order.as<std::int32_t>()[row] = static_cast<std::int32_t>(slot);
    op.positions.as<std::int32_t>()[slot] = row;
  }
}

void CpuOps::Do(const AddLoad<Tensor>& op) {
  const std::int32_t* offsets = op.offsets.as<std::int32_t>();
  for (std::int64_t e = 0; e < op.load.count(); ++e) {
    float& load = op.load.as<float>()[e];
    load = (op.first ? 0.0F : load) + static_cast<float>(offsets[e + 1] - offsets[e]);
  }
}

void CpuOps::Do(const GatherRows<Tensor>& op) {
  const std::int64_t count = op.to.shape[0] / op.from.shape[0];
  const std::int64_t row_bytes = op.from.shape[1] * SizeOf(op.from.dtype);
  ParallelRanges(threads_, op.to.shape[0], RowGrain(op.from.shape[1]), [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t token = op.order.as<std::int32_t>()[row] / count;
      std::memcpy(op.to.as<char>() + row * row_bytes, op.from.as<char>() + token * row_bytes,
                  static_cast<std::size_t>(row_bytes));
    }
  });
}

void CpuOps::Do(const CombineRows<Tensor>& op) {
  DispatchWorkingType(op.to.dtype, [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, op.to.shape[0], RowGrain(op.to.shape[1] * op.positions.shape[1]),
                   [&](int, std::int64_t begin, std::int64_t end) {
                     std::vector<float> sum(static_cast<std::size_t>(op.to.shape[1]));
                     for (std::int64_t token = begin; token < end; ++token) {
                       CombineRow<T>(op, token, sum);
                     }
                   });
  });
}

void CpuOps::Do(const GateBackward<Tensor>& op) {
  const std::int64_t columns = op.grad_out.shape[1];
  DispatchWorkingType(op.grad_out.dtype, [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, op.grad_out.shape[0], RowGrain(columns), [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t token = begin; token < end; ++token) {
        const T* grad = op.grad_out.as<T>() + token * columns;
        const float share = Sigmoid(op.gate.as<float>()[token]);
        const float dot = DotRow(grad, op.added.as<T>() + token * columns, columns);
        op.grad_gate.as<T>()[token] = Narrow<T>(dot * share * (1 - share));
        T* to = op.grad_added.as<T>() + token * columns;
#pragma omp simd
        for (std::int64_t c = 0; c < columns; ++c) {
          to[c] = Narrow<T>(share * static_cast<float>(grad[c]));
        }
      }
    });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
