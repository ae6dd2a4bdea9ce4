// Counts the streams that may wait on a GPU which thread ranks share over NCCL. CUDA maps the busy streams of a context
// to 32 hardware queues (CUDA_DEVICE_MAX_CONNECTIONS). A stream that waits for another rank blocks the streams behind
// it in its queue. If one of those is the stream it waits for, the ranks deadlock. Measured with 32 queues and kernels:
// 26 waiting streams block no other, 28 one of ten, 30 about half, 32 all. With copies to the host behind them 16 block
// a third, 8 none (docs/evidence/shared_gpu.md): without offload only a rank's compute stream has such copies, and at
// most 8 ranks share a GPU.
#pragma once

namespace trireme {

// The count of one rank. Ranks that make the same calls get the same answers.
class WaitingStreams {
 public:
  // `ranks` share the CUDA context. For one rank Take() always succeeds.
  explicit WaitingStreams(int ranks) : ranks_(ranks) {}

  // Returns whether queues suffice for messages over NCCL between `pairs` pairs of neighbours in each group of
  // `members` ranks, and counts their streams if so.
  bool Take(int pairs, int members);
  // Uncounts what Take() counted.
  void GiveBack(int pairs, int members);

 private:
  const int ranks_;
  double messages_ = 0;  // streams of messages per rank, on average
};

}  // namespace trireme
