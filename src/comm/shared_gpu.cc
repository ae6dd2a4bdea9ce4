#include "comm/shared_gpu.h"

namespace trireme {

void SharedGpu::BeginPass(int micro_batches) {
  through_host_ = shared() && begun_.insert(micro_batches).second;
  if (through_host_) {
    IdleBarrier();
    comms_.set_through_host(true);
  }
}

void SharedGpu::EndPass() {
  if (through_host_) {
    IdleBarrier();
    comms_.set_through_host(false);
    through_host_ = false;
  }
}

void SharedGpu::BeginTogether() {
  if (shared()) {
    comms_.world().Verify();
  }
}

void SharedGpu::RecordWhileIdle(int micro_batches, const std::function<void()>& record) {
  if (!shared()) {
    return;
  }
  device_.set_repeat_records(false);
  // The first step has loaded kernels and measured products.
  if (++steps_of_[micro_batches] == 2) {
    IdleBarrier();
    record();
    IdleBarrier();
  }
}

void SharedGpu::Leave(Communicator& world, Device& device) {
  if (world.shares_device()) {
    device.Synchronize();
    world.Barrier();
  }
}

void SharedGpu::IdleBarrier() {
  device_.Synchronize();
  comms_.world().Verify();
}

}  // namespace trireme
