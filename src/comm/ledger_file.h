// The bytes of a ledger file, shared by its writer and its reader. Little-endian (base/platform.h).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "comm/ledger.h"

namespace trireme {

inline constexpr std::array<char, 8> kLedgerMagic = {'T', 'R', 'L', 'E', 'D', 'G', 'E', 'R'};
inline constexpr std::uint32_t kLedgerVersion = 2;

struct LedgerFileRecord {
  std::uint64_t number;  // counts from 1; 0 while the record is being written
  std::int64_t sequence;
  std::int64_t count;
  std::int64_t started_ns;
  std::int64_t ended_ns;  // set later, so not under the check
  std::int64_t step;
  std::int32_t peer;
  std::int32_t tag;
  std::uint8_t kind, dtype, op, group;
  std::uint32_t check;
  std::array<char, 16> phase;
  // Times of a call that the device does after the rank's thread went on; set later.
  std::int64_t enqueued_ns;
  std::int64_t running_ns;  // when it was first seen to have started
  std::int64_t stream;

  // A checksum of everything but itself and what is set later.
  std::uint32_t Check(std::uint64_t as_number) const {
    std::uint64_t sum = as_number * 0x9E3779B97F4A7C15ULL;
    std::array<std::uint64_t, 2> name{};
    std::memcpy(name.data(), phase.data(), sizeof phase);
    for (const std::uint64_t part :
         {static_cast<std::uint64_t>(sequence), static_cast<std::uint64_t>(count),
          static_cast<std::uint64_t>(started_ns), static_cast<std::uint64_t>(step),
          static_cast<std::uint64_t>(static_cast<std::uint32_t>(peer)) << 32 | static_cast<std::uint32_t>(tag),
          static_cast<std::uint64_t>(kind) << 24 | static_cast<std::uint64_t>(dtype) << 16 |
              static_cast<std::uint64_t>(op) << 8 | group,
          name[0], name[1]}) {
      sum = (sum ^ part) * 0xFF51AFD7ED558CCDULL;
      sum ^= sum >> 32;
    }
    return static_cast<std::uint32_t>(sum);
  }
};
struct LedgerFileHeader {
  std::array<char, 8> magic;
  std::uint32_t version, header_bytes, record_bytes, capacity;
  std::int32_t rank, pid, thread;
  std::int32_t tensor, context, pipeline, data;
  std::int32_t steady;  // 1: see Ledger::PromiseBeats
  std::uint64_t process_start;
  std::int64_t created_ns;
  std::array<char, 64> host;

  std::uint64_t stamp;  // odd while step and phase are being changed
  std::int64_t step, phase_ns;
  std::int64_t first_step;  // that this process began; 0: none yet
  std::array<char, 24> phase;

  std::uint64_t beats;
  std::int64_t heartbeat_ns;
  struct Group {
    std::array<char, 24> name;
    std::int64_t started, ended;
  };
  std::array<Group, kLedgerGroups> groups;
  std::int64_t end_ns;
  std::uint32_t end;
  std::array<char, 512> message;
};

}  // namespace trireme
