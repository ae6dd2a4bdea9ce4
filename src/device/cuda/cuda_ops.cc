#include "device/cuda/cuda_ops.h"

#include "base/error.h"
#include "device/cuda/attention.h"
#include "device/cuda/attention_unfused.h"
#include "device/cuda/matmul_cublaslt.h"

namespace trireme {
namespace {

// What no kernel here does; runs that would need it are refused before they start.
void RequireOffered(const AttentionArgs& args) {
  Require(!args.weights.given() || !args.kv.given(),
          "plain attention over keys of other ranks is the CPU's alone; set layout.context_kind = 'ulysses'");
  Require(args.dropout.probability == 0 || args.weights.given(),
          "fused attention on a GPU has no dropout; set train.attention = \"plain\"");
}

}  // namespace

CudaOps::CudaOps(CudaContext& context)
    : context_(context),
      square_tables_(context),
      rotary_tables_(context),
      matmul_(std::make_unique<CublasLtMatmul>(context)),
      attention_(std::make_unique<CudnnAttention>(context)),
      unfused_(std::make_unique<UnfusedAttention>(context)) {}

CudaOps::~CudaOps() = default;

void CudaOps::DoMatmul(const MatmulArgs& args) {
  if (args.c.count() == 0) {
    return;
  }
  if (!matmul_->Run(args)) {
    Require(args.auxiliary.data != args.c.data || !args.auxiliary.given(),
            "Matmul: the auxiliary tensor must not be the result");
    MatmulArgs product = args;
    product.auxiliary = {};
    product.largest = {};
    product.epilogue = Epilogue::kNone;
    if (args.epilogue == Epilogue::kGelu) {
      product.c = args.auxiliary;
      DoMatmul(product);
      Do(ActivationForward<Tensor>{.kind = ActivationKind::kGelu, .from = args.auxiliary, .to = args.c});
      return;
    }
    product.bias = {};
    matmul_->RunPlain(product);
    FinishProduct(context_, args);
  }
}

void CudaOps::DoAttentionForward(const AttentionArgs& args) {
  RequireOffered(args);
  if (args.out.count() == 0) {
    return;
  }
  if (args.weights.given()) {
    unfused_->Forward(args);
  } else if (!attention_->Supports(args) || !attention_->Forward(args)) {
    plain_attention::Forward(context_, args);
  }
}

void CudaOps::DoAttentionBackward(const AttentionArgs& args) {
  RequireOffered(args);
  if (args.out.count() == 0) {
    return;
  }
  if (args.weights.given()) {
    unfused_->Backward(args);
  } else if (!attention_->Supports(args) || !attention_->Backward(args)) {
    plain_attention::Backward(context_, args);
  }
}

}  // namespace trireme
