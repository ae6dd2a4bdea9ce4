#include "comm/group_cases.h"

#include "base/error.h"
#include "comm/device_array.h"

namespace trireme {
namespace {

void RequireIs(float actual, float expected, const char* what) {
  Require(actual == expected, "{} is {}, not {}", what, actual, expected);
}

float SumOver(Communicator& group, Device& device, float value) {
  const DeviceArray<float> array(device, std::vector<float>{value});
  group.AllReduce(array.tensor());
  return array.Read()[0];
}

void SendValue(Communicator& group, Device& device, float value, int to, int tag) {
  const DeviceArray<float> array(device, std::vector<float>{value});
  group.Send(array.tensor(), to, tag);
}

float ReceiveValue(Communicator& group, Device& device, int from, int tag) {
  const DeviceArray<float> array(device, 1);
  group.Receive(array.tensor(), from, tag);
  return array.Read()[0];
}

}  // namespace

void SplitByColorKeepsTheOrderOfRanks(RankContext& context) {
  Communicator& world = context.world;
  const int parity = world.rank() % 2;
  const auto half = world.Split("half", parity, 0);
  Require(half->name() == "half" && half->size() == (world.size() + 1 - parity) / 2, "'{}' of {}", half->name(),
          half->size());
  Require(half->rank() == world.rank() / 2, "member {} of color {} is number {}", world.rank(), parity, half->rank());
  float expected = 0;
  for (int rank = parity; rank < world.size(); rank += 2) {
    expected += static_cast<float>(rank);
  }
  RequireIs(SumOver(*half, context.device, static_cast<float>(world.rank())), expected, "the sum over a color");
}

void SplitByKeyReordersRanks(RankContext& context) {
  Communicator& world = context.world;
  const auto reversed = world.Split("reversed", 5, -world.rank());
  Require(reversed->size() == world.size(), "size {}", reversed->size());
  Require(reversed->rank() == world.size() - 1 - world.rank(), "rank {} is number {}", world.rank(), reversed->rank());
  const DeviceArray<float> in(context.device, std::vector<float>{static_cast<float>(world.rank())});
  const DeviceArray<float> out(context.device, world.size());
  reversed->AllGather(in.tensor(), out.tensor());
  const std::vector<float> gathered = out.Read();
  for (int i = 0; i < world.size(); ++i) {
    RequireIs(gathered[static_cast<std::size_t>(i)], static_cast<float>(world.size() - 1 - i), "a gathered rank");
  }
}

void SplitsNest(RankContext& context) {
  Communicator& world = context.world;
  const auto half = world.Split("half", world.rank() % 2, 0);
  const auto quarter = half->Split("quarter", half->rank() % 2, 0);
  float expected = 0;
  for (int rank = world.rank() % 4; rank < world.size(); rank += 4) {
    expected += static_cast<float>(rank + 1);
  }
  for (int repetition = 0; repetition < 3; ++repetition) {
    RequireIs(SumOver(*quarter, context.device, static_cast<float>(world.rank() + 1)), expected, "a quarter's sum");
    const auto everybody = static_cast<float>(world.size());
    RequireIs(SumOver(world, context.device, 1), everybody, "the world's sum");
  }
}

void GroupsOfOneMoveNothing(RankContext& context) {
  const auto alone = context.world.Split("alone", context.world.rank(), 0);
  Require(alone->size() == 1 && alone->rank() == 0, "size {}", alone->size());
  const DeviceArray<float> in(context.device, std::vector<float>{1, 2, 3});
  const DeviceArray<float> out(context.device, 3);
  alone->AllReduce(in.tensor());
  alone->AllGather(in.tensor(), out.tensor());
  Require(SameBits(out.Read(), {1, 2, 3}), "all-gather of one member lost its input");
  alone->ReduceScatter(out.tensor(), in.tensor());
  alone->AllToAll(in.tensor(), out.tensor());
  alone->Broadcast(out.tensor(), 0);
  alone->Barrier();
  SendValue(*alone, context.device, 4, 0, 1);
  RequireIs(ReceiveValue(*alone, context.device, 0, 1), 4, "a message to oneself");
  Require(SameBits(out.Read(), {1, 2, 3}), "collectives of one member lost their input");
  Require(alone->traffic() == Traffic{}, "a group of one has counted traffic");
}

void MessagesGoRoundARing(RankContext& context) {
  Communicator& world = context.world;
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  for (const std::int64_t count : {0, 1, 1001, 300001}) {
    const DeviceArray<float> out(context.device,
                                 std::vector<float>(static_cast<std::size_t>(count), static_cast<float>(world.rank())));
    const DeviceArray<float> in(context.device, count);
    world.Send(out.tensor(), next, 3);
    world.Receive(in.tensor(), previous, 3);
    const std::vector<float> expected(static_cast<std::size_t>(count), static_cast<float>(previous));
    Require(SameBits(in.Read(), expected), "message of {} from {} to {}", count, previous, world.rank());
  }
}

void TagsDoNotWaitForEachOther(RankContext& context) {
  Communicator& world = context.world;
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  for (int tag = 0; tag < 8; ++tag) {
    SendValue(world, context.device, static_cast<float>(tag * 100 + world.rank()), next, tag);
  }
  for (int tag = 7; tag >= 0; --tag) {
    RequireIs(ReceiveValue(world, context.device, previous, tag), static_cast<float>(tag * 100 + previous),
              "a message");
  }
}

void MessagesToOneselfArrive(RankContext& context) {
  Communicator& world = context.world;
  SendValue(world, context.device, 1, world.rank(), 0);
  SendValue(world, context.device, 2, world.rank(), 0);
  RequireIs(ReceiveValue(world, context.device, world.rank(), 0), 1, "the first message");
  RequireIs(ReceiveValue(world, context.device, world.rank(), 0), 2, "the second message");
}

void ManyMessagesArriveInOrder(RankContext& context) {
  Communicator& world = context.world;
  constexpr int kMessages = 50;
  for (int i = 0; i < kMessages; ++i) {
    for (int to = 0; to < world.size(); ++to) {
      SendValue(world, context.device, static_cast<float>(world.rank() * 1000 + i), to, i % 2);
    }
  }
  for (int tag = 1; tag >= 0; --tag) {
    for (int from = world.size() - 1; from >= 0; --from) {
      for (int i = tag; i < kMessages; i += 2) {
        RequireIs(ReceiveValue(world, context.device, from, tag), static_cast<float>(from * 1000 + i), "a message");
      }
    }
  }
}

void SendersNeverWaitForReceivers(RankContext& context) {
  Communicator& world = context.world;
  const int partner = world.size() - 1 - world.rank();
  constexpr std::int64_t kLarge = 1 << 20;
  const DeviceArray<float> message(context.device, std::vector<float>(kLarge, static_cast<float>(world.rank())));
  for (int i = 0; i < 3; ++i) {
    world.Send(message.tensor(), partner, 9);
  }
  world.Barrier();
  const DeviceArray<float> received(context.device, kLarge);
  for (int i = 0; i < 3; ++i) {
    world.Receive(received.tensor(), partner, 9);
    RequireIs(received.Read().back(), static_cast<float>(partner), "the last element");
  }
}

void GroupsDoNotMixTheirMessages(RankContext& context) {
  Communicator& world = context.world;
  const auto twin = world.Split("twin", 0, world.rank());
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  SendValue(world, context.device, 1, next, 0);
  SendValue(*twin, context.device, 2, next, 0);
  RequireIs(ReceiveValue(*twin, context.device, previous, 0), 2, "the twin's message");
  RequireIs(ReceiveValue(world, context.device, previous, 0), 1, "the world's message");
}

void SharedBytesAreTheRoots(RankContext& context) {
  Communicator& world = context.world;
  for (const int root : {0, world.size() - 1}) {
    for (const std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{3'000'000}}) {
      const std::string mine(length + static_cast<std::size_t>(world.rank()), static_cast<char>('a' + world.rank()));
      const std::string expected(length + static_cast<std::size_t>(root), static_cast<char>('a' + root));
      Require(*world.ShareBytes(mine, root) == expected, "rank {} has not the bytes of {}", world.rank(), root);
    }
  }
  RequireIs(SumOver(world, context.device, 1), static_cast<float>(world.size()), "a sum after them");
}

void CollectedBytesAreOfEveryMember(RankContext& context) {
  Communicator& world = context.world;
  const int root = world.size() / 2;
  // Each member's are as many as its number: none of the first.
  const std::vector<std::string> all =
      world.CollectBytes(std::string(static_cast<std::size_t>(world.rank()), 'x'), root);
  Require(all.size() == (world.rank() == root ? static_cast<std::size_t>(world.size()) : 0), "{} members' bytes",
          all.size());
  for (std::size_t member = 0; member < all.size(); ++member) {
    Require(all[member] == std::string(member, 'x'), "member {} gave '{}'", member, all[member]);
  }
  RequireIs(SumOver(world, context.device, 1), static_cast<float>(world.size()), "a sum after them");
}

void TrafficCountsPayloads(RankContext& context) {
  const auto group = context.world.Split("counted", 0, 0);
  const int size = group->size();
  const DeviceArray<float> part(context.device, 5);
  const DeviceArray<float> whole(context.device, 5 * size);
  const DeviceArray<float> other(context.device, 5 * size);
  group->AllReduce(part.tensor());
  group->AllReduce(whole.tensor());
  group->AllGather(part.tensor(), whole.tensor());
  group->ReduceScatter(whole.tensor(), part.tensor());
  group->AllToAll(whole.tensor(), other.tensor());
  group->Broadcast(part.tensor(), 0);
  group->Send(part.tensor(), group->rank(), 0);
  group->Receive(part.tensor(), group->rank(), 0);
  group->Barrier();
  Traffic expected;
  if (size > 1) {
    expected.Add(CollectiveKind::kAllReduce, 20);
    expected.Add(CollectiveKind::kAllReduce, 20 * size);
    expected.Add(CollectiveKind::kAllGather, 20 * size);
    expected.Add(CollectiveKind::kReduceScatter, 20 * size);
    expected.Add(CollectiveKind::kAllToAll, 20 * size);
    expected.Add(CollectiveKind::kBroadcast, 20);
    expected.Add(CollectiveKind::kSend, 20);
    expected.Add(CollectiveKind::kReceive, 20);
    expected.Add(CollectiveKind::kBarrier, 0);
  }
  Require(group->traffic() == expected, "traffic of a group of {} is miscounted", size);
}

void ObserverSeesEveryCallInOrder(RankContext& context) {
  class Recorder : public CollectiveObserver {
   public:
    void Started(const std::string& group, std::int64_t sequence, const CollectiveCall& call) override {
      events.push_back(fmt::format("{} {} {}", group, sequence, Describe(call)));
    }
    void Ended(const std::string& group, std::int64_t sequence) override {
      events.push_back(fmt::format("{} {} done", group, sequence));
    }
    std::vector<std::string> events;
  };
  Recorder recorder;
  const auto parent = context.world.Split("parent", 0, 0);
  parent->set_observer(&recorder);
  const auto child = parent->Split("child", 0, 0);
  const DeviceArray<float> array(context.device, 4);
  parent->AllReduce(array.tensor());
  child->Barrier();
  child->Broadcast(array.tensor(), 0);
  const std::vector<std::string> expected = {
      "parent 0 all_reduce of 4 fp32 (sum)",       "parent 0 done", "child 0 barrier", "child 0 done",
      "child 1 broadcast of 4 fp32 from member 0", "child 1 done"};
  Require(recorder.events == (context.world.size() > 1 ? expected : std::vector<std::string>{}),
          "the observer saw {} events, the first is '{}'", recorder.events.size(),
          recorder.events.empty() ? "" : recorder.events.front());
}

}  // namespace trireme
