// Causal attention through cuDNN, for bf16 and fp16, with windows, capped scores and documents. Plans are made at the
// first call of a shape (up to a second or two) and kept. A program built without cuDNN has attention_cudnn_absent.cc,
// which supports no arguments; nor does a cuDNN that is older than cudnn_version.h asks for.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "device/attention_blocks.h"
#include "device/cuda/cuda_context.h"
#include "device/ops.h"

struct cudnnContext;  // cuDNN's, whose header only attention_cudnn.cc needs

namespace trireme {

struct AttentionShape;
class CudnnPlan;

class CudnnAttention {
 public:
  // `context` must outlive the object. A handle of the library is opened at the first use.
  explicit CudnnAttention(CudaContext& context);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // Whether these arguments are cuDNN's to do. Statistics are as defined in ops.h whichever kernel made them, so the
  // passes of one attention need not get the same answer.
  bool Supports(const AttentionArgs& args) const;

  // The version of the library that this process found (cudnn_version.h); 0 in a program built without.
  static std::int64_t LoadedVersion();

  // False, with nothing done, when this GPU has no engine for the shape, or one that takes too much memory.
  bool Forward(const AttentionArgs& args);
  bool Backward(const AttentionArgs& args);
  // What these begin with: over segments of documents (attention_segments.h). False, with nothing done, where
  // documents are masked alone.
  bool ForwardInSegments(const AttentionArgs& args);
  bool BackwardInSegments(const AttentionArgs& args);

 private:
  struct Plan;
  struct Pieces;
  using Key = std::array<std::int64_t, 21>;

  // None when this GPU has no engine for the shape, or one that takes too much memory. `beside` is what else Scratch is
  // asked for with the plan's workspace.
  std::optional<CudnnPlan> Build(const AttentionArgs& args, const AttentionShape& shape, bool backward,
                                 std::int64_t beside);
  // Null when there is none.
  Plan* PlanFor(const AttentionArgs& args, const AttentionShape& shape, bool backward, std::int64_t beside);
  // The plans of all blocks; empty when one has none, or where there are no blocks.
  std::vector<Plan*> PlansFor(const AttentionArgs& args, const std::vector<AttentionBlock>& blocks, bool backward);
  void RunForward(Plan& plan, const AttentionArgs& args, const Pieces& pieces, void* workspace);
  void RunBackward(Plan& plan, const AttentionArgs& args, const Pieces& pieces, char* sums, void* workspace);
  // Over blocks of keys of AttentionArgs::kv.
  bool ForwardInBlocks(const AttentionArgs& args);
  bool BackwardInBlocks(const AttentionArgs& args);
  // The most that any of them needs.
  static std::int64_t WorkspaceOf(const std::vector<Plan*>& plans);
  // Copies statistics of the block's queries, out of those of all, to [B, H, queries].
  void CopyStatistics(const AttentionArgs& args, const AttentionBlock& block, float* part);
  cudnnContext* Handle();

  CudaContext& context_;
  const bool new_enough_;
  cudnnContext* handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace trireme
