// How members find out that they called different things: used by every communicator before data moves.
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.h"

namespace trireme {

// What Split and the end of a rank's work stand for among the calls that are compared; neither is traffic.
CollectiveCall SplitCall();
CollectiveCall EndCall();

// Equal calls have equal fingerprints; different ones differ but for one chance in 2^64.
std::uint64_t Fingerprint(const CollectiveCall& call);

// A member's call under its number in the world.
struct RankCall {
  int world_rank = 0;
  CollectiveCall call;
};
// "group 'data': rank 0 called barrier, but rank 2 called all_reduce of 8 fp32 (sum)"
std::string MismatchMessage(const std::string& group, const RankCall& one, const RankCall& other);

// What a receiver says when a message is not what it asked for; ranks are the world's.
struct MessageMismatch {
  std::string group;
  int sender = 0;
  int receiver = 0;
  int tag = 0;
  DType sent_dtype = DType::kFloat32;
  std::int64_t sent_count = 0;
  DType wanted_dtype = DType::kFloat32;
  std::int64_t wanted_count = 0;
};
// Throws unless what was sent is what is wanted.
void CheckMessage(const MessageMismatch& message);

}  // namespace trireme
