#include <array>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "comm/device_array.h"
#include "comm/rank_runner.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What RunThreadRanks throws; "" when it does not.
std::string FailureOf(int ranks, const std::function<void(RankContext&)>& body) {
  try {
    RunThreadRanks(ranks, {.kind = "cpu"}, body);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// What a call throws on the rank itself.
std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MismatchedCollective, NamesBothRanksAndBothCallsOnEveryMember) {
  std::array<std::string, 3> messages;
  RunThreadRanks(3, {.kind = "cpu"}, [&](RankContext& context) {
    const DeviceArray<float> array(context.device, std::vector<float>{1, 2, 3, 4});
    messages[static_cast<std::size_t>(context.world.rank())] = MessageOf([&] {
      if (context.world.rank() == 2) {
        context.world.Barrier();
      } else {
        context.world.AllReduce(array.tensor());
      }
    });
    EXPECT_TRUE(SameBits(array.Read(), {1, 2, 3, 4})) << "data moved before the calls were compared";
  });
  for (const std::string& message : messages) {
    EXPECT_EQ(message, "group 'world': rank 0 called all_reduce of 4 fp32 (sum), but rank 2 called barrier");
  }
}

struct Mismatch {
  const char* name;
  std::function<void(RankContext&, const DeviceArray<float>&)> even;
  std::function<void(RankContext&, const DeviceArray<float>&)> odd;
  std::string even_text;
  std::string odd_text;
};

class Mismatches : public testing::TestWithParam<Mismatch> {};

TEST_P(Mismatches, AreRefused) {
  const std::string message = FailureOf(2, [](RankContext& context) {
    const DeviceArray<float> array(context.device, 16384);
    (context.world.rank() == 0 ? GetParam().even : GetParam().odd)(context, array);
  });
  EXPECT_THAT(message, AllOf(HasSubstr("rank 0 called " + GetParam().even_text),
                             HasSubstr("rank 1 called " + GetParam().odd_text)));
}

void ReduceFirst(RankContext& context, const DeviceArray<float>& array, std::int64_t count, ReduceOp op) {
  context.world.AllReduce(array.tensor().Range(0, count), op);
}

const Mismatch kMismatches[] = {
    {"Counts", [](auto& context, auto& array) { ReduceFirst(context, array, 8, ReduceOp::kSum); },
     [](auto& context, auto& array) { ReduceFirst(context, array, 16384, ReduceOp::kSum); },
     "all_reduce of 8 fp32 (sum)", "all_reduce of 16384 fp32 (sum)"},
    {"Operations", [](auto& context, auto& array) { ReduceFirst(context, array, 8, ReduceOp::kSum); },
     [](auto& context, auto& array) { ReduceFirst(context, array, 8, ReduceOp::kMax); }, "all_reduce of 8 fp32 (sum)",
     "all_reduce of 8 fp32 (max)"},
    {"Types", [](auto& context, auto& array) { ReduceFirst(context, array, 8, ReduceOp::kSum); },
     [](auto& context, auto& array) {
       Tensor integers = array.tensor().Range(0, 8);
       integers.dtype = DType::kInt32;
       context.world.AllReduce(integers);
     },
     "all_reduce of 8 fp32 (sum)", "all_reduce of 8 int32 (sum)"},
    {"Roots", [](auto& context, auto& array) { context.world.Broadcast(array.tensor(), 0); },
     [](auto& context, auto& array) { context.world.Broadcast(array.tensor(), 1); },
     "broadcast of 16384 fp32 from member 0", "broadcast of 16384 fp32 from member 1"},
    {"Kinds",
     [](auto& context, auto& array) {
       context.world.AllGather(array.tensor().Range(0, 8), array.tensor().Range(0, 16));
     },
     [](auto& context, auto& array) {
       context.world.ReduceScatter(array.tensor().Range(0, 16), array.tensor().Range(0, 8));
     },
     "all_gather of 16 fp32", "reduce_scatter of 16 fp32"},
    {"Splits", [](auto& context, auto&) { context.world.Split("part", 0, 0); },
     [](auto& context, auto&) { context.world.Barrier(); }, "split", "barrier"},
};

INSTANTIATE_TEST_SUITE_P(Kinds, Mismatches, testing::ValuesIn(kMismatches),
                         [](const auto& instance) { return instance.param.name; });

TEST(MismatchedCollective, NamesRanksOfTheWorldInASubgroup) {
  const std::string message = FailureOf(4, [](RankContext& context) {
    const auto upper = context.world.Split("half", context.world.rank() / 2, 0);
    const DeviceArray<float> array(context.device, 2);
    if (context.world.rank() == 3) {
      upper->Broadcast(array.tensor(), 1);
    } else if (context.world.rank() == 2) {
      upper->AllReduce(array.tensor());
    } else {
      context.world.Barrier();
    }
  });
  EXPECT_THAT(message,
              HasSubstr("group 'half': rank 2 called all_reduce of 2 fp32 (sum), but rank 3 called broadcast"));
}

TEST(FailingRank, EndsTheOthersWithItsMessage) {
  std::array<std::string, 4> messages;
  const std::string failure = FailureOf(4, [&](RankContext& context) {
    const int rank = context.world.rank();
    if (rank == 2) {
      Fail("no space left in tank {}", 7);
    }
    const DeviceArray<float> array(context.device, 8);
    messages[static_cast<std::size_t>(rank)] =
        MessageOf([&] { rank == 0 ? context.world.Barrier() : context.world.Receive(array.tensor(), 0, 1); });
    EXPECT_EQ(MessageOf([&] { context.world.Send(array.tensor(), 0, 0); }), "rank 2: no space left in tank 7");
    EXPECT_EQ(MessageOf([&] { context.world.Split("late", 0, 0); }), "rank 2: no space left in tank 7");
  });
  EXPECT_EQ(failure, "rank 2: no space left in tank 7");
  for (const int rank : {0, 1, 3}) {
    EXPECT_EQ(messages[static_cast<std::size_t>(rank)], failure);
  }
}

TEST(FailingRank, EndsMembersOfOtherGroupsAndGroupsOfOne) {
  const std::string failure = FailureOf(4, [](RankContext& context) {
    const int rank = context.world.rank();
    const auto pair = context.world.Split("pair", rank / 2, 0);
    const auto alone = context.world.Split("alone", rank, 0);
    if (rank == 3) {
      throw std::runtime_error("not even an Error");
    }
    if (rank == 0) {
      EXPECT_THROW(pair->Barrier(), Error);
      EXPECT_THROW(alone->Barrier(), Error);
    }
    if (rank == 1) {
      EXPECT_THROW(context.world.Barrier(), Error);
    }
    if (rank == 2) {
      EXPECT_THROW(pair->Barrier(), Error);
    }
  });
  EXPECT_EQ(failure, "rank 3: not even an Error");
}

TEST(FailingRank, IsReportedRatherThanThoseItEnded) {
  for (int repetition = 0; repetition < 50; ++repetition) {
    const std::string failure = FailureOf(8, [](RankContext& context) {
      if (context.world.rank() == 5) {
        throw Error("the cause");
      }
      const DeviceArray<float> array(context.device, 5000);
      for (int i = 0; i < 1000; ++i) {
        context.world.AllReduce(array.tensor());
      }
    });
    ASSERT_EQ(failure, "rank 5: the cause");
  }
}

TEST(FailingRank, LeavesNobodyReadingItsMemory) {
  // Ranks 0-2 exchange large tensors, freed at once, while rank 3 fails at some moment of it.
  for (int repetition = 0; repetition < 20; ++repetition) {
    const std::string failure = FailureOf(4, [&](RankContext& context) {
      const auto three = context.world.Split("three", context.world.rank() == 3 ? 1 : 0, 0);
      for (int i = 0; i < 2000; ++i) {
        if (context.world.rank() == 3) {
          std::this_thread::sleep_for(std::chrono::microseconds(500 + 100 * repetition));
          throw Error("any moment");
        }
        const DeviceArray<float> array(context.device, 20000);
        three->AllReduce(array.tensor());
      }
    });
    ASSERT_EQ(failure, "rank 3: any moment");
  }
}

TEST(EndedRank, IsAnErrorForThoseWhoWaitForIt) {
  EXPECT_THAT(FailureOf(3,
                        [](RankContext& context) {
                          if (context.world.rank() != 1) {
                            context.world.Barrier();
                          }
                        }),
              HasSubstr("called barrier, but rank 1 has ended without it"));
  EXPECT_THAT(FailureOf(2,
                        [](RankContext& context) {
                          if (context.world.rank() == 0) {
                            const DeviceArray<float> array(context.device, 3);
                            context.world.Receive(array.tensor(), 1, 4);
                          }
                        }),
              HasSubstr("rank 0: group 'world': called receive of 3 fp32 from member 1, tag 4, but rank 1 has ended"));
}

TEST(EndedRank, LeavesItsMessages) {
  RunThreadRanks(2, {.kind = "cpu"}, [](RankContext& context) {
    const DeviceArray<float> array(context.device, std::vector<float>{static_cast<float>(context.world.rank())});
    if (context.world.rank() == 1) {
      context.world.Send(array.tensor(), 0, 0);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      context.world.Receive(array.tensor(), 1, 0);
      EXPECT_EQ(array.Read()[0], 1);
    }
  });
}

TEST(Abort, ReachesRanksThatWait) {
  const std::string failure = FailureOf(3, [](RankContext& context) {
    const DeviceArray<float> array(context.device, 1);
    if (context.world.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      context.world.Abort("watchdog: step 12 takes too long");
    } else if (context.world.rank() == 1) {
      context.world.Receive(array.tensor(), 0, 0);
    } else {
      context.world.Barrier();
    }
  });
  EXPECT_EQ(failure, "rank 0: watchdog: step 12 takes too long");
}

TEST(Abort, MayComeFromAnotherThread) {
  const std::string failure = FailureOf(2, [](RankContext& context) {
    if (context.world.rank() == 0) {
      const std::jthread watchdog([&] { context.world.Abort("from the side"); });
      const DeviceArray<float> array(context.device, 1);
      context.world.Receive(array.tensor(), 0, 0);
    } else {
      context.world.Barrier();
    }
  });
  EXPECT_EQ(failure, "rank 0: from the side");
}

TEST(Message, OfAnotherTypeOrCountIsRefused) {
  const auto body = [](DType dtype, std::int64_t count) {
    return [dtype, count](RankContext& context) {
      const DeviceArray<float> array(context.device, 12);
      if (context.world.rank() == 0) {
        context.world.Send(array.tensor(), 1, 3);
        return;
      }
      Tensor message = array.tensor().Range(0, count);
      message.dtype = dtype;
      context.world.Receive(message, 0, 3);
    };
  };
  EXPECT_EQ(FailureOf(2, body(DType::kFloat32, 8)),
            "rank 1: group 'world': rank 0 sent 12 fp32 to rank 1 with tag 3, which receives 8 fp32");
  EXPECT_EQ(FailureOf(2, body(DType::kInt32, 12)),
            "rank 1: group 'world': rank 0 sent 12 fp32 to rank 1 with tag 3, which receives 12 int32");
}

TEST(Arguments, ThatCannotWorkAreRefusedWithTheirNumbers) {
  RunThreadRanks(1, {.kind = "cpu"}, [](RankContext& context) {
    const DeviceArray<float> four(context.device, 4);
    const DeviceArray<float> five(context.device, 5);
    const DeviceArray<std::int32_t> integers(context.device, 4);
    Communicator& world = context.world;
    EXPECT_THAT(MessageOf([&] { world.AllGather(four.tensor(), five.tensor()); }),
                HasSubstr("5 elements are not 1 parts of 4 elements"));
    EXPECT_THAT(MessageOf([&] { world.ReduceScatter(four.tensor(), integers.tensor()); }),
                HasSubstr("the input is fp32, the output int32"));
    EXPECT_THAT(MessageOf([&] { world.AllToAll(four.tensor(), five.tensor()); }), HasSubstr("4 elements in and 5 out"));
    EXPECT_THAT(MessageOf([&] { world.Broadcast(four.tensor(), 1); }), HasSubstr("no member 1 among 1"));
    EXPECT_THAT(MessageOf([&] { world.Send(four.tensor(), -1, 0); }), HasSubstr("no member -1 among 1"));
    EXPECT_THAT(MessageOf([&] { world.Receive(four.tensor(), 0, -4); }), HasSubstr("tag -4 is negative"));
    EXPECT_THAT(MessageOf([&] { world.Split("x", -1, 0); }), HasSubstr("color -1 is negative"));
  });
  EXPECT_THROW(RunThreadRanks(0, {.kind = "cpu"}, [](RankContext&) {}), Error);
}

TEST(Reduction, OfATypeThatCannotBeSummedFailsOnEveryMember) {
  for (const std::int64_t count : {8, 100000}) {
    EXPECT_THAT(FailureOf(2,
                          [count](RankContext& context) {
                            const DeviceArray<std::int64_t> array(context.device, count);
                            Tensor bytes = array.tensor();
                            bytes.dtype = DType::kUInt8;
                            context.world.AllReduce(bytes);
                          }),
                HasSubstr("cannot reduce uint8 elements"));
  }
}

}  // namespace
}  // namespace trireme
