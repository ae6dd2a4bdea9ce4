// Built in place of attention_cudnn.cc where cuDNN is missing or older than 9.14: the plain kernels do all attention.
#include "device/cuda/attention.h"

namespace trireme {

struct CudnnAttention::Plan {};

CudnnAttention::CudnnAttention(CudaContext& context) : context_(context), new_enough_(false) {}

CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::Supports(const AttentionArgs& /*args*/) const { return new_enough_; }

std::int64_t CudnnAttention::LoadedVersion() { return 0; }

bool CudnnAttention::Forward(const AttentionArgs& /*args*/) { return false; }

bool CudnnAttention::Backward(const AttentionArgs& /*args*/) { return false; }

bool CudnnAttention::ForwardInSegments(const AttentionArgs& /*args*/) { return false; }

bool CudnnAttention::BackwardInSegments(const AttentionArgs& /*args*/) { return false; }

}  // namespace trireme
