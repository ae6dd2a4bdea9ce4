#include "comm/nccl_session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "comm/nccl_handle.h"

namespace trireme {
namespace {

// How long a thread inside NCCL may take to come out before its communicator is aborted under it: it may wait for the
// device to take a launch, which happens once the others are aborted.
constexpr auto kPatience = std::chrono::seconds(2);

}  // namespace

void NcclSession::Say(const std::string& text) { std::fprintf(stderr, "trireme: %s\n", text.c_str()); }

NcclSession::NcclSession(GpuUse use, AbortWorld abort_world)
    : use_(use),
      abort_world_(std::move(abort_world)),
      watch_({.say = Say, .give_up = [this](int rank, const std::string& message) {
                Say(fmt::format("rank {}: {}: all communicators are aborted", rank, message));
                if (abort_world_) {
                  abort_world_(rank, message);
                }
                AbortAll();
              }}) {}

void NcclSession::Add(NcclHandle& handle) {
  const std::lock_guard lock(mutex_);
  handles_.push_back(&handle);
}

void NcclSession::Remove(NcclHandle& handle) {
  const std::lock_guard lock(mutex_);
  std::erase(handles_, &handle);
}

NcclSession::~NcclSession() {
  for (std::thread& abort : aborts_) {
    abort.join();
  }
}

void NcclSession::AbortAll() {
  aborted_ = true;
  const std::lock_guard lock(mutex_);
  std::vector<ncclComm_t> taken(handles_.size(), nullptr);
  {
    std::vector<std::jthread> takers;  // at once: a thread inside NCCL may keep one for a while
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      takers.emplace_back([this, &taken, i] { taken[i] = handles_[i]->Take(kPatience); });
    }
  }
  for (ncclComm_t const comm : taken) {
    if (comm != nullptr) {
      aborts_.emplace_back([comm] { ncclCommAbort(comm); });
    }
  }
}

}  // namespace trireme
