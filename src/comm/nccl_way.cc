#include "comm/nccl_way.h"

#include <cuda_runtime.h>

namespace trireme {

std::vector<std::pair<int, int>> PairsOf(Neighbours neighbours, int size) {
  const int last = neighbours == Neighbours::kRing && size > 2 ? size : size - 1;
  std::vector<std::pair<int, int>> pairs;
  for (const int first : {0, 1}) {
    for (int rank = first; rank < last; rank += 2) {
      pairs.emplace_back(rank, (rank + 1) % size);
    }
  }
  return pairs;
}

NcclWay::NcclWay(Device& device, NcclSession& session, const ncclUniqueId& id, bool sends)
    : device_(device), sends_(sends), handle_(session, 2, sends ? 0 : 1, id) {}

void NcclWay::Move(const Tensor& tensor) {
  const auto stream = static_cast<cudaStream_t>(device_.native_stream());
  const auto count = static_cast<std::size_t>(tensor.count());
  handle_.Run(sends_ ? "ncclSend" : "ncclRecv", [&](ncclComm_t handle) {
    return sends_ ? ncclSend(tensor.data, count, NcclTypeOf(tensor.dtype), 1, handle, stream)
                  : ncclRecv(tensor.data, count, NcclTypeOf(tensor.dtype), 0, handle, stream);
  });
}

}  // namespace trireme
