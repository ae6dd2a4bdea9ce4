#include "comm/nccl_session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "comm/nccl_handle.h"

namespace trireme {
namespace {

// How long a thread inside NCCL may take to come out before its communicator is aborted under it.
constexpr auto kPatience = std::chrono::seconds(2);

void Say(const std::string& text) { std::fprintf(stderr, "trireme: %s\n", text.c_str()); }

}  // namespace

NcclSession::NcclSession(bool gpu_is_shared, AbortWorld abort_world)
    : gpu_is_shared_(gpu_is_shared),
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

void NcclSession::AbortAll() {
  aborted_ = true;
  // NCCL takes half a second for the last member of a group: all groups at once.
  const std::lock_guard lock(mutex_);
  std::vector<std::thread> threads;
  threads.reserve(handles_.size());
  for (NcclHandle* const handle : handles_) {
    threads.emplace_back([handle] { handle->Abort(kPatience); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace trireme
