#include "comm/device_call_watch.h"

#include <atomic>
#include <chrono>

#include "base/error.h"
#include "device/cpu_double.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const CollectiveCall kSum = {.kind = CollectiveKind::kAllReduce, .dtype = DType::kFloat32, .count = 128};
// Stands still at once, gives up never, unless it is asked.
constexpr WatchTimes kQuick = {.poll = 0.001, .name = 0.05, .give_up = 1e9, .when_asked = 0.02};

// A device whose events are reached when a test says so.
class HandDevice : public CpuDouble {
 public:
  static std::shared_ptr<std::atomic<bool>> NewEvent() { return std::make_shared<std::atomic<bool>>(false); }
  bool IsReached(const Event& event) override { return static_cast<const std::atomic<bool>*>(event.get())->load(); }
};

class Told : public CollectiveObserver {
 public:
  void Started(const std::string&, std::int64_t, const CollectiveCall&) override {}
  void Ended(const std::string&, std::int64_t) override {}
  void DeviceStarted(std::uint64_t ticket) override { started = ticket; }
  void DeviceEnded(std::uint64_t ticket) override { ended = ticket; }
  std::atomic<std::uint64_t> started = 0;
  std::atomic<std::uint64_t> ended = 0;
};

// What a watch said and did.
class Heard {
 public:
  DeviceCallWatch::Hooks Hooks() {
    return {.say = [this](const std::string& text) { Put(said_, text); },
            .give_up = [this](int rank,
                              const std::string& text) { Put(gave_up_, fmt::format("rank {}: {}", rank, text)); }};
  }
  std::string AwaitSaid() { return Await(said_); }
  std::string AwaitGivenUp() { return Await(gave_up_); }
  bool gave_up() {
    const std::lock_guard lock(mutex_);
    return !gave_up_.empty();
  }

 private:
  void Put(std::string& place, const std::string& text) {
    const std::lock_guard lock(mutex_);
    place += text + "\n";
    changed_.notify_all();
  }
  std::string Await(const std::string& place) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return !place.empty(); });
    return place;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string said_;
  std::string gave_up_;
};

template <typename Condition>
bool Becomes(const Condition& condition) {
  for (int i = 0; i < 60'000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

WatchedGroup Member(int rank) { return {.name = "tensor", .key = 7, .rank = rank, .ranks = {0, 1}}; }

TEST(DeviceCallWatch, TellsWhatTheDeviceHasStartedAndEnded) {
  Heard heard;
  Told told;
  HandDevice device;
  DeviceCallWatch watch(heard.Hooks(), {.poll = 0.001});
  const auto channel = watch.Join(Member(0), device);
  const auto begin = HandDevice::NewEvent();
  const auto end = HandDevice::NewEvent();
  watch.Follow(*channel, {.call = kSum, .begin = begin, .end = end, .observer = &told, .ticket = 5});
  EXPECT_EQ(told.started, 0U);
  *begin = true;
  EXPECT_TRUE(Becomes([&] { return told.started == 5; }));
  EXPECT_EQ(told.ended, 0U);
  *end = true;
  EXPECT_TRUE(Becomes([&] { return told.ended == 5; }));
  watch.Leave(*channel);
}

TEST(DeviceCallWatch, NamesACollectiveThatARankHasNotComeTo) {
  Heard heard;
  HandDevice device;
  DeviceCallWatch watch(heard.Hooks(), kQuick);
  const auto zero = watch.Join(Member(0), device);
  const auto one = watch.Join(Member(1), device);
  const auto reached = HandDevice::NewEvent();
  *reached = true;
  for (const auto& channel : {zero, one}) {
    watch.Follow(*channel, {.call = kSum, .sequence = 3, .begin = reached, .end = reached});
  }
  watch.Follow(*zero, {.call = kSum, .sequence = 4, .stream = 1, .begin = reached, .end = HandDevice::NewEvent()});
  EXPECT_THAT(heard.AwaitSaid(),
              AllOf(HasSubstr("rank 0: all_reduce of 128 fp32 (sum), number 4 of group 'tensor' of ranks 0, 1, has "
                              "been running on stream 1"),
                    HasSubstr("rank 1 has not come to it (its last there is number 3)")));
  EXPECT_FALSE(heard.gave_up());
  watch.ShortenTimeouts();
  EXPECT_THAT(heard.AwaitGivenUp(), AllOf(HasSubstr("rank 0: "), HasSubstr("the job was asked to end")));
}

TEST(DeviceCallWatch, GivesUpWhenEveryDeviceHasBegunAndNoneEnds) {
  Heard heard;
  HandDevice device;
  DeviceCallWatch watch(heard.Hooks(), kQuick);
  const auto reached = HandDevice::NewEvent();
  *reached = true;
  for (const int rank : {0, 1}) {
    const auto channel = watch.Join(Member(rank), device);
    watch.Follow(*channel, {.call = kSum, .begin = reached, .end = HandDevice::NewEvent()});
  }
  EXPECT_THAT(heard.AwaitGivenUp(), HasSubstr("number 0 of group 'tensor'"));
}

TEST(DeviceCallWatch, RefusesAnotherCallUnderTheSameNumber) {
  Heard heard;
  HandDevice device;
  DeviceCallWatch watch(heard.Hooks(), {.poll = 0.001});
  const auto zero = watch.Join(Member(0), device);
  const auto one = watch.Join(Member(1), device);
  watch.Compare(*zero, kSum);
  watch.Compare(*one, kSum);
  watch.Compare(*zero, kSum);
  CollectiveCall other = kSum;
  other.count = 64;
  try {
    watch.Compare(*one, other);
    ADD_FAILURE() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "group 'tensor': rank 0 called all_reduce of 128 fp32 (sum), but rank 1 called all_reduce of 64 fp32 "
                 "(sum)");
  }
}

TEST(DeviceCallWatch, ComparesCallsOfMembersThatAreApart) {
  Heard heard;
  HandDevice device;
  DeviceCallWatch watch(heard.Hooks(), {.poll = 0.001});
  const auto zero = watch.Join(Member(0), device);
  const auto one = watch.Join(Member(1), device);
  constexpr int kCalls = 3000;  // more than the watch remembers
  const auto call = [](int number) {
    CollectiveCall made = kSum;
    made.count = number;
    return made;
  };
  const auto make_all = [&](DeviceCallWatch::Channel& channel) {
    for (int i = 0; i < kCalls; ++i) {
      watch.Compare(channel, call(i));
    }
  };
  {
    const std::jthread other([&] { EXPECT_NO_THROW(make_all(*one)); });
    EXPECT_NO_THROW(make_all(*zero));
  }
  watch.Compare(*one, call(1));
  EXPECT_THROW(watch.Compare(*zero, call(2)), Error);
}

TEST(DeviceCallWatch, KnowsWhoIsAhead) {
  Heard heard;
  HandDevice device;
  DeviceCallWatch watch(heard.Hooks(), {.poll = 0.001});
  const auto zero = watch.Join(Member(0), device);
  const auto reached = HandDevice::NewEvent();
  *reached = true;
  const auto enqueue = [&](DeviceCallWatch::Channel& channel) {
    DeviceCallWatch::Follow(channel, {.call = kSum, .begin = reached, .end = reached});
  };
  enqueue(*zero);
  enqueue(*zero);
  EXPECT_FALSE(DeviceCallWatch::IsAhead(*zero, 2)) << "the other rank is of another process";
  const auto one = watch.Join(Member(1), device);
  EXPECT_TRUE(DeviceCallWatch::IsAhead(*zero, 2));
  EXPECT_FALSE(DeviceCallWatch::IsAhead(*zero, 3));
  EXPECT_FALSE(DeviceCallWatch::IsAhead(*one, 1));
  enqueue(*one);
  EXPECT_FALSE(DeviceCallWatch::IsAhead(*zero, 2));
  watch.Leave(*one);
  EXPECT_FALSE(DeviceCallWatch::IsAhead(*zero, 1)) << "the other rank has left";
}

TEST(DeviceCallWatch, OfMembersThatMeetTooLongTheFirstSaysSo) {
  Heard heard;
  HandDevice device;
  DeviceCallWatch watch(heard.Hooks(), kQuick);
  const auto zero = watch.Join(Member(0), device);
  const auto one = watch.Join(Member(1), device);
  const DeviceCallWatch::Meeting first(*zero, "vote");
  const DeviceCallWatch::Meeting second(*one, "vote");
  heard.AwaitSaid();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(heard.AwaitSaid(),
            "rank 0: ranks 0, 1 of group 'tensor' have waited for each other on the host to vote for 0 s\n");
}

TEST(DeviceCallWatch, AMeetingIsNamedAndEndsOnRequestAlone) {
  Heard heard;
  HandDevice device;
  WatchTimes times = kQuick;
  times.give_up = 0.1;
  DeviceCallWatch watch(heard.Hooks(), times);
  const auto zero = watch.Join(Member(0), device);
  const auto one = watch.Join(Member(1), device);
  {
    const DeviceCallWatch::Meeting first(*zero, "vote");
    const DeviceCallWatch::Meeting second(*one, "vote");
  }
  const DeviceCallWatch::Meeting meeting(*zero, "vote");
  EXPECT_THAT(heard.AwaitSaid(), HasSubstr("rank 0: ranks 0, 1 of group 'tensor' have waited for each other on the "
                                           "host to vote for 0 s; rank 1 does not wait there"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(heard.gave_up()) << "a rank may read its weights";
  watch.ShortenTimeouts();
  EXPECT_THAT(heard.AwaitGivenUp(), HasSubstr("the job was asked to end"));
}

}  // namespace
}  // namespace trireme
