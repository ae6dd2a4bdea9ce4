#include "comm/mpi_communicator.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

#include "base/error.h"
#include "comm/call_check.h"
#include "comm/member_reduce.h"
#include "comm/mpi_transfer.h"

namespace trireme {
namespace {

// Up to here a group's whole input is gathered everywhere: one exchange rather than two.
constexpr std::int64_t kGatherBytes = 4096;
// Sums are taken block by block, which bounds scratch memory and keeps MPI's counts within an int.
constexpr std::int64_t kBlockBytes = std::int64_t{16} << 20;

constexpr std::size_t kCallFields = 6;
using CallFields = std::array<std::int64_t, kCallFields>;

CallFields Pack(const CollectiveCall& call) {
  return {static_cast<std::int64_t>(call.kind),
          static_cast<std::int64_t>(call.dtype),
          static_cast<std::int64_t>(call.op),
          call.count,
          std::int64_t{call.peer},
          std::int64_t{call.tag}};
}

CollectiveCall Unpack(const CallFields& fields) {
  return {.kind = static_cast<CollectiveKind>(fields[0]),
          .dtype = static_cast<DType>(fields[1]),
          .op = static_cast<ReduceOp>(fields[2]),
          .count = fields[3],
          .peer = static_cast<int>(fields[4]),
          .tag = static_cast<int>(fields[5])};
}

// What goes ahead of a message's bytes.
struct MessageHeader {
  std::int64_t dtype = 0;
  std::int64_t count = 0;
};

MPI_Comm DuplicateWorld() {
  MPI_Comm group = MPI_COMM_NULL;
  CheckMpi(MPI_Comm_dup(MPI_COMM_WORLD, &group), "MPI_Comm_dup");
  return group;
}

}  // namespace

MpiCommunicator::MpiCommunicator(MpiSession& session, Device& device, std::string name)
    : MpiCommunicator(session, DuplicateWorld(), device, std::move(name)) {}

MpiCommunicator::MpiCommunicator(MpiSession& session, MPI_Comm group, Device& device, std::string name)
    : Communicator(std::move(name)), session_(session), group_(group), device_(device) {
  CheckMpi(MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  CheckMpi(MPI_Comm_rank(group_, &rank_), "MPI_Comm_rank");
  CheckMpi(MPI_Comm_size(group_, &size_), "MPI_Comm_size");
}

MpiCommunicator::~MpiCommunicator() {
  // Freeing is collective: a rank that unwinds must not wait for others, and its process is about to end.
  if (std::uncaught_exceptions() == 0) {
    MPI_Comm_free(&group_);
  }
}

void MpiCommunicator::Abort(const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "rank %d: %s\n", session_.world_rank(), message.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::_Exit(1);
}

void MpiCommunicator::End() { CheckCalls(EndCall()); }

void MpiCommunicator::CheckCalls(const CollectiveCall& call) const {
  const std::uint64_t fingerprint = Fingerprint(call);
  // The least of h and of ~h over all members: complements of each other only if every h is the same.
  const std::array<std::uint64_t, 2> mine = {fingerprint, ~fingerprint};
  std::array<std::uint64_t, 2> least{};
  CallCollective(group(), "MPI_Allreduce", MPI_Allreduce, MPI_Iallreduce, mine.data(), least.data(), 2, MPI_UINT64_T,
                 MPI_MIN);
  if (least[0] == ~least[1]) {
    return;
  }
  const CallFields fields = Pack(call);
  std::vector<CallFields> all(static_cast<std::size_t>(size_));
  AllGatherBytes(group(), fields.data(), all.data(), sizeof(CallFields));
  const auto other = std::find_if(all.begin(), all.end(), [&](const CallFields& one) { return one != all.front(); });
  throw Error(MismatchMessage(name(), {WorldRank(0), Unpack(all.front())},
                              {WorldRank(static_cast<int>(other - all.begin())), Unpack(*other)}));
}

int MpiCommunicator::WorldRank(int member) const {
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Group everybody = MPI_GROUP_NULL;
  int world_rank = 0;
  CheckMpi(MPI_Comm_group(group_, &members), "MPI_Comm_group");
  CheckMpi(MPI_Comm_group(MPI_COMM_WORLD, &everybody), "MPI_Comm_group");
  CheckMpi(MPI_Group_translate_ranks(members, 1, &member, everybody, &world_rank), "MPI_Group_translate_ranks");
  MPI_Group_free(&members);
  MPI_Group_free(&everybody);
  return world_rank;
}

char* MpiCommunicator::Scratch(std::int64_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_ = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(bytes));
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

std::unique_ptr<Communicator> MpiCommunicator::DoSplit(const std::string& name, int color, int key) {
  CheckCalls(SplitCall());
  MPI_Comm child = MPI_COMM_NULL;
  CheckMpi(MPI_Comm_split(group_, color, key, &child), "MPI_Comm_split");
  return std::make_unique<MpiCommunicator>(session_, child, device_, name);
}

void MpiCommunicator::ReduceSmall(const Tensor& in_place, ReduceOp op) {
  char* const all = Scratch(in_place.bytes() * size_);
  AllGatherBytes(group(), in_place.data, all, in_place.bytes());
  std::vector<const void*> sources;
  for (int member = 0; member < size_; ++member) {
    sources.push_back(all + member * in_place.bytes());
  }
  ReduceMembers(session_.host(), in_place, sources, op);
}

void MpiCommunicator::ReduceBlock(const Tensor& in_place, ReduceOp op) {
  const std::int64_t count = in_place.count();
  const std::int64_t chunk = CeilDiv(count, size_);
  const auto chunk_of = [&](int member) {
    const std::int64_t first = std::min(count, member * chunk);
    return in_place.Range(first, std::min(chunk, count - first));
  };
  const Tensor own = chunk_of(rank_);
  char* const received = Scratch(std::max<std::int64_t>(own.bytes(), 1) * size_);
  std::vector<MpiPart> parts;
  std::vector<const void*> sources;
  std::vector<int> bytes;
  std::vector<int> offsets;
  for (int member = 0; member < size_; ++member) {
    const Tensor theirs = chunk_of(member);
    void* const place = member == rank_ ? own.data : received + member * own.bytes();
    parts.push_back({theirs.data, theirs.bytes(), place, own.bytes()});
    sources.push_back(place);
    bytes.push_back(static_cast<int>(theirs.bytes()));
    offsets.push_back(static_cast<int>(theirs.as<char>() - in_place.as<char>()));
  }
  ExchangeParts(group(), parts);
  ReduceMembers(session_.host(), own, sources, op);
  CallCollective(group(), "MPI_Allgatherv", MPI_Allgatherv, MPI_Iallgatherv, MPI_IN_PLACE, 0, MPI_BYTE, in_place.data,
                 bytes.data(), offsets.data(), MPI_BYTE);
}

void MpiCommunicator::Do(const CollectiveCall& call, const Tensor& in, const Tensor& out) {
  if (call.kind == CollectiveKind::kSend) {
    return StartSend(call, in);
  }
  if (call.kind == CollectiveKind::kReceive) {
    return TakeMessage(call, out);
  }
  CheckCalls(call);
  StageOnHost(device_, in, out, [&](const Tensor& from, const Tensor& to) { DoOnHost(call, from, to); });
}

std::shared_ptr<const std::string> MpiCommunicator::DoShareBytes(const CollectiveCall& call,
                                                                 std::shared_ptr<const std::string> bytes) {
  CheckCalls(call);
  auto size = static_cast<std::int64_t>(bytes->size());
  BroadcastBytes(group(), &size, sizeof size, call.peer);
  std::string shared = call.peer == rank_ ? *bytes : std::string(static_cast<std::size_t>(size), '\0');
  BroadcastBytes(group(), shared.data(), size, call.peer);
  return std::make_shared<const std::string>(std::move(shared));
}

std::vector<std::string> MpiCommunicator::DoCollectBytes(const CollectiveCall& call, std::string bytes) {
  CheckCalls(call);
  const bool root = call.peer == rank_;
  const auto mine = static_cast<int>(bytes.size());
  std::vector<int> sizes(root ? static_cast<std::size_t>(size_) : 0);
  CallCollective(group(), "MPI_Gather", MPI_Gather, MPI_Igather, &mine, 1, MPI_INT, sizes.data(), 1, MPI_INT,
                 call.peer);
  std::vector<int> offsets(sizes.size());
  std::int64_t whole = 0;
  for (std::size_t member = 0; member < sizes.size(); ++member) {
    offsets[member] = static_cast<int>(whole);
    whole += sizes[member];
    Require(whole <= INT32_MAX, "{} bytes of {} ranks are more than MPI takes together", whole, size_);
  }
  std::string all(static_cast<std::size_t>(whole), '\0');
  CallCollective(group(), "MPI_Gatherv", MPI_Gatherv, MPI_Igatherv, bytes.data(), mine, MPI_BYTE, all.data(),
                 sizes.data(), offsets.data(), MPI_BYTE, call.peer);
  std::vector<std::string> collected;
  for (std::size_t member = 0; member < sizes.size(); ++member) {
    collected.push_back(all.substr(static_cast<std::size_t>(offsets[member]), static_cast<std::size_t>(sizes[member])));
  }
  return collected;
}

void MpiCommunicator::DoOnHost(const CollectiveCall& call, const Tensor& in, const Tensor& out) {
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return AllReduceOnHost(out, call.op);
    case CollectiveKind::kAllGather:
      return AllGatherBytes(group(), in.data, out.data, in.bytes());
    case CollectiveKind::kReduceScatter:
      return ReduceScatterOnHost(in, out);
    case CollectiveKind::kAllToAll:
      return AllToAllBytes(group(), in.data, out.data, in.bytes() / size_);
    case CollectiveKind::kBroadcast:
      return BroadcastBytes(group(), out.data, out.bytes(), call.peer);
    case CollectiveKind::kSend:
    case CollectiveKind::kReceive:
    case CollectiveKind::kBarrier:
      return;
  }
}

void MpiCommunicator::AllReduceOnHost(const Tensor& in_place, ReduceOp op) {
  if (in_place.bytes() <= kGatherBytes) {
    return ReduceSmall(in_place, op);
  }
  const std::int64_t block = kBlockBytes / SizeOf(in_place.dtype);
  for (std::int64_t first = 0; first < in_place.count(); first += block) {
    ReduceBlock(in_place.Range(first, std::min(block, in_place.count() - first)), op);
  }
}

void MpiCommunicator::ReduceScatterOnHost(const Tensor& in, const Tensor& out) {
  const std::int64_t part = out.count();
  const std::int64_t block = std::max<std::int64_t>(1, kBlockBytes / SizeOf(in.dtype) / size_);
  for (std::int64_t first = 0; first < part; first += block) {
    const Tensor sum = out.Range(first, std::min(block, part - first));
    char* const received = Scratch(sum.bytes() * size_);
    std::vector<MpiPart> parts;
    std::vector<const void*> sources;
    for (int member = 0; member < size_; ++member) {
      char* const place = received + member * sum.bytes();
      parts.push_back({in.Range(member * part + first, sum.count()).data, sum.bytes(), place, sum.bytes()});
      sources.push_back(place);
    }
    ExchangeParts(group(), parts);
    ReduceMembers(session_.host(), sum, sources, ReduceOp::kSum);
  }
}

void MpiCommunicator::StartSend(const CollectiveCall& call, const Tensor& message) {
  Require(call.tag < HighestTag(), "send in group '{}': tag {} is above {}", name(), call.tag, HighestTag() - 1);
  const MessageHeader header = {static_cast<std::int64_t>(message.dtype), message.count()};
  auto bytes = std::make_unique_for_overwrite<char[]>(sizeof(header) + static_cast<std::size_t>(message.bytes()));
  std::memcpy(bytes.get(), &header, sizeof(header));
  if (message.count() > 0) {
    device_.CopyToHost(bytes.get() + sizeof(header), message.data, message.bytes());
  }
  std::vector<MPI_Request> requests;
  const MpiMessage address = {group(), call.peer, call.tag};
  StartSendBytes(address, bytes.get(), sizeof(header), requests);
  StartSendBytes(address, bytes.get() + sizeof(header), message.bytes(), requests);
  session_.KeepUntilSent(std::move(bytes), std::move(requests));
}

void MpiCommunicator::TakeMessage(const CollectiveCall& call, const Tensor& message) {
  const MpiMessage address = {group(), call.peer, call.tag};
  MessageHeader header;
  ReceiveBytes(address, &header, sizeof(header));
  if (header.dtype != static_cast<std::int64_t>(message.dtype) || header.count != message.count()) {
    CheckMessage({.group = name(),
                  .sender = WorldRank(call.peer),
                  .receiver = session_.world_rank(),
                  .tag = call.tag,
                  .sent_dtype = static_cast<DType>(header.dtype),
                  .sent_count = header.count,
                  .wanted_dtype = message.dtype,
                  .wanted_count = message.count()});
  }
  StageOnHost(device_, {}, message,
              [&](const Tensor& /*in*/, const Tensor& out) { ReceiveBytes(address, out.data, out.bytes()); });
}

}  // namespace trireme
