#include "comm/device_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>

#include "comm/device_array.h"
#include "comm/rank_runner.h"
#include "message_of.h"

namespace trireme {
namespace {

// What was sent and not yet received, in order: all that a way promises.
class Pipe {
 public:
  void Put(const Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    const auto* bytes = static_cast<const char*>(tensor.data);
    messages_.emplace_back(bytes, bytes + tensor.bytes());
    arrived_.notify_one();
  }
  void Take(const Tensor& tensor) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return !messages_.empty(); });
    ASSERT_EQ(static_cast<std::int64_t>(messages_.front().size()), tensor.bytes());
    std::memcpy(tensor.data, messages_.front().data(), messages_.front().size());
    messages_.pop_front();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::vector<char>> messages_;
};

class PipeWay : public MessageWay {
 public:
  PipeWay(Pipe& pipe, bool sends) : pipe_(pipe), sends_(sends) {}
  void Move(const Tensor& tensor) override { sends_ ? pipe_.Put(tensor) : pipe_.Take(tensor); }

 private:
  Pipe& pipe_;
  bool sends_;
};

// Two ranks with ways both ways; once for each of `forms`.
void RunPair(const std::function<void(RankContext&, DeviceMessages&)>& body,
             const std::vector<DeviceMessages::Receives>& forms = {DeviceMessages::Receives::kAhead,
                                                                   DeviceMessages::Receives::kInOrder}) {
  for (const DeviceMessages::Receives receives : forms) {
    std::array<Pipe, 2> pipes;  // by receiver
    RunThreadRanks(2, {.kind = "cpu"}, [&](RankContext& context) {
      const int other = 1 - context.world.rank();
      const auto own = static_cast<std::size_t>(context.world.rank());
      const auto host = context.world.Split("pair", 0, 0);
      DeviceMessages messages(context.device, *host, kFirstMessageStream, receives);
      messages.AddWayTo(other, std::make_unique<PipeWay>(pipes[1 - own], true));
      messages.AddWayFrom(other, std::make_unique<PipeWay>(pipes[own], false));
      body(context, messages);
      context.world.Barrier();
    });
  }
}

std::vector<float> Values(int seed, int count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = static_cast<float>(100 * seed + i);
  }
  return values;
}

TEST(DeviceMessages, TagsAreReceivedInAnyOrder) {
  RunPair([](RankContext& context, DeviceMessages& messages) {
    const int other = 1 - context.world.rank();
    for (const int tag : {4, 9, 2, 4}) {
      const DeviceArray<float> array(context.device, Values(tag + 10 * context.world.rank(), 5));
      messages.Send(array.tensor(), other, tag);
    }
    for (const int tag : {2, 4, 4, 9}) {
      const DeviceArray<float> array(context.device, std::vector<float>(5));
      messages.Receive(array.tensor(), other, tag);
      EXPECT_EQ(array.Read(), Values(tag + 10 * other, 5)) << tag;
    }
  });
}

TEST(DeviceMessages, ASendNeverWaitsAndItsTensorMayChangeAtOnce) {
  RunPair([](RankContext& context, DeviceMessages& messages) {
    const int other = 1 - context.world.rank();
    constexpr int kMessages = 20;
    const DeviceArray<float> array(context.device, Values(0, 3));
    for (int i = 0; i < kMessages; ++i) {
      const std::vector<float> values = Values(i, 3);
      context.device.CopyFromHost(array.tensor().data, values.data(), array.tensor().bytes());
      messages.Send(array.tensor(), other, i);
    }
    for (int i = 0; i < kMessages; ++i) {
      messages.Receive(array.tensor(), other, i);
      EXPECT_EQ(array.Read(), Values(i, 3));
    }
  });
}

TEST(DeviceMessages, BuffersAreUsedAgain) {
  RunPair([](RankContext& context, DeviceMessages& messages) {
    const int other = 1 - context.world.rank();
    const DeviceArray<float> array(context.device, Values(1, 64));
    for (int i = 0; i < 50; ++i) {
      messages.Send(array.tensor(), other, i);
      messages.Receive(array.tensor(), other, i);
    }
    EXPECT_LE(messages.bytes(), 4 * array.tensor().bytes());  // two a way
    EXPECT_GT(messages.bytes(), 0);
  });
}

TEST(DeviceMessages, WhatIsPreparedTakesNoMoreMemoryLater) {
  RunPair([](RankContext& context, DeviceMessages& messages) {
    const int other = 1 - context.world.rank();
    const DeviceArray<float> sent(context.device, Values(context.world.rank(), 64));
    const DeviceArray<float> received(context.device, std::vector<float>(64));
    const std::int64_t bytes = sent.tensor().bytes();
    for (int time = 0; time < 2; ++time) {
      messages.PrepareToSend(bytes, other);
      messages.PrepareToReceive(bytes, other);
      messages.PrepareToSend(bytes / 2, other);
      messages.PrepareToReceive(0, other);
      messages.PrepareToSend(bytes, 7);  // no way there
      EXPECT_EQ(messages.bytes(), 4 * bytes);
    }
    for (int i = 0; i < 10; ++i) {
      messages.Send(sent.tensor(), other, i);
      messages.Receive(received.tensor(), other, i);
    }
    EXPECT_EQ(received.Read(), Values(other, 64));
    EXPECT_EQ(messages.bytes(), 4 * bytes);
  });
}

TEST(DeviceMessages, EmptyOnesArriveAndOthersOfAWrongCountAreRefused) {
  RunPair([](RankContext& context, DeviceMessages& messages) {
    const int other = 1 - context.world.rank();
    const DeviceArray<float> array(context.device, Values(1, 4));
    messages.Send(array.tensor().Range(0, 0), other, 1);
    messages.Send(array.tensor(), other, 2);
    messages.Receive(array.tensor().Range(0, 0), other, 1);
    EXPECT_THAT(test::MessageOf([&] { messages.Receive(array.tensor().Range(0, 3), other, 2); }),
                testing::HasSubstr("sent 4 fp32 to rank"));
  });
}

TEST(DeviceMessages, WaysAreAsManyAsStreams) {
  const auto body = [](RankContext&, DeviceMessages& messages) {
    Pipe pipe;
    messages.AddWayTo(7, std::make_unique<PipeWay>(pipe, true));
    messages.AddWayTo(8, std::make_unique<PipeWay>(pipe, true));
    EXPECT_TRUE(messages.HasWayTo(7));
    EXPECT_FALSE(messages.HasWayFrom(7));
    EXPECT_THAT(test::MessageOf([&] { messages.AddWayTo(9, std::make_unique<PipeWay>(pipe, true)); }),
                testing::HasSubstr("more than 4 ways for messages"));
  };
  RunPair(body, {DeviceMessages::Receives::kAhead});
  // Received in order, messages take no stream.
  const auto in_order = [](RankContext&, DeviceMessages& messages) {
    Pipe pipe;
    for (const int rank : {7, 8, 9}) {
      messages.AddWayTo(rank, std::make_unique<PipeWay>(pipe, true));
      messages.AddWayFrom(rank, std::make_unique<PipeWay>(pipe, false));
    }
    EXPECT_THAT(test::MessageOf([&] { messages.AddWayTo(10, std::make_unique<PipeWay>(pipe, true)); }),
                testing::HasSubstr("more than 4 ways for messages"));
  };
  RunPair(in_order, {DeviceMessages::Receives::kInOrder});
}

// Says when it ends.
class EndingWay : public MessageWay {
 public:
  EndingWay(int number, std::vector<int>& ended) : number_(number), ended_(ended) {}
  ~EndingWay() override { ended_.push_back(number_); }
  EndingWay(const EndingWay&) = delete;
  EndingWay& operator=(const EndingWay&) = delete;
  void Move(const Tensor& /*tensor*/) override {}

 private:
  int number_;
  std::vector<int>& ended_;
};

// NCCL's ways end together: two ranks that each ended what they receive by first would wait for each other.
TEST(DeviceMessages, WaysEndInTheOrderInWhichTheyWereAdded) {
  for (const bool sends_first : {true, false}) {
    std::vector<int> ended;
    RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
      DeviceMessages messages(context.device, context.world);
      for (const int number : {0, 1, 2, 3}) {
        auto way = std::make_unique<EndingWay>(number, ended);
        (number % 2 == 0) == sends_first ? messages.AddWayTo(9 - number / 2, std::move(way))
                                         : messages.AddWayFrom(9 - number / 2, std::move(way));
      }
    });
    EXPECT_THAT(ended, testing::ElementsAre(0, 1, 2, 3)) << sends_first;
  }
}

}  // namespace
}  // namespace trireme
