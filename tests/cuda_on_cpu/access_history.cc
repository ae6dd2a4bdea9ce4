#include "cuda_on_cpu/access_history.h"

#include <algorithm>
#include <map>
#include <set>

#include "cuda_on_cpu/executor.h"

namespace trireme::cuda_on_cpu {
namespace {

std::map<const Cell*, std::set<std::uint32_t>>& MoreReaders() {
  static std::map<const Cell*, std::set<std::uint32_t>> readers;
  return readers;
}

bool OrderedInBlock(const Side& other) {
  return other.thread == actor.thread || other.block_epoch != actor.block_epoch ||
         WarpSyncedSince(other.thread, actor.thread, other.warp_epoch);
}

}  // namespace

bool AfterWriter(const Side& writer, Access access) {
  if (writer.run == 0 || ((writer.flags & kWasAtomic) != 0 && access == Access::kAtomic)) {
    return true;
  }
  if (writer.run == actor.run) {
    return OrderedInBlock(writer);
  }
  return writer.run < actor.first_run && IsOrdered(writer.run);
}

bool AfterReaders(const Cell& cell) {
  const Side& reader = cell.reader;
  if (reader.run == 0) {
    return true;
  }
  if ((reader.flags & kMoreReaders) != 0) {
    const auto& others = MoreReaders()[&cell];
    if (!std::ranges::all_of(others, [](std::uint32_t run) { return IsOrdered(run); })) {
      return false;
    }
  }
  if (reader.run < actor.first_run) {
    return IsOrdered(reader.run);
  }
  if (reader.run != actor.run || (reader.flags & kManyBlocks) != 0) {
    return false;
  }
  if (reader.block_epoch != actor.block_epoch) {
    return true;
  }
  if ((reader.flags & kManyWarps) != 0) {
    return false;
  }
  if ((reader.flags & kManyLanes) != 0) {
    return SameWarp(reader.thread, actor.thread) && WarpSyncedSince(reader.thread, actor.thread, reader.warp_epoch);
  }
  return OrderedInBlock(reader);
}

void NoteReader(Cell& cell, std::uint32_t code) {
  const Side before = cell.reader;
  std::uint8_t flags = before.flags & kMoreReaders;
  if (before.run == actor.run) {
    flags |= before.flags & kManyBlocks;
    if (before.block_epoch == actor.block_epoch) {
      if (before.thread == actor.thread && before.warp_epoch == actor.warp_epoch) {
        flags |= before.flags & (kManyLanes | kManyWarps);
      } else if (!SameWarp(before.thread, actor.thread)) {
        flags |= kManyWarps;
      } else {
        flags |= before.flags & kManyWarps;
        if (!WarpSyncedSince(before.thread, actor.thread, before.warp_epoch)) {
          flags |= kManyLanes;
        }
      }
    }
  } else if (before.run >= actor.first_run) {
    flags |= kManyBlocks;
  } else if (before.run != 0 && before.run >= actor.all_ordered_below && !IsOrdered(before.run)) {
    MoreReaders()[&cell].insert(before.run);
    flags |= kMoreReaders;
  }
  cell.reader = Now(code, flags, before.mark);
}

void CopyMoreReaders(const Cell& word, const Cell* bytes) {
  for (int i = 0; i < 4; ++i) {
    MoreReaders()[&bytes[i]] = MoreReaders()[&word];
  }
}

void ForgetMoreReaders(const Cell* first, const Cell* last) {
  auto& all = MoreReaders();
  all.erase(all.lower_bound(first), all.lower_bound(last));
}

}  // namespace trireme::cuda_on_cpu
