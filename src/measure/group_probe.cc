#include "measure/group_probe.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/checksum.h"
#include "comm/ledger.h"
#include "measure/probe_tensors.h"
#include "measure/rate_fit.h"

namespace trireme {
namespace {

std::vector<std::int64_t> SizesOf(const Device& device, bool quick) {
  std::vector<std::int64_t> bytes = {1 << 12, 1 << 16, 1 << 20};
  if (!quick) {
    bytes.push_back(device.is_host() ? 1 << 22 : 1 << 26);
  }
  return bytes;
}

// Half of the way of a message to the next member and back; members work in pairs.
double MessageSecondsOf(RankContext& pair, const Tensor& message, bool quick) {
  Communicator& world = pair.world;
  const int partner = world.rank() ^ 1;
  if (partner >= world.size()) {
    return MedianSeconds(
        pair, [] {}, quick);
  }
  const bool first = world.rank() < partner;
  return MedianSeconds(
             pair,
             [&] {
               if (first) {
                 world.Send(message, partner, 1);
               }
               world.Receive(message, partner, 1);
               if (!first) {
                 world.Send(message, partner, 1);
               }
             },
             quick) /
         2;
}

// What a collective adds to the work before it: in a training step members arrive a little apart, and their data lies
// in another core's cache.
double AfterWork(RankContext& members, const std::function<void()>& collective, bool quick) {
  ProbeTensors tensors(members.device);
  const std::int64_t extent = members.device.is_host() ? 192 : 2048;
  const MatmulArgs product{.a = tensors.Make(DType::kFloat32, {extent, extent}),
                           .b = tensors.Make(DType::kFloat32, {extent, extent}),
                           .c = tensors.Make(DType::kFloat32, {extent, extent})};
  const auto work = [&] { members.device.ops().Matmul(product); };
  const double alone = MedianSeconds(members, work, quick);
  const double both = MedianSeconds(
      members,
      [&] {
        work();
        collective();
      },
      quick);
  return std::max(both - alone, 0.1 * MedianSeconds(members, collective, quick));
}

}  // namespace

RankPlace PlaceOf(RankContext& context) {
  Communicator& world = context.world;
  Device& device = context.device;
  const std::string name = ToHex(DigestOf(HostName())).substr(0, 8);
  const auto mine = static_cast<std::int32_t>(std::stoul(name, nullptr, 16));
  const Tensor own{device.Allocate(4), DType::kInt32, {1}};
  const Tensor all{device.Allocate(4 * world.size()), DType::kInt32, {world.size()}};
  device.CopyFromHost(own.data, &mine, 4);
  world.AllGather(own, all);
  std::vector<std::int32_t> hosts(static_cast<std::size_t>(world.size()));
  device.CopyToHost(hosts.data(), all.data, all.bytes());
  device.Free(own.data);
  device.Free(all.data);
  const std::set<std::int32_t> distinct(hosts.begin(), hosts.end());
  RankPlace place{.nodes = static_cast<int>(distinct.size()), .local_ranks = world.size()};
  place.node = static_cast<int>(std::distance(distinct.begin(), distinct.find(mine)));
  place.local = static_cast<int>(std::count(hosts.begin(), hosts.begin() + world.rank(), mine));
  for (const std::int32_t host : distinct) {
    place.local_ranks = std::min(place.local_ranks, static_cast<int>(std::count(hosts.begin(), hosts.end(), host)));
  }
  return place;
}

GroupRates MeasureGroup(RankContext& context, Communicator& group, DType dtype, const ProbeOptions& options) {
  RankContext members{context.device, group, context.threads};
  std::vector<WorkSample> reduce;
  std::vector<WorkSample> gather;
  std::vector<WorkSample> scatter;
  std::vector<WorkSample> message;
  for (const std::int64_t bytes : SizesOf(context.device, options.quick)) {
    ProbeTensors tensors(context.device);
    const std::int64_t part = std::max<std::int64_t>(bytes / SizeOf(dtype) / group.size(), 1);
    const Tensor whole = tensors.Make(dtype, {part * group.size()});
    const Tensor own = tensors.Make(dtype, {part});
    const auto size = static_cast<double>(whole.bytes());
    const auto seconds = [&](const std::function<void()>& collective) {
      return AfterWork(members, collective, options.quick);
    };
    reduce.push_back({size, seconds([&] { group.AllReduce(whole); })});
    gather.push_back({size, seconds([&] { group.AllGather(own, whole); })});
    scatter.push_back({size, seconds([&] { group.ReduceScatter(whole, own); })});
    message.push_back({size, MessageSecondsOf(members, whole, options.quick)});
  }
  return {.dtype = dtype,
          .ranks = group.size(),
          .all_reduce = FitRate(reduce),
          .all_gather = FitRate(gather),
          .reduce_scatter = FitRate(scatter),
          .message = FitRate(message)};
}

std::vector<GroupRates> MeasureGroups(RankContext& context, DType dtype, const ProbeOptions& options) {
  const RankPlace place = PlaceOf(context);
  std::vector<GroupRates> rates;
  const auto measure = [&](int color, int size, int nodes) {
    if (options.progress && context.world.rank() == 0) {
      options.progress(nodes > 1 ? "collectives across nodes" : "collectives");
    }
    const std::unique_ptr<Communicator> group = context.world.Split("probe", color, context.world.rank());
    if (group->size() == size) {
      rates.push_back(MeasureGroup(context, *group, dtype, options));
      rates.back().nodes = nodes;
    }
    context.world.Barrier();
  };
  for (int size = 2; size <= place.local_ranks; size *= 2) {
    measure(place.node * context.world.size() + place.local / size, size, 1);
  }
  if (place.nodes > 1) {
    measure(place.local, place.nodes, place.nodes);
    if (place.local_ranks > 1) {
      measure(0, context.world.size(), place.nodes);
    }
  }
  return rates;
}

}  // namespace trireme
