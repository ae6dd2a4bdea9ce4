// Messages between two ranks' GPUs over NCCL: which ranks are neighbours, and one direction between two of them.
#pragma once

#include <nccl.h>

#include <utility>
#include <vector>

#include "comm/device_messages.h"
#include "comm/nccl_handle.h"

namespace trireme {

// Neighbours among `size` ranks, each pair once. Pairs that share no rank come one after another.
std::vector<std::pair<int, int>> PairsOf(Neighbours neighbours, int size);

// A communicator of sender and receiver alone.
class NcclWay : public MessageWay {
 public:
  // Collective over the two, which have the same id. Device and session outlive this.
  NcclWay(Device& device, NcclSession& session, const ncclUniqueId& id, bool sends);

  // NCCL connects the two when the first message goes.
  void Move(const Tensor& tensor) override;

 private:
  Device& device_;
  bool sends_;
  NcclHandle handle_;
};

}  // namespace trireme
