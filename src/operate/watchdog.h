// Decides when a run stands still. Fed with what ranks look like from outside; pure arithmetic on those numbers. The
// rule against false alarms: while any rank's ledger moves, nothing is wrong. The limit for standing still is learned
// for each phase from the run itself: from how long each process has stood still. A rank that is a thread among many
// may be silent for long because the others have the cores, which says nothing about how long all of them may be.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct RankSnapshot {
  int rank = 0;
  int process = 0;  // of ranks that are threads of one process the same number, which is not 0
  std::uint64_t beats = 0;
  std::int64_t step = 0;
  std::int64_t steps_before = 0;  // begun and ended by this process
  std::string phase;
  char state = 'R';              // of the rank's thread, as /proc names it, X: gone; 0: not to be seen from here
  double cpu_seconds = 0;        // of the rank's thread
  bool process_on_disk = false;  // a thread of its process is in the state D
  double process_cpu_seconds = 0;
  std::int64_t bytes_moved = 0;  // by its process
  bool steady = false;           // beats after every part of its work
  bool waiting = false;          // in a call that another rank has not reached: not its fault
};

struct WatchLimits {
  double floor = 10;        // seconds that ranks may always stand still
  double factor = 5;        // times the longest standstill seen in the phase
  double unlearned = 1800;  // seconds for work that has no history: start, load, a first save, the first steps
  // Floors for such work of a rank that beats after every part of it, when it computes and neither reads nor writes.
  double patience = 1;
};

// A dead rank explains everything, a stopped one all but that; the order is that of how much it explains.
// A busy one computes; a moving one also reads or writes.
enum class ProcessActivity : std::uint8_t { kDead, kStopped, kIdle, kBusy, kMoving };

struct Alarm {
  ProcessActivity kind = ProcessActivity::kIdle;
  double seconds = 0;  // since the last sign of life of any rank
  double limit = 0;
  std::vector<ProcessActivity> by_rank;  // in the order of the snapshots
  std::vector<double> cpu_share;         // likewise: of a core that the rank's thread has used since its last beat
};

class Watchdog {
 public:
  explicit Watchdog(const WatchLimits& limits) : limits_(limits) {}

  // `now` in seconds of any clock that only goes forward. Call it several times a second.
  std::optional<Alarm> Check(double now, const std::vector<RankSnapshot>& snapshots);

 private:
  struct Rank {
    std::uint64_t beats = 0;
    std::string phase;
    double since = 0;  // its last beat
    RankSnapshot at_beat;
    std::int64_t bytes_moved = 0;
    double moved = 0;  // when they last changed
  };
  // Learns from processes that move again how long they stood still; call it before ranks_ takes the snapshots.
  void Learn(double now, const std::vector<RankSnapshot>& snapshots);
  ProcessActivity KindOf(const Rank& rank, const RankSnapshot& snapshot, double now) const;
  double Limit(ProcessActivity kind, const RankSnapshot& snapshot) const;

  WatchLimits limits_;
  std::map<int, Rank> ranks_;
  std::map<int, double> process_life_;     // when a rank of it last moved
  std::map<std::string, double> longest_;  // standstill of a process by phases of its ranks
  double last_life_ = -1;
  std::int64_t steps_ = 0;
};

}  // namespace trireme
