#include "ops/embedding.h"

#include "base/error.h"
#include "ops/checks.h"

namespace trireme {
namespace {

struct Rows {
  const Tensor& values;
  const Tensor& table;
  const Tensor& positions;
  std::int64_t first_token = 0;
};

void CheckRows(const char* operation, const Rows& rows) {
  RequireMatrix({operation, "rows", rows.values});
  RequireWorkingType({operation, "rows", rows.values});
  RequireMatrix({operation, "table", rows.table});
  Require(rows.table.shape[1] == rows.values.shape[1] && rows.table.shape[0] > 0 && rows.first_token >= 0,
          "{}: rows of {} cannot take positions from a table of {} rows of {}, first token {}", operation,
          rows.values.shape[1], rows.table.shape[0], rows.table.shape[1], rows.first_token);
  if (rows.positions.given()) {
    RequireVector({operation, "positions", rows.positions}, rows.values.shape[0], DType::kInt32);
  }
}

}  // namespace

void Check(const AddPositions<Tensor>& op) {
  CheckRows("AddPositions", {op.x, op.table, op.positions, op.first_token});
  RequireType({"AddPositions", "table", op.table}, op.x.dtype);
}

void Check(const PositionsBackward<Tensor>& op) {
  CheckRows("PositionsBackward", {op.grad, op.grad_table, op.positions, op.first_token});
  RequireType({"PositionsBackward", "grad_table", op.grad_table}, DType::kFloat32);
}

}  // namespace trireme
