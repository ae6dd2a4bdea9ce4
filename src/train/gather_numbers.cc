#include "train/gather_numbers.h"

namespace trireme {

std::vector<std::vector<std::int64_t>> GatherNumbers(Communicator& group, Device& device,
                                                     const std::vector<std::int64_t>& mine) {
  const auto width = static_cast<std::int64_t>(mine.size());
  const std::int64_t count = group.size() * width;
  auto* const memory = static_cast<std::int64_t*>(device.Allocate((count + width) * 8));
  const Tensor own{memory + count, DType::kInt64, {width}};
  const Tensor all{memory, DType::kInt64, {count}};
  device.CopyFromHost(own.data, mine.data(), own.bytes());
  group.AllGather(own, all);
  std::vector<std::int64_t> flat(static_cast<std::size_t>(count));
  device.CopyToHost(flat.data(), all.data, all.bytes());
  device.Free(memory);
  std::vector<std::vector<std::int64_t>> by_member;
  for (auto at = flat.begin(); at != flat.end(); at += width) {
    by_member.emplace_back(at, at + width);
  }
  return by_member;
}

}  // namespace trireme
