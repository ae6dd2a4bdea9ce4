#include "nn/activation_buffers.h"

#include <algorithm>
#include <cassert>

namespace trireme {

ActivationBuffers::ActivationBuffers(Device& device, char* memory, std::int64_t bytes) : device_(device) {
  for (Buffer& buffer : buffers_) {
    buffer.memory = memory;
    memory += bytes;
  }
}

ActivationBuffers::Buffer* ActivationBuffers::Find(const Home& home) {
  const auto found =
      std::find_if(buffers_.begin(), buffers_.end(), [&](const Buffer& buffer) { return buffer.holds == home.host; });
  return found == buffers_.end() ? nullptr : &*found;
}

ActivationBuffers::Buffer& ActivationBuffers::TakeFree(const Home& home) {
  Buffer* best = nullptr;
  for (Buffer& buffer : buffers_) {
    if (!buffer.taken && (best == nullptr || buffer.used < best->used)) {
      best = &buffer;
    }
  }
  assert(best != nullptr);
  best->holds = home.host;
  best->taken = true;
  best->used = ++clock_;
  return *best;
}

char* ActivationBuffers::Take(const Home& home) {
  if (Buffer* const old = Find(home)) {
    old->holds = nullptr;  // of an earlier micro batch
  }
  Buffer& buffer = TakeFree(home);
  device_.StreamWait(buffer.saved);
  device_.StreamWait(buffer.fetched);
  buffer.fetched = nullptr;
  return buffer.memory;
}

void ActivationBuffers::Prefetch(const Home& home) {
  if (Buffer* const here = Find(home)) {
    here->taken = true;
    here->used = ++clock_;
    return;
  }
  Buffer& buffer = TakeFree(home);
  const Tensor to = Bytes(buffer.memory, home);
  const Tensor from = Bytes(home.host, home);
  Device* const device = &device_;
  buffer.fetched = device_.OnStream(kFromHostStream, device_.RecordEvent(), [device, to, from, saved = buffer.saved] {
    device->StreamWait(saved);
    device->ops().Copy(to, from);
  });
}

char* ActivationBuffers::Get(const Home& home) {
  Buffer* const buffer = Find(home);
  assert(buffer != nullptr && buffer->taken);
  device_.StreamWait(buffer->fetched);
  buffer->fetched = nullptr;
  return buffer->memory;
}

void ActivationBuffers::Save(const Home& home) {
  Buffer* const buffer = Find(home);
  assert(buffer != nullptr && buffer->taken);
  const Tensor to = Bytes(home.host, home);
  const Tensor from = Bytes(buffer->memory, home);
  Device* const device = &device_;
  buffer->saved =
      device_.OnStream(kToHostStream, device_.RecordEvent(), [device, to, from] { device->ops().Copy(to, from); });
  buffer->taken = false;
}

void ActivationBuffers::Drop(const Home& home) {
  Buffer* const buffer = Find(home);
  assert(buffer != nullptr && buffer->taken);
  buffer->holds = nullptr;
  buffer->taken = false;
}

}  // namespace trireme
