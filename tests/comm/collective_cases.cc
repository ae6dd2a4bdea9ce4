#include "comm/collective_cases.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/error.h"
#include "base/random_normal.h"
#include "comm/device_array.h"
#include "comm/group_cases.h"

namespace trireme {
namespace {

// Nothing, odd, around the sizes where communicators change their ways, and several blocks.
constexpr std::array<std::int64_t, 8> kCounts = {0, 1, 3, 17, 1025, 4097, 9001, 40001};

template <typename T>
T Convert(float value) {
  return static_cast<T>(value);
}

// Small integers, those of a rank from `first` on: their sums are exact in every type and order.
template <typename T>
std::vector<T> WholeNumbers(int rank, std::int64_t count, std::int64_t first = 0) {
  std::vector<T> values;
  for (std::int64_t i = first; i < first + count; ++i) {
    values.push_back(
        Convert<T>(static_cast<float>(RandomBelow(7, static_cast<std::uint64_t>(i * 64 + rank), 31)) - 15));
  }
  return values;
}

std::vector<float> Fractions(int rank, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(RandomNormal(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(i)));
  }
  return values;
}

template <typename T>
std::vector<T> SerialReduction(int ranks, std::int64_t count, ReduceOp op, std::int64_t first = 0) {
  std::vector<std::vector<T>> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.push_back(WholeNumbers<T>(rank, count, first));
  }
  std::vector<T> result;
  for (std::int64_t i = 0; i < count; ++i) {
    auto sum = static_cast<float>(inputs[0][static_cast<std::size_t>(i)]);
    for (int rank = 1; rank < ranks; ++rank) {
      const auto value = static_cast<float>(inputs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)]);
      sum = op == ReduceOp::kSum ? sum + value : std::max(sum, value);
    }
    result.push_back(Convert<T>(sum));
  }
  return result;
}

template <typename T>
void RequireEqual(const std::vector<T>& actual, const std::vector<T>& expected, std::string_view what) {
  Require(actual.size() == expected.size(), "{}: {} elements, not {}", what, actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    Require(std::memcmp(&actual[i], &expected[i], sizeof(T)) == 0, "{} of {}: element {} is {}, not {}", what,
            actual.size(), i, static_cast<float>(actual[i]), static_cast<float>(expected[i]));
  }
}

template <typename T>
void AllReduceEquals(RankContext& context, ReduceOp op) {
  for (const std::int64_t count : kCounts) {
    const DeviceArray<T> array(context.device, WholeNumbers<T>(context.world.rank(), count));
    context.world.AllReduce(array.tensor(), op);
    RequireEqual(array.Read(), SerialReduction<T>(context.world.size(), count, op), "all-reduce");
  }
}

void AllReduceSumsFloats(RankContext& context) { AllReduceEquals<float>(context, ReduceOp::kSum); }
void AllReduceSumsBFloats(RankContext& context) { AllReduceEquals<BFloat16>(context, ReduceOp::kSum); }
void AllReduceSumsIntegers(RankContext& context) { AllReduceEquals<std::int32_t>(context, ReduceOp::kSum); }
void AllReduceSumsLongIntegers(RankContext& context) { AllReduceEquals<std::int64_t>(context, ReduceOp::kSum); }
void AllReduceTakesTheMaximumOfFloats(RankContext& context) { AllReduceEquals<float>(context, ReduceOp::kMax); }
void AllReduceTakesTheMaximumOfBFloats(RankContext& context) { AllReduceEquals<BFloat16>(context, ReduceOp::kMax); }
void AllReduceTakesTheMaximumOfIntegers(RankContext& context) {
  AllReduceEquals<std::int32_t>(context, ReduceOp::kMax);
}

void IntegersAreSummedExactly(RankContext& context) {
  const std::int32_t large = (1 << 24) + 1;  // the first whole number that fp32 does not hold
  const DeviceArray<std::int32_t> array(context.device,
                                        std::vector<std::int32_t>{context.world.rank() == 0 ? large : 0});
  context.world.AllReduce(array.tensor());
  Require(array.Read()[0] == large, "{} became {}", large, array.Read()[0]);
}

template <typename T>
void AllGatherEquals(RankContext& context) {
  Communicator& world = context.world;
  for (const std::int64_t count : kCounts) {
    std::vector<T> expected;
    for (int rank = 0; rank < world.size(); ++rank) {
      const std::vector<T> part = WholeNumbers<T>(rank, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    const DeviceArray<T> in(context.device, WholeNumbers<T>(world.rank(), count));
    const DeviceArray<T> out(context.device, count * world.size());
    world.AllGather(in.tensor(), out.tensor());
    RequireEqual(out.Read(), expected, "all-gather");

    std::vector<T> own_part(static_cast<std::size_t>(count * world.size()));
    const std::vector<T> values = in.Read();
    std::copy(values.begin(), values.end(), own_part.begin() + world.rank() * count);
    const DeviceArray<T> whole(context.device, own_part);
    world.AllGather(whole.tensor().Range(world.rank() * count, count), whole.tensor());
    RequireEqual(whole.Read(), expected, "all-gather in place");
  }
}

void AllGatherConcatenatesFloats(RankContext& context) { AllGatherEquals<float>(context); }
void AllGatherConcatenatesBFloats(RankContext& context) { AllGatherEquals<BFloat16>(context); }
void AllGatherConcatenatesIntegers(RankContext& context) { AllGatherEquals<std::int32_t>(context); }

template <typename T>
void ReduceScatterEquals(RankContext& context) {
  Communicator& world = context.world;
  for (const std::int64_t count : kCounts) {
    const std::int64_t whole = count * world.size();
    const std::vector<T> expected = SerialReduction<T>(world.size(), count, ReduceOp::kSum, world.rank() * count);
    const DeviceArray<T> in(context.device, WholeNumbers<T>(world.rank(), whole));
    const DeviceArray<T> out(context.device, count);
    world.ReduceScatter(in.tensor(), out.tensor());
    RequireEqual(out.Read(), expected, "reduce-scatter");
    RequireEqual(in.Read(), WholeNumbers<T>(world.rank(), whole), "reduce-scatter's input");

    world.ReduceScatter(in.tensor(), in.tensor().Range(world.rank() * count, count));
    const std::vector<T> after = in.Read();
    RequireEqual(std::vector<T>(after.begin() + world.rank() * count, after.begin() + (world.rank() + 1) * count),
                 expected, "reduce-scatter in place");
  }
}

void ReduceScatterSumsFloats(RankContext& context) { ReduceScatterEquals<float>(context); }
void ReduceScatterSumsBFloats(RankContext& context) { ReduceScatterEquals<BFloat16>(context); }
void ReduceScatterSumsIntegers(RankContext& context) { ReduceScatterEquals<std::int32_t>(context); }

void AllToAllTransposesParts(RankContext& context) {
  Communicator& world = context.world;
  for (const std::int64_t count : kCounts) {
    std::vector<float> expected;
    for (int rank = 0; rank < world.size(); ++rank) {
      const std::vector<float> theirs = WholeNumbers<float>(rank, count, world.rank() * count);
      expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    const DeviceArray<float> in(context.device, WholeNumbers<float>(world.rank(), count * world.size()));
    const DeviceArray<float> out(context.device, count * world.size());
    world.AllToAll(in.tensor(), out.tensor());
    RequireEqual(out.Read(), expected, "all-to-all");
  }
}

void BroadcastCopiesTheRootsTensor(RankContext& context) {
  for (int root = 0; root < context.world.size(); ++root) {
    for (const std::int64_t count : kCounts) {
      const DeviceArray<BFloat16> array(context.device, WholeNumbers<BFloat16>(context.world.rank(), count));
      context.world.Broadcast(array.tensor(), root);
      RequireEqual(array.Read(), WholeNumbers<BFloat16>(root, count), "broadcast");
    }
  }
}

// Fractions: the order of a sum shows in its bits.
void EqualCallsGiveEqualBits(RankContext& context) {
  for (const std::int64_t count : {17, 4097, 20001}) {
    const std::int64_t whole = count * context.world.size();
    std::vector<float> first_sum;
    std::vector<float> first_part;
    for (int repetition = 0; repetition < 3; ++repetition) {
      const DeviceArray<float> array(context.device, Fractions(context.world.rank(), count));
      const DeviceArray<float> in(context.device, Fractions(context.world.rank(), whole));
      const DeviceArray<float> part(context.device, count);
      context.world.AllReduce(array.tensor());
      context.world.ReduceScatter(in.tensor(), part.tensor());
      if (repetition == 0) {
        first_sum = array.Read();
        first_part = part.Read();
      }
      Require(SameBits(array.Read(), first_sum), "all-reduce of {} fp32 differs between repetitions", count);
      Require(SameBits(part.Read(), first_part), "reduce-scatter of {} fp32 differs between repetitions", whole);
    }
  }
}

void MembersHoldTheSameBitsAfterAllReduce(RankContext& context) {
  const std::int64_t count = 9001;
  const DeviceArray<float> array(context.device, Fractions(context.world.rank(), count));
  context.world.AllReduce(array.tensor());
  const DeviceArray<float> all(context.device, count * context.world.size());
  context.world.AllGather(array.tensor(), all.tensor());
  const std::vector<float> mine = array.Read();
  const std::vector<float> gathered = all.Read();
  for (int rank = 0; rank < context.world.size(); ++rank) {
    const auto begin = gathered.begin() + rank * count;
    Require(SameBits(std::vector<float>(begin, begin + count), mine), "rank {} holds another sum", rank);
  }
}

void SumOfFractionsIsNearTheSerialSum(RankContext& context) {
  const std::int64_t count = 5003;
  std::vector<double> expected(static_cast<std::size_t>(count), 0.0);
  for (int rank = 0; rank < context.world.size(); ++rank) {
    const std::vector<float> values = Fractions(rank, count);
    std::transform(values.begin(), values.end(), expected.begin(), expected.begin(),
                   [](float value, double sum) { return sum + value; });
  }
  const DeviceArray<float> array(context.device, Fractions(context.world.rank(), count));
  context.world.AllReduce(array.tensor());
  const std::vector<float> actual = array.Read();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    Require(std::abs(actual[i] - expected[i]) < 1e-5, "element {} is {}, not {}", i, actual[i], expected[i]);
  }
}

constexpr CollectiveCase kCases[] = {
    {"AllReduceSumsFloats", AllReduceSumsFloats},
    {"AllReduceSumsBFloats", AllReduceSumsBFloats},
    {"AllReduceSumsIntegers", AllReduceSumsIntegers},
    {"AllReduceSumsLongIntegers", AllReduceSumsLongIntegers},
    {"AllReduceTakesTheMaximumOfFloats", AllReduceTakesTheMaximumOfFloats},
    {"AllReduceTakesTheMaximumOfBFloats", AllReduceTakesTheMaximumOfBFloats},
    {"AllReduceTakesTheMaximumOfIntegers", AllReduceTakesTheMaximumOfIntegers},
    {"IntegersAreSummedExactly", IntegersAreSummedExactly},
    {"AllGatherConcatenatesFloats", AllGatherConcatenatesFloats},
    {"AllGatherConcatenatesBFloats", AllGatherConcatenatesBFloats},
    {"AllGatherConcatenatesIntegers", AllGatherConcatenatesIntegers},
    {"ReduceScatterSumsFloats", ReduceScatterSumsFloats},
    {"ReduceScatterSumsBFloats", ReduceScatterSumsBFloats},
    {"ReduceScatterSumsIntegers", ReduceScatterSumsIntegers},
    {"AllToAllTransposesParts", AllToAllTransposesParts},
    {"BroadcastCopiesTheRootsTensor", BroadcastCopiesTheRootsTensor},
    {"EqualCallsGiveEqualBits", EqualCallsGiveEqualBits},
    {"MembersHoldTheSameBitsAfterAllReduce", MembersHoldTheSameBitsAfterAllReduce},
    {"SumOfFractionsIsNearTheSerialSum", SumOfFractionsIsNearTheSerialSum},
    {"SplitByColorKeepsTheOrderOfRanks", SplitByColorKeepsTheOrderOfRanks},
    {"SplitByKeyReordersRanks", SplitByKeyReordersRanks},
    {"SplitsNest", SplitsNest},
    {"GroupsOfOneMoveNothing", GroupsOfOneMoveNothing},
    {"MessagesGoRoundARing", MessagesGoRoundARing},
    {"TagsDoNotWaitForEachOther", TagsDoNotWaitForEachOther},
    {"MessagesToOneselfArrive", MessagesToOneselfArrive},
    {"ManyMessagesArriveInOrder", ManyMessagesArriveInOrder},
    {"SendersNeverWaitForReceivers", SendersNeverWaitForReceivers},
    {"GroupsDoNotMixTheirMessages", GroupsDoNotMixTheirMessages},
    {"SharedBytesAreTheRoots", SharedBytesAreTheRoots},
    {"CollectedBytesAreOfEveryMember", CollectedBytesAreOfEveryMember},
    {"TrafficCountsPayloads", TrafficCountsPayloads},
    {"ObserverSeesEveryCallInOrder", ObserverSeesEveryCallInOrder},
};

}  // namespace

std::span<const CollectiveCase> CollectiveCases() { return kCases; }

}  // namespace trireme
