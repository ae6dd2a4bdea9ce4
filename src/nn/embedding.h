// Token lookup in a vocabulary cut over the tensor group, learned positions, an optional norm, dropout.
#pragma once

#include "model/parameter_places.h"
#include "nn/module.h"

namespace trireme {

class Embedding : public Module {
 public:
  Embedding(const ModuleContext& context, const LocalSizes& sizes);

  std::int64_t kept_bytes() const override { return plan_.kept_bytes; }
  Tensor Input(char*) const override { return {}; }
  void Forward(const MicroBatch& micro_batch, char* kept, const Tensor& out) override;
  // There is no input to differentiate: all gradients are made here, the result is not given.
  Tensor BackwardInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out,
                       const Tensor& grad_in) override;
  void BackwardWeight(const MicroBatch&, char*) override {}
  Uses uses() const override;

 private:
  Tensor Parameter(int row) { return row < 0 ? Tensor{} : context_.parameters.Get(row); }
  // The rows of the position table, or of its gradient, that stand for positions 0, 1, …
  Tensor Positions(const Tensor& table) const {
    return table.Rows(context_.model.position_offset, context_.model.sequence);
  }
  Tensor OwnPositions(const MicroBatch& micro_batch) const {
    const Tensor& positions = micro_batch.PositionsOrPlaces();
    return positions.given() ? context_.region.OwnRows(positions) : Tensor{};
  }
  std::int64_t first_row() const { return context_.region.group().rank() * sizes_.vocabulary; }

  ModuleContext context_;
  LocalSizes sizes_;
  EmbeddingPlan plan_;
  EmbeddingParameters rows_;
};

}  // namespace trireme
