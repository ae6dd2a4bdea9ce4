// What an optimizer keeps for each parameter and exchanges between ranks, as plain data: memory, traffic and FLOPs
// follow from it, and optim/ executes it.
//
//   rule        state of an element            what ZeRO may shard    exchanged each step
//   adamw       first and second moment        all of it              nothing
//   lion, sgd   first moment (sgd: with momentum)  all of it          nothing
//   muon        first moment                   all of it              whole matrices, to their owner and back
//   adafactor   vectors: second moment         that of vectors        sums of rows, of columns and of squares
//               matrices: one number per row and per column, which every rank holds
//
// Muon's update of a matrix is a function of the whole matrix: one rank owns it, receives its pieces, computes the
// update and sends the pieces back. Matrices of some consecutive buckets make a round: at least as many as there are
// ranks of a stage, spread over them by FLOPs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/accounting.h"
#include "base/dtype.h"
#include "cost/shard_plan.h"
#include "run/run_config.h"

namespace trireme {

// How one parameter is updated.
struct RowUpdate {
  OptimizerKind rule = OptimizerKind::kAdamW;
  double rate = 1;  // of the learning rate
  double weight_decay = 0;
  bool first_moment = true;
  bool second_moment = true;
  bool factored = false;  // Adafactor: moments of rows and columns
};

// A matrix that Muon updates. Offsets and counts are elements.
struct OwnedMatrix {
  int row = 0;     // of the ParameterTable
  int bucket = 0;  // of the ShardPlan
  std::int64_t offset = 0;
  std::int64_t count = 0;  // of a tensor rank's slice
  std::int64_t rows = 0;   // whole
  std::int64_t columns = 0;
  bool cut = false;      // over tensor ranks; otherwise each of them computes the whole
  int data_owner = 0;    // coordinates of the owner
  int tensor_owner = 0;  // where cut
  int round = 0;
  std::int64_t tensor_offset = 0;  // within the part that goes to the tensor owner
};

struct MatrixPlan {
  std::vector<OwnedMatrix> matrices;  // by round
  int rounds = 0;
  // Elements that a data rank sends to each other one in a round; 0 where nothing is gathered.
  std::vector<std::int64_t> data_parts;
  // Parts exchanged among tensor ranks, by round and data rank.
  std::vector<std::vector<std::int64_t>> tensor_parts;
  DType dtype = DType::kFloat32;  // of the iterations' operands
  int iterations = 5;
  std::int64_t workspace = 0;       // bytes: of the largest matrix's iterations
  std::int64_t largest_matrix = 0;  // elements

  std::int64_t LargestDataPart() const;
  std::int64_t LargestTensorPart() const;
};

// The part of a matrix's slice that data rank `data` owns: [first, last) of the bucket; empty where first >= last.
OwnedRange PartOf(const OwnedMatrix& matrix, const Bucket& bucket, int data);
// FLOPs of Muon's iterations on one matrix, and the bytes that they need besides its gradient.
std::int64_t NewtonSchulzFlops(std::int64_t rows, std::int64_t columns, int iterations);
std::int64_t NewtonSchulzBytes(std::int64_t rows, std::int64_t columns, DType dtype);

// Offsets of a bucket's moments of one kind within the memory of the rank that owns [owned.first, owned.last).
struct MomentLayout {
  std::int64_t count = 0;             // elements to allocate, equal on all data ranks
  std::vector<std::int64_t> offsets;  // by entry: of its first owned element; -1 where it has no such moment
};

struct OptimizerPlan {
  OptimizerPlan() = default;  // AdamW of every parameter
  // A plan for a stage's buckets; the table's rows are those that their entries name.
  OptimizerPlan(const OptimizerConfig& config, DType working, const ParameterTable& table, const ShardPlan& shards,
                const ParallelLayout& layout);

  RowUpdate Of(int row) const { return rows.empty() ? RowUpdate{} : rows[static_cast<std::size_t>(row)]; }
  MomentLayout Moments(const Bucket& bucket, bool second, int zero, const OwnedRange& owned) const;
  // Bytes besides moments and masters: Muon's messages and workspace, Adafactor's factors.
  std::int64_t ExtraBytes(const ParallelLayout& layout) const;
  void AddTraffic(const ParallelLayout& layout, int data_rank, Traffic& tensor, Traffic& data) const;
  // FLOPs of one rank's update.
  std::int64_t Flops(int data_rank, int tensor_rank) const;

  std::vector<RowUpdate> rows;  // by row of the table; empty: AdamW of all
  MatrixPlan matrices;          // Muon's
  // Adafactor's, of the stage.
  std::int64_t factor_count = 0;     // rows and columns
  std::int64_t work_count = 0;       // the same, padding of a slice included: exchanged each step
  std::int64_t parameter_count = 0;  // parameters
};

// By row of the table.
std::vector<RowUpdate> UpdatesOf(const OptimizerConfig& config, const ParameterTable& table);

}  // namespace trireme
