#include "comm/mpi_transfer.h"

#include <algorithm>
#include <cstring>

namespace trireme {
namespace {

// Calls action(offset, bytes) for each piece; never for nothing.
template <typename Action>
void ForEachPiece(std::int64_t bytes, std::int64_t piece_bytes, const Action& action) {
  for (std::int64_t offset = 0; offset < bytes; offset += piece_bytes) {
    action(offset, static_cast<int>(std::min(piece_bytes, bytes - offset)));
  }
}

int RankIn(MPI_Comm group) {
  int rank = 0;
  CheckMpi(MPI_Comm_rank(group, &rank), "MPI_Comm_rank");
  return rank;
}

int SizeOf(MPI_Comm group) {
  int size = 0;
  CheckMpi(MPI_Comm_size(group, &size), "MPI_Comm_size");
  return size;
}

const char* Offset(const void* data, std::int64_t bytes) { return static_cast<const char*>(data) + bytes; }
char* Offset(void* data, std::int64_t bytes) { return static_cast<char*>(data) + bytes; }

}  // namespace

int HighestTag() {
  int* highest = nullptr;
  int known = 0;
  CheckMpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest, &known), "MPI_Comm_get_attr");
  return known != 0 ? *highest : 32767;  // the least that the standard promises
}

void ExchangeParts(const MpiGroup& group, std::span<const MpiPart> parts, std::int64_t piece_bytes) {
  const int self = RankIn(group.handle);
  const int tag = HighestTag();
  std::vector<MPI_Request> requests;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int peer = static_cast<int>(i);
    if (peer != self) {
      ForEachPiece(parts[i].receive_bytes, piece_bytes, [&](std::int64_t offset, int bytes) {
        requests.emplace_back();
        CheckMpi(
            MPI_Irecv(Offset(parts[i].receive, offset), bytes, MPI_BYTE, peer, tag, group.handle, &requests.back()),
            "MPI_Irecv");
      });
    }
  }
  for (std::size_t step = 1; step < parts.size(); ++step) {
    // Everybody starts with his right neighbour, so that no member is everybody's first target.
    const std::size_t i = (static_cast<std::size_t>(self) + step) % parts.size();
    StartSendBytes({group, static_cast<int>(i), tag}, parts[i].send, parts[i].send_bytes, requests, piece_bytes);
  }
  const MpiPart& own = parts[static_cast<std::size_t>(self)];
  if (own.send != own.receive && own.send_bytes > 0) {
    std::memcpy(own.receive, own.send, static_cast<std::size_t>(own.send_bytes));
  }
  WaitFor(requests, group.yields);
}

void AllGatherBytes(const MpiGroup& group, const void* in, void* out, std::int64_t part_bytes,
                    std::int64_t piece_bytes) {
  const int self = RankIn(group.handle);
  if (part_bytes <= piece_bytes) {
    const int bytes = static_cast<int>(part_bytes);
    const bool in_place = in == Offset(out, self * part_bytes);
    CallCollective(group, "MPI_Allgather", MPI_Allgather, MPI_Iallgather, in_place ? MPI_IN_PLACE : in, bytes, MPI_BYTE,
                   out, bytes, MPI_BYTE);
    return;
  }
  std::vector<MpiPart> parts(static_cast<std::size_t>(SizeOf(group.handle)));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = {in, part_bytes, Offset(out, static_cast<std::int64_t>(i) * part_bytes), part_bytes};
  }
  ExchangeParts(group, parts, piece_bytes);
}

void AllToAllBytes(const MpiGroup& group, const void* in, void* out, std::int64_t part_bytes,
                   std::int64_t piece_bytes) {
  if (part_bytes <= piece_bytes) {
    const int bytes = static_cast<int>(part_bytes);
    CallCollective(group, "MPI_Alltoall", MPI_Alltoall, MPI_Ialltoall, in, bytes, MPI_BYTE, out, bytes, MPI_BYTE);
    return;
  }
  std::vector<MpiPart> parts(static_cast<std::size_t>(SizeOf(group.handle)));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t offset = static_cast<std::int64_t>(i) * part_bytes;
    parts[i] = {Offset(in, offset), part_bytes, Offset(out, offset), part_bytes};
  }
  ExchangeParts(group, parts, piece_bytes);
}

void BroadcastBytes(const MpiGroup& group, void* data, std::int64_t bytes, int root, std::int64_t piece_bytes) {
  ForEachPiece(bytes, piece_bytes, [&](std::int64_t offset, int length) {
    CallCollective(group, "MPI_Bcast", MPI_Bcast, MPI_Ibcast, Offset(data, offset), length, MPI_BYTE, root);
  });
}

void StartSendBytes(const MpiMessage& message, const void* data, std::int64_t bytes, std::vector<MPI_Request>& requests,
                    std::int64_t piece_bytes) {
  ForEachPiece(bytes, piece_bytes, [&](std::int64_t offset, int length) {
    requests.emplace_back();
    CheckMpi(MPI_Isend(Offset(data, offset), length, MPI_BYTE, message.peer, message.tag, message.group.handle,
                       &requests.back()),
             "MPI_Isend");
  });
}

void ReceiveBytes(const MpiMessage& message, void* data, std::int64_t bytes, std::int64_t piece_bytes) {
  const MPI_Comm group = message.group.handle;
  ForEachPiece(bytes, piece_bytes, [&](std::int64_t offset, int length) {
    char* const piece = Offset(data, offset);
    if (!message.group.yields) {
      CheckMpi(MPI_Recv(piece, length, MPI_BYTE, message.peer, message.tag, group, MPI_STATUS_IGNORE), "MPI_Recv");
      return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    CheckMpi(MPI_Irecv(piece, length, MPI_BYTE, message.peer, message.tag, group, &request), "MPI_Irecv");
    WaitFor({&request, 1}, true);
  });
}

}  // namespace trireme
