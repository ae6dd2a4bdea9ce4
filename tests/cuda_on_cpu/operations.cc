#include "cuda_on_cpu/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cuda_on_cpu/executor.h"
#include "cuda_on_cpu/symbols.h"

namespace trireme::cuda_on_cpu {

Actor actor;
std::uint32_t operations_begun = 0;

namespace {

struct History {
  std::vector<Operation> operations;
  std::uint32_t runs = 0;  // so far
  // For each stream, by number: the first run of its operations that have begun.
  std::vector<std::vector<std::uint32_t>> first_runs;
  std::vector<std::uint32_t> numbers;  // given out so far, by stream
  std::vector<std::uint32_t> spare_places;
};

History& Past() {
  static History history;
  return history;
}

const Operation& OperationOf(std::uint32_t run) {
  const auto& operations = Past().operations;
  return *std::prev(std::ranges::upper_bound(operations, run, {}, &Operation::first_run));
}

}  // namespace

void Clock::Set(std::uint32_t stream, std::uint32_t count) {
  if (stream >= counts_.size()) {
    counts_.resize(stream + 1);
  }
  counts_[stream] = count;
}

void Clock::Join(const Clock& other) {
  counts_.resize(std::max(counts_.size(), other.counts_.size()));
  for (std::size_t i = 0; i < other.counts_.size(); ++i) {
    counts_[i] = std::max(counts_[i], other.counts_[i]);
  }
}

void BeginOperation(Operation operation, std::uint32_t runs) {
  History& past = Past();
  operation.first_run = past.runs + 1;
  past.runs += runs;
  actor = {.run = operation.first_run, .first_run = operation.first_run, .all_ordered_below = operation.first_run};
  for (std::uint32_t stream = 0; stream < past.first_runs.size(); ++stream) {
    const auto& begun = past.first_runs[stream];
    const std::uint32_t known = operation.clock.Of(stream);
    if (stream != operation.stream && known < begun.size()) {
      actor.all_ordered_below = std::min(actor.all_ordered_below, begun[known]);
    }
  }
  past.first_runs.resize(std::max<std::size_t>(past.first_runs.size(), operation.stream + 1));
  auto& own = past.first_runs[operation.stream];
  own.resize(operation.number, operation.first_run);
  past.operations.push_back(std::move(operation));
  ++operations_begun;
}

void NextRun() { ++actor.run; }

const Operation& CurrentOperation() { return Past().operations.back(); }

bool IsOrdered(std::uint32_t run) {
  if (run < actor.all_ordered_below) {
    return true;
  }
  const Operation& other = OperationOf(run);
  return CurrentOperation().clock.Of(other.stream) >= other.number;
}

dim3 BlockOf(const Operation& operation, std::uint32_t index) {
  const std::uint64_t count = std::uint64_t{operation.blocks.x} * operation.blocks.y * operation.blocks.z;
  const auto block =
      static_cast<std::uint32_t>((operation.first_block + std::uint64_t{index} * operation.block_step) % count);
  return {block % operation.blocks.x, block / operation.blocks.x % operation.blocks.y,
          block / operation.blocks.x / operation.blocks.y};
}

std::string Describe(std::uint32_t run, std::uint32_t thread) {
  const Operation& operation = OperationOf(run);
  if (operation.kernel == nullptr) {
    return operation.name;
  }
  const dim3 block = BlockOf(operation, run - operation.first_run);
  return fmt::format("{}, block ({}, {}, {}), thread {}",
                     FunctionName(reinterpret_cast<std::uintptr_t>(operation.kernel)), block.x, block.y, block.z,
                     thread);
}

std::uint32_t TakeStreamPlace() {
  History& past = Past();
  if (past.spare_places.empty()) {
    past.numbers.push_back(0);
    return static_cast<std::uint32_t>(past.numbers.size() - 1);
  }
  const std::uint32_t place = past.spare_places.back();
  past.spare_places.pop_back();
  return place;
}

void GiveBackStreamPlace(std::uint32_t place) { Past().spare_places.push_back(place); }

std::uint32_t NextNumber(std::uint32_t stream) { return ++Past().numbers[stream]; }

}  // namespace trireme::cuda_on_cpu
