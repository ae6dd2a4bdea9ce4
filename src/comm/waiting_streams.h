// How many streams of a CUDA context may wait at once where its ranks, threads of one process, wait for each other on
// the GPU. CUDA spreads the streams that have work over 32 queues (CUDA_DEVICE_MAX_CONNECTIONS); behind a stream that
// waits for another rank, others of its queue wait too, the awaited one perhaps among them. 16 waiting streams held up
// none, 24 one of 46 others at most, 30 about half, 32 all (benchmarks/stream_queues.cu, docs/performance.md).
#pragma once

namespace trireme {

// As one rank counts them; ranks that ask for the same get the same answers.
class WaitingStreams {
 public:
  // `ranks` of the context. One alone waits for nobody on its GPU: it may have all that it asks for.
  explicit WaitingStreams(int ranks) : ranks_(ranks) {}

  // Whether messages between so many pairs of neighbours, in every group of so many members, may wait on the GPU as
  // well. If so, they are counted from now on.
  bool Take(int pairs, int members);
  void GiveBack(int pairs, int members);

 private:
  const int ranks_;
  double messages_ = 0;  // streams of messages, a rank's on average
};

}  // namespace trireme
