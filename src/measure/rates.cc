#include "measure/rates.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device/best_seconds.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 5;
constexpr double kLeastSeconds = 0.05;  // in all, so that a short product is repeated often enough

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A matrix of ones on a device, for the time of this object.
class Matrix {
 public:
  Matrix(Device& device, DType dtype, std::int64_t rows, std::int64_t columns)
      : device_(device), tensor_{device.Allocate(rows * columns * SizeOf(dtype)), dtype, {rows, columns}} {
    const std::vector<float> ones(static_cast<std::size_t>(rows * columns), 1.0F);
    if (dtype == DType::kFloat32) {
      device_.CopyFromHost(tensor_.data, ones.data(), tensor_.bytes());
    } else {
      const std::vector<BFloat16> narrow(ones.begin(), ones.end());
      device_.CopyFromHost(tensor_.data, narrow.data(), tensor_.bytes());
    }
  }
  ~Matrix() { device_.Free(tensor_.data); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  const Tensor& tensor() const { return tensor_; }

 private:
  Device& device_;
  Tensor tensor_;
};

}  // namespace

double MeasureProduct(Device& device, ProductShape shape, DType dtype) {
  Require(shape.m > 0 && shape.n > 0 && shape.k > 0, "cannot measure a product of {} x {} x {}", shape.m, shape.n,
          shape.k);
  Require(dtype == DType::kFloat32 || dtype == DType::kBFloat16, "cannot measure a product of {}", Name(dtype));
  const Matrix a(device, dtype, shape.m, shape.k);
  const Matrix b(device, dtype, shape.k, shape.n);
  const Matrix c(device, dtype, shape.m, shape.n);
  const double flops = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  return flops / BestSeconds(device, {.least = kRepeats, .seconds = kLeastSeconds},
                             [&] { device.ops().Matmul({.a = a.tensor(), .b = b.tensor(), .c = c.tensor()}); });
}

CopyRate MeasureCopy(std::int64_t bytes, int threads) {
  Require(bytes > 0 && threads > 0, "cannot measure copies of {} bytes by {} threads", bytes, threads);
  double best = 0;
  Clock::time_point start;
  int round = 0;
  // The last to finish a round takes its time and starts the next one.
  std::barrier meeting(threads, [&]() noexcept {
    if (round > 1) {  // round 1 touches the memory
      const double seconds = SecondsSince(start);
      best = best == 0 ? seconds : std::min(best, seconds);
    }
    ++round;
    start = Clock::now();
  });
  {
    std::vector<std::jthread> copiers;
    for (int thread = 0; thread < threads; ++thread) {
      copiers.emplace_back([&] {
        const std::vector<char> from(static_cast<std::size_t>(bytes), 1);
        std::vector<char> to(static_cast<std::size_t>(bytes));
        for (int repeat = 0; repeat < kRepeats + 2; ++repeat) {
          meeting.arrive_and_wait();
          std::memcpy(to.data(), from.data(), from.size());
        }
        meeting.arrive_and_wait();
      });
    }
  }
  return {.bytes = bytes,
          .threads = threads,
          .gigabytes_per_second = 2e-9 * static_cast<double>(bytes) * threads / std::max(best, 1e-9)};
}

}  // namespace trireme
