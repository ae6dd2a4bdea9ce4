#include "train/power_sgd.h"

#include <cmath>
#include <vector>

#include "base/random.h"

namespace trireme {
namespace {

// Gram-Schmidt, twice, in double precision: columns of `values` [rows, columns] become orthonormal, or zero where they
// depend on those before.
void OrthonormaliseColumns(std::vector<float>& values, std::size_t rows, std::size_t columns) {
  std::vector<std::vector<double>> basis(columns, std::vector<double>(rows));
  for (std::size_t c = 0; c < columns; ++c) {
    std::vector<double>& column = basis[c];
    double before = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      column[r] = values[r * columns + c];
      before += column[r] * column[r];
    }
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t other = 0; other < c; ++other) {
        double dot = 0;
        for (std::size_t r = 0; r < rows; ++r) {
          dot += column[r] * basis[other][r];
        }
        for (std::size_t r = 0; r < rows; ++r) {
          column[r] -= dot * basis[other][r];
        }
      }
    }
    double square = 0;
    for (const double value : column) {
      square += value * value;
    }
    // fp32 sums leave about 1e-7 of a column that depends on the others.
    const double scale = square > 1e-12 * before && square > 0 ? 1 / std::sqrt(square) : 0;
    for (std::size_t r = 0; r < rows; ++r) {
      column[r] *= scale;
      values[r * columns + c] = static_cast<float>(column[r]);
    }
  }
}

}  // namespace

PowerSgd::PowerSgd(Arena& arena, Communicator& data, const PowerSgdPlan& plan)
    : device_(arena.device()), ops_(arena.device().ops()), data_(data), plan_(plan) {
  const auto take = [&](std::int64_t count) {
    return arena.Allocate(MemoryKind::kGradients, DType::kFloat32, {count});
  };
  rights_ = take(plan.rights);
  errors_ = take(plan.errors);
  left_ = take(plan.most_left);
  own_ = take(plan.most_right);
  negative_ = take(plan.most_right);
  Reset();
}

void PowerSgd::Reset() {
  for (const CompressedBucket& bucket : plan_.buckets) {
    for (const CompressedMatrix& matrix : bucket.matrices) {
      ops_.DrawNormal(right(matrix),
                      {.key = RandomKey(static_cast<std::uint64_t>(matrix.row), "powersgd"), .stride = matrix.rank});
    }
  }
  ops_.Fill(errors_, 0);
}

void PowerSgd::RescaleResiduals(float factor) { ops_.Scale(errors_, factor); }

void PowerSgd::Orthonormalise(const Tensor& matrix) {
  std::vector<float> values(static_cast<std::size_t>(matrix.count()));
  device_.CopyToHost(values.data(), matrix.data, matrix.bytes());
  OrthonormaliseColumns(values, static_cast<std::size_t>(matrix.shape[0]), static_cast<std::size_t>(matrix.shape[1]));
  device_.CopyFromHost(matrix.data, values.data(), matrix.bytes());
}

void PowerSgd::Reduce(std::size_t bucket, const Tensor& gradient) {
  const CompressedBucket& compressed = plan_.buckets[bucket];
  for (const OwnedRange& range : compressed.whole) {
    data_.AllReduce(gradient.Range(range.first, range.count()));
  }
  if (compressed.matrices.empty()) {
    return;
  }
  const std::int64_t first_right = compressed.matrices.front().right;
  const auto part = [&](const Tensor& all, const CompressedMatrix& matrix) {
    return all.Range(matrix.right - first_right, matrix.columns * matrix.rank).Reshaped({matrix.columns, matrix.rank});
  };
  const auto left = [&](const CompressedMatrix& matrix) {
    return left_.Range(matrix.left, matrix.rows * matrix.rank).Reshaped({matrix.rows, matrix.rank});
  };
  ops_.set_updating(true);
  for (const CompressedMatrix& matrix : compressed.matrices) {
    ops_.Add(error(matrix), gradient.Range(matrix.offset, matrix.count()));
    ops_.Matmul({.a = error(matrix), .b = right(matrix), .c = left(matrix)});
  }
  data_.AllReduce(left_.Range(0, compressed.left));
  for (const CompressedMatrix& matrix : compressed.matrices) {
    Orthonormalise(left(matrix));
    const Tensor own = part(own_, matrix);
    const Tensor negative = part(negative_, matrix);
    ops_.Matmul({.a = error(matrix), .b = left(matrix), .c = own, .transpose_a = true});
    ops_.Copy(negative, own);
    ops_.Scale(negative, -1);
    // What this rank's factors leave out.
    ops_.Matmul({.a = left(matrix), .b = negative, .c = error(matrix), .transpose_b = true, .accumulate = true});
  }
  data_.AllReduce(own_.Range(0, compressed.right));
  for (const CompressedMatrix& matrix : compressed.matrices) {
    ops_.Copy(right(matrix), part(own_, matrix));
    ops_.Matmul({.a = left(matrix),
                 .b = right(matrix),
                 .c = gradient.Range(matrix.offset, matrix.count()).Reshaped({matrix.rows, matrix.columns}),
                 .transpose_b = true,
                 .equal_on_ranks = true});
  }
  ops_.set_updating(false);
}

}  // namespace trireme
