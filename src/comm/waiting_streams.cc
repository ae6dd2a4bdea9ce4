#include "comm/waiting_streams.h"

namespace trireme {
namespace {

// The most that blocked no other stream. Pipeline 4 on 4 ranks needs so many, and trains.
constexpr double kMost = 26;
// Per rank: the compute stream, and the internal stream on which NCCL waits for a collective. Not counted: internal
// streams of further groups with collectives in flight, and the streams of offload.
constexpr double kPerRank = 2;
// Per pair, both directions: the sender's message stream and NCCL's internal one, the receiver's internal one.
constexpr double kPerPair = 2 * (2 + 1);

double OfMessages(int pairs, int members) { return kPerPair * pairs / members; }

}  // namespace

bool WaitingStreams::Take(int pairs, int members) {
  if (ranks_ > 1 && ranks_ * (kPerRank + messages_ + OfMessages(pairs, members)) > kMost) {
    return false;
  }
  messages_ += OfMessages(pairs, members);
  return true;
}

void WaitingStreams::GiveBack(int pairs, int members) { messages_ -= OfMessages(pairs, members); }

}  // namespace trireme
