// A rank's flight record: a ring of its last collectives, its phase and its heartbeat, in a memory-mapped file that
// outlives the process however it ends. One writer, the rank's thread, which never waits (when a device has started and
// ended a collective is added by another thread); any process may read the file at any time, so readers check every
// record and drop the torn ones. It sends no messages.
//
// The file: one LedgerHeader, then kLedgerRecords records of 104 bytes. Times are nanoseconds since 1970.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/phase_clock.h"
#include "topology/layout.h"

namespace trireme {

inline constexpr int kLedgerRecords = 2048;
inline constexpr int kLedgerGroups = 12;
// The phase that every step begins with.
inline constexpr std::string_view kFirstPhase = "batch";

enum class LedgerEnd : std::uint8_t { kRunning, kFinished, kStopped, kFailed };

struct LedgerFileHeader;
struct LedgerFileRecord;

// Told of what a ledger is told of, on the rank's thread, with the ledger's times; must be quick.
class LedgerListener {
 public:
  virtual ~LedgerListener() = default;
  virtual void PhaseBegan(std::int64_t step, std::string_view name, int micro_batch, std::int64_t now) = 0;
  virtual void CallStarted(const std::string& group, const CollectiveCall& call, std::int64_t now) = 0;
  virtual void CallEnded(std::int64_t now) = 0;
};

class Ledger : public CollectiveObserver {
 public:
  // Replaces what an earlier process left as FOLDER/rank-00003.ledger. Construct it on the rank's thread. An Error when
  // the file cannot be made or its space is not there.
  Ledger(const std::string& folder, int rank, const ParallelLayout& layout);
  ~Ledger() override;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // The part of a step that begins now: "forward", "reduce"; at most 23 characters count. micro_batch: that it works
  // on, for the listener; -1: none.
  void SetPhase(std::int64_t step, std::string_view name, int micro_batch = -1);
  // nullptr: none. Outlives the ledger or is replaced.
  void set_listener(LedgerListener* listener) { listener_ = listener; }
  // Called at the end of every SetPhase, on the rank's thread: drills hook in here.
  void set_on_phase(std::function<void(std::int64_t step, std::string_view name)> hook) { on_phase_ = std::move(hook); }
  bool has_on_phase() const { return static_cast<bool>(on_phase_); }
  // Gives the times of phases and calls for TakePhases and the listener instead of the wall clock, in nanoseconds; the
  // file keeps the wall clock.
  void set_clock(std::function<std::int64_t()> clock) { clock_of_phases_ = std::move(clock); }
  // Seconds by phase and by group since the last call: of the rank's thread, which on a GPU is not what the device
  // took.
  PhaseTimes TakePhases();
  // A beat within a phase: the rank has done a part of its work.
  void Alive();
  // From now on this rank beats after every module and tensor that it works on, so that silence is no sign of long
  // work. Devices that work behind the rank's back cannot promise it.
  void PromiseBeats();
  // How often it has beaten, whether it promised beats and whether its phase takes as long as disks do, for other
  // threads of the process at any time. Reading the file instead would count as bytes that the process moves.
  std::uint64_t beats() const;
  bool steady() const;
  bool on_disk() const { return on_disk_.load(std::memory_order_relaxed); }
  // How the rank ended, and why; at most 511 characters count. Without it readers take the rank for running or killed.
  void Finish(LedgerEnd end, std::string_view message);

  void Started(const std::string& group, std::int64_t sequence, const CollectiveCall& call) override;
  void Ended(const std::string& group, std::int64_t sequence) override;
  std::uint64_t last_ticket() const override { return next_; }
  void Enqueued(const std::string& group, std::int64_t sequence, int stream) override;
  void DeviceStarted(std::uint64_t ticket) override;
  void DeviceEnded(std::uint64_t ticket) override;

 private:
  int GroupIndex(const std::string& group);
  // The record of a call, or nullptr when newer calls have taken its place.
  LedgerFileRecord* RecordOf(std::uint64_t ticket);
  void Beat(std::int64_t now);
  // `now`, or what set_clock's function says.
  std::int64_t PhaseTime(std::int64_t now) const { return clock_of_phases_ ? clock_of_phases_() : now; }

  LedgerFileHeader* header_ = nullptr;
  LedgerFileRecord* records_ = nullptr;
  std::uint64_t next_ = 0;
  std::atomic<bool> on_disk_ = true;  // until the first phase
  PhaseClock clock_;
  std::function<std::int64_t()> clock_of_phases_;
  std::function<void(std::int64_t, std::string_view)> on_phase_;
  LedgerListener* listener_ = nullptr;
};

// What a file says, checked: no field is out of its range and no text holds control characters.
struct LedgerCall {
  std::string group;
  std::int64_t sequence = 0;  // among the calls that the rank made in the group
  CollectiveCall call;
  std::int64_t step = 0;
  std::string phase;
  std::int64_t started_ns = 0;
  std::int64_t ended_ns = 0;  // 0: it had not ended
  // Times of a call that the device does after the rank's thread went on; 0: not so, or not yet.
  std::int64_t enqueued_ns = 0;
  std::int64_t running_ns = 0;
  int stream = 0;
};

struct LedgerGroup {
  std::string name;
  std::int64_t started = -1;  // sequence of the last call
  std::int64_t ended = -1;
};

struct RankRecord {
  int rank = 0;
  ParallelLayout layout;  // the degrees only
  int pid = 0;
  int thread = 0;                   // the rank's thread, by the system's number
  std::uint64_t process_start = 0;  // field 22 of /proc/PID/stat: tells a process from a later one of the same number
  std::string host;
  std::int64_t created_ns = 0;
  std::uint64_t beats = 0;  // grows with every phase, collective and part of work
  bool steady = false;      // see Ledger::PromiseBeats
  std::int64_t heartbeat_ns = 0;
  std::int64_t step = 0;
  std::int64_t first_step = 0;  // that the process began; 0: none yet
  std::string phase;
  std::int64_t phase_ns = 0;  // when the phase began
  LedgerEnd end = LedgerEnd::kRunning;
  std::string message;
  std::int64_t end_ns = 0;
  std::vector<LedgerGroup> groups;
  std::vector<LedgerCall> calls;  // oldest first; empty when only the head was read
  int torn = 0;                   // records that were being written, or are damaged

  int world() const { return layout.ranks(); }
  // The call that the rank's thread is in, else the oldest that its device has not ended; nullptr when there is none.
  const LedgerCall* InCall() const;
};

// kRecent: the last kRecentCalls of the calls, for folders with the ledgers of thousands of ranks.
enum class LedgerPart { kHead, kRecent, kAll };
inline constexpr std::size_t kRecentCalls = 256;
// An Error when the file is no ledger of this version.
RankRecord ReadLedger(const std::string& path, LedgerPart part = LedgerPart::kAll);
// Paths of the ledgers in a folder, by rank; none when there is no such folder.
std::vector<std::string> ListLedgers(const std::string& folder);
std::string LedgerName(int rank);  // rank-00003.ledger

// This machine, as ledgers name it.
std::string HostName();
// Now, as ledgers count it.
std::int64_t WallNanoseconds();
// What a file of /proc says; empty when its process or thread is gone, if only since it was opened.
std::string ReadProcessFile(const std::string& path);
// Field 22 of /proc/PID/stat; 0 when there is no such process.
std::uint64_t ProcessStart(int pid);

}  // namespace trireme
