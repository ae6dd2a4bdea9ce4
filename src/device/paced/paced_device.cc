#include "device/paced/paced_device.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace trireme {
namespace {

// Address space without memory. A pointer even for zero bytes: a Tensor counts as given when its data is not null.
char* Reserve(std::int64_t bytes) {
  Require(bytes >= 0, "cannot allocate {} bytes", bytes);
  void* const memory = mmap(nullptr, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Require(memory != MAP_FAILED,
          "a paced device needs {:.1f} GiB of address space, and the system gives no more: {}; raise `ulimit -v`, or "
          "take fewer ranks",
          static_cast<double>(bytes) / kGibi, std::strerror(errno));
  // One value must not make the system back two megabytes.
  madvise(memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), MADV_NOHUGEPAGE);
  return static_cast<char*>(memory);
}

void GiveBack(std::map<const char*, std::int64_t>& blocks, void* memory) {
  const auto found = blocks.find(static_cast<const char*>(memory));
  if (found != blocks.end()) {
    munmap(memory, static_cast<std::size_t>(std::max<std::int64_t>(found->second, 1)));
    blocks.erase(found);
  }
}

double TimeOf(const Event& event) { return event == nullptr ? 0 : *static_cast<const double*>(event.get()); }

}  // namespace

PacedDevice::PacedDevice(std::shared_ptr<const PacedCluster> cluster)
    : cluster_(std::move(cluster)), ops_(clock_, *cluster_, on_host_) {}

PacedDevice::~PacedDevice() {
  while (!on_device_.empty()) {
    GiveBack(on_device_, const_cast<char*>(on_device_.begin()->first));
  }
  while (!on_host_.empty()) {
    GiveBack(on_host_, const_cast<char*>(on_host_.begin()->first));
  }
}

void* PacedDevice::Allocate(std::int64_t bytes) {
  Require(used_ + bytes <= cluster_->memory_bytes(),
          "out of memory: {:.1f} GiB are wanted of a device of {} with {:.1f} GiB, of which {:.1f} are in use",
          static_cast<double>(bytes) / kGibi, cluster_->name(), static_cast<double>(cluster_->memory_bytes()) / kGibi,
          static_cast<double>(used_) / kGibi);
  char* const memory = Reserve(bytes);
  on_device_[memory] = bytes;
  used_ += bytes;
  return memory;
}

void PacedDevice::Free(void* memory) {
  const auto found = on_device_.find(static_cast<const char*>(memory));
  used_ -= found == on_device_.end() ? 0 : found->second;
  GiveBack(on_device_, memory);
}

void* PacedDevice::AllocateHost(std::int64_t bytes) {
  char* const memory = Reserve(bytes);
  on_host_[memory] = bytes;
  return memory;
}

void PacedDevice::FreeHost(void* memory) { GiveBack(on_host_, memory); }

void PacedDevice::CopyOverLink(std::int64_t bytes) {
  clock_.Operate(cluster_->issue(), cluster_->HostLink(static_cast<double>(bytes)));
  clock_.HostWaits(clock_.stream(clock_.current()));
}

void PacedDevice::CopyToHost(void* host, const void* device, std::int64_t bytes) {
  CopyOverLink(bytes);
  if (bytes > 0) {
    std::memcpy(host, device, static_cast<std::size_t>(bytes));
  }
}

void PacedDevice::CopyFromHost(void* device, const void* host, std::int64_t bytes) {
  CopyOverLink(bytes);
  if (bytes > 0 && bytes <= kPacedValueBytes) {
    std::memcpy(device, host, static_cast<std::size_t>(bytes));
  }
}

void PacedDevice::Synchronize() {
  clock_.HostWaitsForAll();
  clock_.HostWaits(clock_.host() + cluster_->step_end());
}

Event PacedDevice::RecordEvent() { return std::make_shared<const double>(clock_.stream(clock_.current())); }

void PacedDevice::StreamWait(const Event& event) { clock_.StreamWaits(TimeOf(event)); }

void PacedDevice::SynchronizeEvent(const Event& event) { clock_.HostWaits(TimeOf(event)); }

bool PacedDevice::IsReached(const Event& event) { return TimeOf(event) <= clock_.host(); }

Event PacedDevice::OnStream(int stream, const Event& after, const std::function<void()>& work) {
  const int before = clock_.current();
  if (stream == before) {
    StreamWait(after);
    work();
    return nullptr;
  }
  clock_.set_current(stream);
  StreamWait(after);
  try {
    work();
  } catch (...) {
    clock_.set_current(before);
    throw;
  }
  Event done = RecordEvent();
  clock_.set_current(before);
  return done;
}

std::unique_ptr<Device> MakePacedDevice(const DeviceOptions& options) {
  Require(options.paced != nullptr, "device 'paced' needs a cluster that says what its operations cost");
  return std::make_unique<PacedDevice>(options.paced);
}

}  // namespace trireme
