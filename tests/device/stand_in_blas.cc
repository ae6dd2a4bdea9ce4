// What Trireme asks of OpenBLAS and of BLIS, with loops instead of kernels: tests/device/blas_engine_test.cc finds it
// as libopenblas.so.0 and libblis.so.4, whatever this machine has.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

int threads_of_a_call = 0;
bool wide_extents = false;

}  // namespace

extern "C" {

void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a,
                 int a_stride, const float* b, int b_stride, float beta, float* c, int c_stride) {
  constexpr int kRowMajor = 101;
  constexpr int kTransposed = 112;
  std::vector<double> sums(static_cast<std::size_t>(n));
  for (std::ptrdiff_t i = 0; i < m && order == kRowMajor; ++i) {
    sums.assign(sums.size(), 0);
    for (std::ptrdiff_t d = 0; d < k; ++d) {
      const double left = transpose_a == kTransposed ? a[d * a_stride + i] : a[i * a_stride + d];
      for (std::ptrdiff_t j = 0; j < n; ++j) {
        const double right = transpose_b == kTransposed ? b[j * b_stride + d] : b[d * b_stride + j];
        sums[static_cast<std::size_t>(j)] += left * right;
      }
    }
    for (std::ptrdiff_t j = 0; j < n; ++j) {
      // c is not read where beta is 0, as of any BLAS: it may hold NaN.
      const double before = beta == 0 ? 0 : static_cast<double>(beta) * static_cast<double>(c[i * c_stride + j]);
      c[i * c_stride + j] = static_cast<float>(static_cast<double>(alpha) * sums[static_cast<std::size_t>(j)] + before);
    }
  }
}

void openblas_set_num_threads(int threads) { threads_of_a_call = threads; }
const char* openblas_get_config() {
  return wide_extents ? "OpenBLAS 0.3.99 USE64BITINT DYNAMIC_ARCH" : "OpenBLAS 0.3.99 DYNAMIC_ARCH MAX_THREADS=64";
}

void bli_thread_set_num_threads(std::int64_t threads) { threads_of_a_call = static_cast<int>(threads); }
const char* bli_info_get_version_str() { return "0.9.99"; }
std::int64_t bli_info_get_blas_int_type_size() { return wide_extents ? 64 : 32; }

// Functions for the test.
int stand_in_threads() { return threads_of_a_call; }
void stand_in_set_wide_extents(bool wide) { wide_extents = wide; }
}
