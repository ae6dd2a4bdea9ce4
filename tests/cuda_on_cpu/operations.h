// What has run on the simulated GPU: kernels, copies, products. Each block of a kernel is a run, and every other
// operation is one run. Which operations are ordered is told by clocks: the number of operations of every stream that
// came before.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::cuda_on_cpu {

class Clock {
 public:
  std::uint32_t Of(std::uint32_t stream) const { return stream < counts_.size() ? counts_[stream] : 0; }
  void Set(std::uint32_t stream, std::uint32_t count);
  void Join(const Clock& other);
  std::uint32_t streams() const { return static_cast<std::uint32_t>(counts_.size()); }

 private:
  std::vector<std::uint32_t> counts_;
};

// One of a stream: the `number`-th of it, from 1 on. `clock` has this number too.
struct Operation {
  std::string name;  // empty: that of the kernel
  const void* kernel = nullptr;
  std::uint32_t stream = 0;
  std::uint32_t number = 0;
  Clock clock;
  dim3 blocks;
  // Block i of the order is block (first_block + i * block_step) % count.
  std::uint32_t first_block = 0;
  std::uint32_t block_step = 1;
  std::uint32_t first_run = 0;
};

// Who accesses memory now.
struct Actor {
  std::uint32_t run = 0;
  std::uint32_t first_run = 0;          // of the operation
  std::uint32_t all_ordered_below = 0;  // runs below this are of operations ordered before
  std::uint16_t thread = 0;
  std::uint16_t block_epoch = 0;
  std::uint16_t warp_epoch = 0;
};
extern Actor actor;

// Begins an operation of `runs` runs; its first run is the actor's.
void BeginOperation(Operation operation, std::uint32_t runs);
void NextRun();
const Operation& CurrentOperation();
extern std::uint32_t operations_begun;
inline std::uint32_t CurrentOperationIndex() { return operations_begun; }
// Whether the operation of an earlier run is ordered before the current one.
bool IsOrdered(std::uint32_t run);
// "NormForwardKernel<float, 1>, block (2, 0, 0), thread (31, 0, 0)".
std::string Describe(std::uint32_t run, std::uint32_t thread);
dim3 BlockOf(const Operation& operation, std::uint32_t index);

// A stream's place in clocks. A stream that ends gives its place to another, whose operations count on.
std::uint32_t TakeStreamPlace();
void GiveBackStreamPlace(std::uint32_t place);
std::uint32_t NextNumber(std::uint32_t stream);

}  // namespace trireme::cuda_on_cpu
