#include "comm/ledger.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "base/durable_file.h"
#include "base/error.h"
#include "comm/ledger_file.h"

namespace trireme {
namespace {

template <std::size_t kSize>
void PutText(std::array<char, kSize>& to, std::string_view text) {
  to.fill(0);
  std::copy_n(text.begin(), std::min(text.size(), kSize - 1), to.begin());
}

template <typename Value>
void Publish(Value& place, Value value) {
  std::atomic_ref(place).store(value, std::memory_order_release);
}

// Phases whose length depends on disks.
bool IsOnDisk(std::string_view phase) {
  return phase == "start" || phase == "load" || phase == "save" || phase == "end" || phase == "dump";
}

// A mapped file of `bytes` zeros whose space is reserved: a full disk must be an Error here and not a SIGBUS later.
void* MapNewFile(const std::string& path, std::size_t bytes) {
  const std::string unfinished = path + ".new";
  const int file = open(unfinished.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  Require(file >= 0, "cannot make '{}': {}", unfinished, std::generic_category().message(errno));
  const int full = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* const memory =
      full == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : static_cast<void*>(MAP_FAILED);
  const int why = full != 0 ? full : errno;
  close(file);
  if (memory == MAP_FAILED || rename(unfinished.c_str(), path.c_str()) != 0) {
    unlink(unfinished.c_str());
    Fail("cannot make '{}' of {} bytes: {}", path, bytes, std::generic_category().message(why));
  }
  return memory;
}

// Ledgers of ranks that this run does not have would be read as its own.
void RemoveLedgersFrom(const std::string& folder, int ranks) {
  for (const std::string& path : ListLedgers(folder)) {
    if (std::filesystem::path(path).filename().string() >= LedgerName(ranks)) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  }
}

}  // namespace

std::int64_t WallNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

std::string HostName() {
  std::array<char, 64> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string ReadProcessFile(const std::string& path) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::array<char, 4096> part;
  for (ssize_t more = file >= 0 ? 1 : 0; more > 0;) {
    more = read(file, part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(std::max<ssize_t>(more, 0)));
  }
  if (file >= 0) {
    close(file);
  }
  return text;
}

std::uint64_t ProcessStart(int pid) {
  const std::string text = ReadProcessFile(fmt::format("/proc/{}/stat", pid));
  std::size_t at = text.rfind(')');  // the name before it may hold anything
  for (int field = 2; at != std::string::npos && field < 22; ++field) {
    at = text.find(' ', at + 1);
  }
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + 1, nullptr, 10);
}

std::string LedgerName(int rank) { return fmt::format("rank-{:05d}.ledger", rank); }

Ledger::Ledger(const std::string& folder, int rank, const ParallelLayout& layout) {
  RefuseLink(folder);
  MakeDirectories(folder);
  if (rank == 0) {
    RemoveLedgersFrom(folder, layout.ranks());
  }
  constexpr std::size_t kBytes = sizeof(LedgerFileHeader) + kLedgerRecords * sizeof(LedgerFileRecord);
  header_ = static_cast<LedgerFileHeader*>(MapNewFile(folder + "/" + LedgerName(rank), kBytes));
  records_ = reinterpret_cast<LedgerFileRecord*>(header_ + 1);
  header_->version = kLedgerVersion;
  header_->header_bytes = sizeof(LedgerFileHeader);
  header_->record_bytes = sizeof(LedgerFileRecord);
  header_->capacity = kLedgerRecords;
  header_->rank = rank;
  header_->pid = getpid();
  header_->thread = gettid();
  header_->tensor = layout.tensor;
  header_->context = layout.context;
  header_->pipeline = layout.pipeline;
  header_->data = layout.data;
  header_->process_start = ProcessStart(getpid());
  header_->created_ns = WallNanoseconds();
  PutText(header_->host, HostName());
  for (LedgerFileHeader::Group& group : header_->groups) {
    group.started = -1;
    group.ended = -1;
  }
  // Readers look for the magic word first.
  std::atomic_thread_fence(std::memory_order_release);
  header_->magic = kLedgerMagic;
  SetPhase(0, "start");
}

Ledger::~Ledger() { munmap(header_, sizeof(LedgerFileHeader) + kLedgerRecords * sizeof(LedgerFileRecord)); }

void Ledger::Beat(std::int64_t now) {
  Publish(header_->heartbeat_ns, now);
  std::atomic_ref(header_->beats).fetch_add(1, std::memory_order_release);
}

void Ledger::SetPhase(std::int64_t step, std::string_view name, int micro_batch) {
  const std::int64_t now = WallNanoseconds();
  Publish(header_->stamp, header_->stamp + 1);
  header_->step = step;
  header_->phase_ns = now;
  PutText(header_->phase, name);
  on_disk_.store(IsOnDisk(name), std::memory_order_relaxed);
  if (header_->first_step == 0 && name == kFirstPhase) {
    header_->first_step = step;
  }
  Publish(header_->stamp, header_->stamp + 1);
  clock_.Enter(name, PhaseTime(now));
  Beat(now);
  if (listener_ != nullptr) {
    listener_->PhaseBegan(step, name, micro_batch, PhaseTime(now));
  }
  if (on_phase_) {
    on_phase_(step, name);
  }
}

PhaseTimes Ledger::TakePhases() { return clock_.Take(PhaseTime(WallNanoseconds())); }

void Ledger::Alive() { Beat(WallNanoseconds()); }

void Ledger::PromiseBeats() { Publish(header_->steady, 1); }

std::uint64_t Ledger::beats() const { return std::atomic_ref(header_->beats).load(std::memory_order_acquire); }

bool Ledger::steady() const { return std::atomic_ref(header_->steady).load(std::memory_order_acquire) == 1; }

void Ledger::Finish(LedgerEnd end, std::string_view message) {
  PutText(header_->message, message);
  header_->end_ns = WallNanoseconds();
  Publish(header_->end, static_cast<std::uint32_t>(end));
}

int Ledger::GroupIndex(const std::string& group) {
  for (int i = 0; i < kLedgerGroups; ++i) {
    std::array<char, 24>& name = header_->groups[static_cast<std::size_t>(i)].name;
    if (name[0] == 0) {
      PutText(name, group);
    }
    if (group.compare(0, name.size() - 1, name.data()) == 0) {
      return i;
    }
  }
  return kLedgerGroups - 1;  // more groups than places share the last
}

void Ledger::Started(const std::string& group, std::int64_t sequence, const CollectiveCall& call) {
  const int index = GroupIndex(group);
  const std::int64_t now = WallNanoseconds();
  LedgerFileRecord& record = records_[next_++ % kLedgerRecords];
  Publish(record.number, std::uint64_t{0});
  record.sequence = sequence;
  record.count = call.count;
  record.started_ns = now;
  record.ended_ns = 0;
  record.enqueued_ns = 0;
  record.running_ns = 0;
  record.stream = 0;
  record.step = header_->step;
  record.peer = call.peer;
  record.tag = call.tag;
  record.kind = static_cast<std::uint8_t>(call.kind);
  record.dtype = static_cast<std::uint8_t>(call.dtype);
  record.op = static_cast<std::uint8_t>(call.op);
  record.group = static_cast<std::uint8_t>(index);
  PutText(record.phase, std::string_view(header_->phase.data()));
  record.check = record.Check(next_);
  Publish(record.number, next_);
  Publish(header_->groups[static_cast<std::size_t>(index)].started, sequence);
  clock_.CollectiveStarted(PhaseTime(now));
  Beat(now);
  if (listener_ != nullptr) {
    listener_->CallStarted(group, call, PhaseTime(now));
  }
}

void Ledger::Ended(const std::string& group, std::int64_t sequence) {
  const int index = GroupIndex(group);
  const std::int64_t now = WallNanoseconds();
  // Calls do not nest, so that the one that ends is the last.
  LedgerFileRecord& record = records_[(next_ - 1) % kLedgerRecords];
  if (record.group == index && record.sequence == sequence) {
    Publish(record.ended_ns, now);
  }
  Publish(header_->groups[static_cast<std::size_t>(index)].ended, sequence);
  clock_.CollectiveEnded(group, PhaseTime(now));
  Beat(now);
  if (listener_ != nullptr) {
    listener_->CallEnded(PhaseTime(now));
  }
}

void Ledger::Enqueued(const std::string& group, std::int64_t /*sequence*/, int stream) {
  const std::int64_t now = WallNanoseconds();
  LedgerFileRecord& record = records_[(next_ - 1) % kLedgerRecords];
  Publish(record.stream, std::int64_t{stream});
  Publish(record.enqueued_ns, now);
  clock_.CollectiveEnded(group, PhaseTime(now));
  Beat(now);
}

LedgerFileRecord* Ledger::RecordOf(std::uint64_t ticket) {
  LedgerFileRecord& record = records_[(ticket - 1) % kLedgerRecords];
  return ticket > 0 && std::atomic_ref(record.number).load(std::memory_order_acquire) == ticket ? &record : nullptr;
}

void Ledger::DeviceStarted(std::uint64_t ticket) {
  if (LedgerFileRecord* const record = RecordOf(ticket)) {
    Publish(record->running_ns, WallNanoseconds());
  }
}

void Ledger::DeviceEnded(std::uint64_t ticket) {
  const std::int64_t now = WallNanoseconds();
  if (LedgerFileRecord* const record = RecordOf(ticket)) {
    Publish(record->ended_ns, now);
    Publish(header_->groups[record->group].ended, record->sequence);
  }
  Beat(now);
}

}  // namespace trireme
