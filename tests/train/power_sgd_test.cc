// PowerSGD against a serial emulation in double precision, and against the plain sum of gradients of its rank.
#include "train/power_sgd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "base/random.h"
#include "comm/rank_runner.h"
#include "cost/step_cost.h"

namespace trireme::power_sgd_test {
namespace {

constexpr int kRanks = 3;

RunConfig ConfigOf(int rank) {
  RunConfig config;
  config.model.layers = 1;
  config.model.hidden = 12;
  config.model.heads = 2;
  config.model.ffn = 20;
  config.model.vocabulary = 16;
  config.model.sequence = 4;
  config.model = Completed(config.model);
  config.layout = {.data = kRanks};
  config.batch.global = 2 * kRanks;
  config.optimizer.powersgd_rank = rank;
  Validate(config, kRanks);
  return config;
}

float GradientAt(int data, int step, std::size_t bucket, std::int64_t index) {
  return RandomUniform(static_cast<std::uint64_t>((data * 100 + step) * 100) + bucket,
                       static_cast<std::uint64_t>(index)) -
         0.4F;
}

using Matrix = std::vector<double>;

// a [m, k] times b [k, n], a transposed where asked.
Matrix Product(const Matrix& a, const Matrix& b, std::size_t m, std::size_t k, std::size_t n, bool transposed = false) {
  Matrix c(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t l = 0; l < k; ++l) {
        c[i * n + j] += (transposed ? a[l * m + i] : a[i * k + l]) * b[l * n + j];
      }
    }
  }
  return c;
}

void Orthonormalise(Matrix& p, std::size_t rows, std::size_t columns) {
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t o = 0; o < c; ++o) {
      double dot = 0;
      for (std::size_t r = 0; r < rows; ++r) {
        dot += p[r * columns + c] * p[r * columns + o];
      }
      for (std::size_t r = 0; r < rows; ++r) {
        p[r * columns + c] -= dot * p[r * columns + o];
      }
    }
    double square = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      square += p[r * columns + c] * p[r * columns + c];
    }
    for (std::size_t r = 0; r < rows; ++r) {
      p[r * columns + c] /= std::sqrt(square);
    }
  }
}

// One matrix on all ranks.
struct Emulated {
  std::size_t rows, columns, rank;
  Matrix q;
  std::vector<Matrix> errors = {};

  Matrix Step(const std::vector<Matrix>& gradients) {
    Matrix p(rows * rank);
    errors.resize(gradients.size(), Matrix(rows * columns));
    for (std::size_t w = 0; w < gradients.size(); ++w) {
      for (std::size_t i = 0; i < gradients[w].size(); ++i) {
        errors[w][i] += gradients[w][i];
      }
      const Matrix own = Product(errors[w], q, rows, columns, rank);
      for (std::size_t i = 0; i < p.size(); ++i) {
        p[i] += own[i];
      }
    }
    Orthonormalise(p, rows, rank);
    Matrix sum(columns * rank);
    const auto outer = [&](const Matrix& right, std::size_t i) {
      double value = 0;
      for (std::size_t l = 0; l < rank; ++l) {
        value += p[i / columns * rank + l] * right[i % columns * rank + l];
      }
      return value;
    };
    for (Matrix& error : errors) {
      const Matrix own = Product(error, p, columns, rows, rank, true);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += own[i];
      }
      for (std::size_t i = 0; i < error.size(); ++i) {
        error[i] -= outer(own, i);
      }
    }
    q = sum;
    Matrix result(rows * columns);
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = outer(q, i);
    }
    return result;
  }
};

Matrix ValuesOf(const Tensor& tensor) { return Matrix(tensor.as<float>(), tensor.as<float>() + tensor.count()); }

// Reduces `steps` gradients on every rank and gives each step's result on each rank to `check`.
template <typename Check>
void Reduced(int rank, int steps, Check check) {
  const RunConfig config = ConfigOf(rank);
  const StageOfRun stage(config, 0, config.batch.global);
  const PowerSgdPlan& plan = stage.description().power_sgd;
  const ShardPlan& shards = stage.description().shards;
  std::mutex mutex;
  RunThreadRanks(kRanks, {.kind = "cpu"}, [&](RankContext& context) {
    MemoryUse planned;
    planned[MemoryKind::kGradients] = plan.Bytes();
    Arena arena(context.device, planned);
    PowerSgd power(arena, context.world, plan);
    EXPECT_EQ(arena.used()[MemoryKind::kGradients], plan.Bytes());
    std::vector<std::vector<Emulated>> expected;
    for (const CompressedBucket& bucket : plan.buckets) {
      expected.emplace_back();
      for (const CompressedMatrix& matrix : bucket.matrices) {
        expected.back().push_back({static_cast<std::size_t>(matrix.rows), static_cast<std::size_t>(matrix.columns),
                                   static_cast<std::size_t>(matrix.rank), ValuesOf(power.right(matrix))});
      }
    }
    for (int step = 0; step < steps; ++step) {
      for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
        std::vector<float> gradient(static_cast<std::size_t>(shards.buckets[i].count));
        for (std::size_t j = 0; j < gradient.size(); ++j) {
          gradient[j] = GradientAt(context.world.rank(), step, i, static_cast<std::int64_t>(j));
        }
        power.Reduce(i, {gradient.data(), DType::kFloat32, {shards.buckets[i].count}});
        const std::scoped_lock lock(mutex);
        check(plan.buckets[i], expected[i], step, i, gradient);
      }
    }
  });
}

std::vector<Matrix> GradientsOf(const CompressedMatrix& matrix, int step, std::size_t bucket) {
  std::vector<Matrix> all(kRanks);
  for (int data = 0; data < kRanks; ++data) {
    for (std::int64_t i = 0; i < matrix.count(); ++i) {
      all[static_cast<std::size_t>(data)].push_back(GradientAt(data, step, bucket, matrix.offset + i));
    }
  }
  return all;
}

TEST(PowerSgd, IsItsSerialEmulation) {
  Reduced(2, 3,
          [](const CompressedBucket& bucket, std::vector<Emulated>& expected, int step, std::size_t index,
             const std::vector<float>& gradient) {
            for (std::size_t m = 0; m < bucket.matrices.size(); ++m) {
              const CompressedMatrix& matrix = bucket.matrices[m];
              const Matrix result = expected[m].Step(GradientsOf(matrix, step, index));
              for (std::size_t i = 0; i < result.size(); ++i) {
                ASSERT_NEAR(gradient[static_cast<std::size_t>(matrix.offset) + i], result[i], 1e-4) << step;
              }
            }
          });
}

// Each data rank's gradient is one outer product: three of them in all, which rank 3 holds.
TEST(PowerSgd, AGradientOfItsRankIsSummedExactly) {
  const RunConfig config = ConfigOf(kRanks);
  const StageOfRun stage(config, 0, config.batch.global);
  const PowerSgdPlan& plan = stage.description().power_sgd;
  const auto value = [](int data, int step, std::int64_t row, std::int64_t column) {
    const auto key = static_cast<std::uint64_t>(data * 10 + step);
    return (RandomUniform(key, static_cast<std::uint64_t>(row)) - 0.5F) *
           (RandomUniform(key + 1000, static_cast<std::uint64_t>(column)) - 0.5F);
  };
  RunThreadRanks(kRanks, {.kind = "cpu"}, [&](RankContext& context) {
    MemoryUse planned;
    planned[MemoryKind::kGradients] = plan.Bytes();
    Arena arena(context.device, planned);
    PowerSgd power(arena, context.world, plan);
    for (int step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
        std::vector<float> gradient(static_cast<std::size_t>(stage.description().shards.buckets[i].count));
        for (const CompressedMatrix& matrix : plan.buckets[i].matrices) {
          for (std::int64_t j = 0; j < matrix.count(); ++j) {
            gradient[static_cast<std::size_t>(matrix.offset + j)] =
                value(context.world.rank(), step, j / matrix.columns, j % matrix.columns);
          }
        }
        power.Reduce(i, {gradient.data(), DType::kFloat32, {static_cast<std::int64_t>(gradient.size())}});
        for (const CompressedMatrix& matrix : plan.buckets[i].matrices) {
          for (std::int64_t j = 0; j < matrix.count(); ++j) {
            float sum = 0;
            for (int data = 0; data < kRanks; ++data) {
              sum += value(data, step, j / matrix.columns, j % matrix.columns);
            }
            EXPECT_NEAR(gradient[static_cast<std::size_t>(matrix.offset + j)], sum, 1e-4) << step;
          }
        }
      }
    }
  });
}

TEST(PowerSgd, MatricesWhoseFactorsWouldBeNoSmallerAreSummedWhole) {
  const RunConfig config = ConfigOf(64);
  const StageOfRun stage(config, 0, config.batch.global);
  for (const CompressedBucket& bucket : stage.description().power_sgd.buckets) {
    EXPECT_TRUE(bucket.matrices.empty());
    ASSERT_EQ(bucket.whole.size(), 1U);
  }
}

TEST(PowerSgd, VectorsAreSummedWhole) {
  Reduced(1, 1,
          [](const CompressedBucket& bucket, std::vector<Emulated>&, int step, std::size_t index,
             const std::vector<float>& gradient) {
            for (const OwnedRange& range : bucket.whole) {
              for (std::int64_t i = range.first; i < range.last; ++i) {
                ASSERT_NEAR(
                    gradient[static_cast<std::size_t>(i)],
                    GradientAt(0, step, index, i) + GradientAt(1, step, index, i) + GradientAt(2, step, index, i),
                    1e-5);
              }
            }
          });
}

}  // namespace
}  // namespace trireme::power_sgd_test
