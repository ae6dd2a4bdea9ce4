// What `trireme model` prints: the programs of a model's modules under a layout, step by step, with the shapes of every
// operand on one rank, FLOPs, and bytes that are touched and sent. It reads what training executes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "lowering/operands.h"
#include "run/run_config.h"

namespace trireme {

struct ListedOperand {
  std::string role;  // "normed"
  std::string of;    // the name of the parameter or of the micro batch's tensor; empty for a buffer
  Owner owner = Owner::kBuffer;
  Access access = Access::kRead;
  DType dtype = DType::kFloat32;
  Shape shape;
};

struct ListedStep {
  std::string name;
  std::vector<ListedOperand> operands;
  bool recomputed = false;
  bool chunked = false;    // runs once per chunk of tokens
  std::int64_t flops = 0;  // of one micro batch on one rank, as all below
  std::int64_t bytes = 0;  // of the operands, twice of those that are updated
  std::int64_t sent = 0;   // by Traffic's bytes, to the tensor and the context group
};

struct ListedPart {
  std::string name;  // "forward", "evaluation", "backward", "backward_weight"
  std::vector<ListedStep> steps;
};

// Modules one after another whose programs are equal.
struct ListedModule {
  std::string kind;  // "embedding", "block", "head"
  std::int64_t first = 0;
  std::int64_t count = 1;
  int stage = 0;
  std::int64_t parameters = 0;  // of one of them on one rank, as all below
  std::int64_t kept_bytes = 0;
  std::int64_t scratch_bytes = 0;
  std::vector<ListedPart> parts;
};

struct ModelListing {
  std::vector<ListedModule> modules;
  // Sums over all modules for one micro batch of training, on the ranks of one pipeline with tensor and context rank 0.
  std::int64_t parameters = 0;
  std::int64_t kept_bytes = 0;
  std::int64_t flops = 0;
  std::int64_t recomputed_flops = 0;
  std::int64_t bytes = 0;
  std::int64_t sent = 0;
};

// Requires Validate(config, 0).
ModelListing ListModel(const RunConfig& config);

std::string ToText(const ModelListing& listing, const RunConfig& config);
nlohmann::json ToJsonValue(const ModelListing& listing, const RunConfig& config);

}  // namespace trireme
