#include "comm/waiting_streams.h"

namespace trireme {
namespace {

// Between 24, behind which next to none was held up, and 30. Pipeline 4 of 4 ranks has so many at most, and trains.
constexpr double kMost = 26;
// A rank's own, and the one that NCCL lets wait behind a communicator's collective. Not counted: those of further
// groups whose collectives are enqueued at the same time, and copies to and from host memory.
constexpr double kOfRank = 2;
// There and back: to send, the message's and NCCL's; to receive, NCCL's.
constexpr double kOfPair = 2 * (2 + 1);

double OfMessages(int pairs, int members) { return kOfPair * pairs / members; }

}  // namespace

bool WaitingStreams::Take(int pairs, int members) {
  if (ranks_ > 1 && ranks_ * (kOfRank + messages_ + OfMessages(pairs, members)) > kMost) {
    return false;
  }
  messages_ += OfMessages(pairs, members);
  return true;
}

void WaitingStreams::GiveBack(int pairs, int members) { messages_ -= OfMessages(pairs, members); }

}  // namespace trireme
