#include "device/pinning.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>

namespace trireme {
namespace {

// One processor of each core, by node.
std::map<int, std::vector<int>> CoresByNode(const HostCores& cores) {
  std::map<int, std::vector<int>> by_node;
  std::set<int> seen;
  for (const Processor& processor : cores.processors) {
    if (seen.insert(processor.core).second) {
      by_node[processor.node].push_back(processor.id);
    }
  }
  return by_node;
}

std::vector<int> Slice(const std::vector<int>& processors, std::size_t part, std::size_t length) {
  const auto begin = processors.begin() + static_cast<std::ptrdiff_t>(part * length);
  return {begin, begin + static_cast<std::ptrdiff_t>(length)};
}

}  // namespace

std::vector<std::vector<int>> ProcessorsOfRanks(const HostCores& cores, const PinRequest& request) {
  const bool wanted = request.choice == "cores" || (request.choice == "auto" && cores.nodes().size() > 1);
  if (!wanted || request.ranks * request.threads > cores.usable()) {
    return {};
  }
  const auto ranks = static_cast<std::size_t>(request.ranks);
  const auto threads = static_cast<std::size_t>(request.threads);
  const std::map<int, std::vector<int>> by_node = CoresByNode(cores);
  std::size_t room = 0;  // ranks that fit when none spans two nodes
  std::vector<int> all;
  for (const auto& [node, processors] : by_node) {
    room += processors.size() / threads;
    all.insert(all.end(), processors.begin(), processors.end());
  }
  std::vector<std::vector<int>> result;
  if (room < ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      result.push_back(Slice(all, rank, threads));
    }
    return result;
  }
  // Each node takes ranks in proportion to its room, so that all nodes' memory is used.
  std::size_t room_so_far = 0;
  for (const auto& [node, processors] : by_node) {
    const std::size_t first = ranks * room_so_far / room;
    room_so_far += processors.size() / threads;
    const std::size_t last = ranks * room_so_far / room;
    for (std::size_t rank = first; rank < last; ++rank) {
      result.push_back(Slice(processors, rank - first, threads));
    }
  }
  return result;
}

bool BindThisThread(const std::vector<int>& processors) {
  if (processors.empty()) {
    return false;
  }
  const int count = *std::max_element(processors.begin(), processors.end()) + 1;
  const std::size_t bytes = CPU_ALLOC_SIZE(count);
  const auto free_set = [](cpu_set_t* set) { CPU_FREE(set); };
  const std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(count), free_set);
  CPU_ZERO_S(bytes, set.get());
  for (const int processor : processors) {
    CPU_SET_S(processor, bytes, set.get());
  }
  return sched_setaffinity(0, bytes, set.get()) == 0;
}

std::vector<int> ProcessorsOfThisThread() {
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostProcessors);
  const auto free_set = [](cpu_set_t* set) { CPU_FREE(set); };
  const std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(kMostProcessors), free_set);
  CPU_ZERO_S(bytes, set.get());
  std::vector<int> processors;
  if (sched_getaffinity(0, bytes, set.get()) == 0) {
    for (int processor = 0; processor < kMostProcessors; ++processor) {
      if (CPU_ISSET_S(processor, bytes, set.get())) {
        processors.push_back(processor);
      }
    }
  }
  return processors;
}

ProcessorClaim::ProcessorClaim(const std::vector<int>& processors, const std::string& path) {
  // Opened before it is created: the kernel refuses to "create" another user's file in /tmp.
  file_ = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file_ < 0) {
    file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ >= 0) {
      static_cast<void>(fchmod(file_, 0666));  // whatever the umask: other users' jobs claim here too
    }
  }
  alone_ =
      file_ >= 0 && !processors.empty() && std::all_of(processors.begin(), processors.end(), [this](int processor) {
        struct flock lock {};
        lock.l_type = F_WRLCK;
        lock.l_whence = SEEK_SET;
        lock.l_start = processor;
        lock.l_len = 1;
        return fcntl(file_, F_OFD_SETLK, &lock) == 0;
      });
}

ProcessorClaim::~ProcessorClaim() {
  if (file_ >= 0) {
    close(file_);
  }
}

}  // namespace trireme
