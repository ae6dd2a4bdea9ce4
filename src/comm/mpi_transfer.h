// Bytes over MPI without its limit of 2^31 elements a call: larger parts travel in pieces.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

#include "comm/mpi_wait.h"

namespace trireme {

// At most what an int counts; tests pass less.
inline constexpr std::int64_t kPieceBytes = std::int64_t{1} << 30;

// What goes to and comes from one member.
struct MpiPart {
  const void* send = nullptr;
  std::int64_t send_bytes = 0;
  void* receive = nullptr;
  std::int64_t receive_bytes = 0;
};

// Exchanges parts[r] with every member r at once, oneself included (a copy, or nothing when both are the same memory).
// Sizes must agree pairwise. Travels under the highest tag, which must be left to it.
void ExchangeParts(const MpiGroup& group, std::span<const MpiPart> parts, std::int64_t piece_bytes = kPieceBytes);

// As the collectives of the same name; part_bytes is what each member contributes (to each other, for all-to-all). For
// all-gather `in` may be this member's part of `out`.
void AllGatherBytes(const MpiGroup& group, const void* in, void* out, std::int64_t part_bytes,
                    std::int64_t piece_bytes = kPieceBytes);
void AllToAllBytes(const MpiGroup& group, const void* in, void* out, std::int64_t part_bytes,
                   std::int64_t piece_bytes = kPieceBytes);
void BroadcastBytes(const MpiGroup& group, void* data, std::int64_t bytes, int root,
                    std::int64_t piece_bytes = kPieceBytes);

// One message, cut the same way on both sides.
struct MpiMessage {
  MpiGroup group;
  int peer = 0;
  int tag = 0;
};
// Starts sending; `data` must stay until the requests, which are added to `requests`, are done.
void StartSendBytes(const MpiMessage& message, const void* data, std::int64_t bytes, std::vector<MPI_Request>& requests,
                    std::int64_t piece_bytes = kPieceBytes);
void ReceiveBytes(const MpiMessage& message, void* data, std::int64_t bytes, std::int64_t piece_bytes = kPieceBytes);

// The highest tag that MPI allows.
int HighestTag();

}  // namespace trireme
