#include "base/accounting.h"

#include <numeric>

namespace trireme {

std::string_view Name(MemoryKind kind) {
  static constexpr std::array<std::string_view, kMemoryKinds> kNames = {
      "weights", "gradients", "optimizer", "activations", "scratch", "messages", "host"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view Name(CollectiveKind kind) {
  static constexpr std::array<std::string_view, kCollectiveKinds> kNames = {
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "receive", "barrier"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::int64_t MemoryUse::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}) - (*this)[MemoryKind::kHost];
}

MemoryUse& MemoryUse::operator+=(const MemoryUse& other) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] += other.bytes[i];
  }
  return *this;
}

FlopCount& FlopCount::operator+=(const FlopCount& other) {
  matmul += other.matmul;
  update += other.update;
  attention += other.attention;
  recomputed += other.recomputed;
  return *this;
}

FlopCount FlopCount::operator*(std::int64_t times) const {
  return {.matmul = matmul * times,
          .attention = attention * times,
          .recomputed = recomputed * times,
          .update = update * times};
}

void Traffic::Add(CollectiveKind kind, std::int64_t payload_bytes, std::int64_t times) {
  calls[static_cast<std::size_t>(kind)] += times;
  bytes[static_cast<std::size_t>(kind)] += payload_bytes * times;
}

Traffic& Traffic::operator+=(const Traffic& other) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i] += other.calls[i];
    bytes[i] += other.bytes[i];
  }
  return *this;
}

Traffic Traffic::operator-(const Traffic& earlier) const {
  Traffic difference;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    difference.calls[i] = calls[i] - earlier.calls[i];
    difference.bytes[i] = bytes[i] - earlier.bytes[i];
  }
  return difference;
}

}  // namespace trireme
