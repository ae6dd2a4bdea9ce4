// How long threads of this process stood ready without a core, because other processes had them: what tells a
// measurement on a busy machine from one on a quiet machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace trireme {

// Nanoseconds that each thread of this process, by its number, has waited for a core so far, from
// `root`/proc/self/task/*/schedstat; empty where the kernel does not count them.
std::map<int, std::int64_t> ReadCoreWaits(const std::string& root = "");

// The share of `seconds` that `threads` threads waited between two readings, at most 0.95. Threads that have ended
// meanwhile are left out.
double WaitedShare(const std::map<int, std::int64_t>& before, const std::map<int, std::int64_t>& after, double seconds,
                   int threads);

// Below this a machine counts as quiet: timers and kernel threads take as much.
inline constexpr double kQuietShare = 0.1;

// From its construction on.
class CoreWait {
 public:
  CoreWait();
  // Share of the time so far that threads waited for cores, while `threads` threads had work.
  double Share(int threads) const;

 private:
  std::map<int, std::int64_t> before_;
  double start_ = 0;
};

}  // namespace trireme
