// What is known of the accesses to four bytes, or to one: the last write and the last read.
#pragma once

#include <cstdint>

#include "cuda_on_cpu/access_check.h"
#include "cuda_on_cpu/operations.h"

namespace trireme::cuda_on_cpu {

enum Flags : std::uint8_t {
  kWasAtomic = 1,
  kManyLanes = 2,     // more threads of the reader's warp have read since the last write or barrier
  kManyWarps = 4,     // threads of several warps have
  kManyBlocks = 8,    // several blocks of the operation have
  kMoreReaders = 16,  // reads of other operations are kept beside the cell
};

struct Side {
  std::uint32_t run;   // 0: none
  std::uint32_t code;  // an offset into the program
  std::uint16_t thread;
  std::uint16_t block_epoch;
  std::uint16_t warp_epoch;
  std::uint8_t flags;
  std::uint8_t mark;  // of a writer: whether something was written; of a reader: whether bytes have their own cells
};
static_assert(sizeof(Side) == 16);

struct Cell {
  Side writer;
  Side reader;
};

inline Side Now(std::uint32_t code, std::uint8_t flags, std::uint8_t mark) {
  return {actor.run, code, actor.thread, actor.block_epoch, actor.warp_epoch, flags, mark};
}

// The common cases, which need no more than comparisons. Whether the writer is ordered before the current thread: it is
// the thread itself, or a barrier or the order of operations lies between.
inline bool IsPlainlyOrdered(const Side& writer) {
  return writer.run == actor.run ? writer.block_epoch != actor.block_epoch || writer.thread == actor.thread
                                 : writer.run < actor.all_ordered_below;
}

inline bool ReadPlainly(Side& reader, std::uint32_t code) {
  if (reader.run == actor.run && reader.block_epoch == actor.block_epoch) {
    if ((reader.flags & kManyWarps) != 0) {
      return true;
    }
    if (reader.thread / 32 != actor.thread / 32) {
      reader = Now(code, reader.flags | kManyWarps, reader.mark);
      return true;
    }
    if (reader.warp_epoch != actor.warp_epoch) {
      return false;
    }
    reader.flags |= reader.thread == actor.thread ? 0 : kManyLanes;
    return true;
  }
  const bool none = reader.run == actor.run || reader.run < actor.all_ordered_below;
  if (!none || (reader.flags & (kManyBlocks | kMoreReaders)) != 0) {
    return false;
  }
  reader = Now(code, 0, reader.mark);
  return true;
}

// Whether the access is one of those cases, and has been noted.
inline bool CheckPlainly(Cell& cell, Access access, bool shared, std::uint32_t code) {
  if (!IsPlainlyOrdered(cell.writer)) {
    return false;
  }
  Side& reader = cell.reader;
  if (access == Access::kRead) {
    return cell.writer.mark != 0 && (!shared || cell.writer.run == actor.run) && ReadPlainly(reader, code);
  }
  const bool none = reader.run < actor.all_ordered_below && (reader.flags & kMoreReaders) == 0;
  const bool own = reader.run == actor.run && (reader.flags & ~kWasAtomic) == 0 &&
                   (reader.thread == actor.thread || reader.block_epoch != actor.block_epoch);
  const bool past = reader.run == actor.run && (reader.flags & (kManyBlocks | kMoreReaders)) == 0 &&
                    reader.block_epoch != actor.block_epoch;
  if (access != Access::kWrite || !(none || own || past)) {
    return false;
  }
  cell.writer = Now(code, 0, 1);
  reader = Side{0, 0, 0, 0, 0, 0, reader.mark};
  return true;
}

// In all other cases. Whether the writer is ordered before the current access; both atomic counts as that.
bool AfterWriter(const Side& writer, Access access);
// Whether all readers are ordered before the current access.
bool AfterReaders(const Cell& cell);
// The current thread reads, in the code.
void NoteReader(Cell& cell, std::uint32_t code);
// Four bytes get cells of their own.
void CopyMoreReaders(const Cell& word, const Cell* bytes);
void ForgetMoreReaders(const Cell* first, const Cell* last);

}  // namespace trireme::cuda_on_cpu
