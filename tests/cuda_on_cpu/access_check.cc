#include "cuda_on_cpu/access_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "cuda_on_cpu/access_history.h"
#include "cuda_on_cpu/device_memory.h"
#include "cuda_on_cpu/executor.h"
#include "cuda_on_cpu/fiber.h"
#include "cuda_on_cpu/findings.h"
#include "cuda_on_cpu/operations.h"

namespace trireme::cuda_on_cpu {

constinit thread_local bool in_kernel = false;

namespace {

// The cells of a range of memory: one of each four bytes, and one of each byte.
struct Shadow {
  Cell* words;
  Cell* bytes;
};

constexpr std::uint64_t kSharedWindow = std::uint64_t{16} << 20;  // the thread-local segment, then dynamic memory

struct Regions {
  AddressRange gpu = GpuRange();
  AddressRange stacks = FiberStacks();
  AddressRange image = ProgramImage();
  AddressRange dynamic{reinterpret_cast<std::uintptr_t>(ReserveMemory(std::uint64_t{2} << 20)) + (1 << 20),
                       std::uintptr_t{1} << 20};
  Shadow global{static_cast<Cell*>(ReserveMemory(gpu.bytes / 4 * sizeof(Cell))),
                static_cast<Cell*>(ReserveMemory(gpu.bytes * sizeof(Cell)))};
  Shadow shared{static_cast<Cell*>(ReserveMemory(kSharedWindow / 4 * sizeof(Cell))),
                static_cast<Cell*>(ReserveMemory(kSharedWindow * sizeof(Cell)))};
};

Regions& Known() {
  static Regions regions;
  return regions;
}

Regions* regions = nullptr;
AddressRange thread_segment;
AddressRange parameter_range;
std::uint64_t dynamic_bytes = 0;
// The shared array that each word of the thread-local segment belongs to, as its number + 1.
std::vector<std::uint16_t> array_of_word;
// By array, whether the kernel that runs may access it.
const std::vector<bool>* own_arrays = nullptr;

// One access as it is checked.
struct Request {
  Access access;
  bool shared;
  bool on_host;
  std::uint32_t code;
  std::uintptr_t address;
  std::size_t bytes;
  bool reported = false;
};

std::string Place(const Request& request) {
  const std::string line = request.code == 0 ? std::string() : ", " + SourceLine(regions->image.first + request.code);
  return Describe(actor.run, actor.thread) + line;
}

std::string Target(const Request& request) {
  if (!request.shared) {
    return fmt::format("{} bytes of global memory ({})", request.bytes, DescribeAddress(request.address));
  }
  if (regions->dynamic.Has(request.address)) {
    return fmt::format("{} bytes of dynamic shared memory at byte {} of {}", request.bytes,
                       request.address - regions->dynamic.first, dynamic_bytes);
  }
  const std::uint64_t offset = request.address - thread_segment.first;
  const std::uint16_t array = offset / 4 < array_of_word.size() ? array_of_word[offset / 4] : 0;
  if (array == 0 || !(*own_arrays)[array - 1U]) {
    return fmt::format("{} bytes behind a shared array", request.bytes);
  }
  const SharedArray& of = SharedArrays()[array - 1U];
  const std::string name = Demangled(of.symbol);
  return fmt::format("{} bytes of the shared array {} at byte {} of {}", request.bytes,
                     name.substr(name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1), offset - of.first,
                     of.bytes);
}

const char* Verb(Access access) {
  return access == Access::kRead ? "reads" : access == Access::kWrite ? "writes" : "adds atomically to";
}

void ReportAccess(Request& request, const char* kind, const std::string& why) {
  if (std::exchange(request.reported, true)) {
    return;
  }
  const std::string key = fmt::format("{} {} {} {}", kind, CurrentOperation().name,
                                      reinterpret_cast<std::uintptr_t>(CurrentOperation().kernel), request.code);
  Report(key, fmt::format("{}: {} {} {}{}", kind, Place(request), Verb(request.access), Target(request), why));
}

void ReportRace(Request& request, const Side& other, bool other_wrote) {
  const bool same_block = other.run == actor.run;
  const bool same_operation = other.run >= actor.first_run;
  const std::string line = other.code == 0 ? "" : ", " + SourceLine(regions->image.first + other.code);
  const char* kind = request.shared                         ? "race in shared memory"
                     : !same_operation                      ? "missing wait between streams"
                     : !same_block                          ? "race between blocks"
                     : SameWarp(actor.thread, other.thread) ? "race within a warp"
                                                            : "race within a block";
  const std::string unordered = !same_operation                        ? "neither stream waits for the other"
                                : !same_block                          ? "nothing orders blocks of a launch"
                                : SameWarp(actor.thread, other.thread) ? "no barrier or __syncwarp lies between"
                                                                       : "no barrier lies between";
  ReportAccess(request, kind,
               fmt::format(", which {}{}{} {}: {}", Describe(other.run, other.thread), line,
                           (other.flags & (kManyLanes | kManyWarps | kManyBlocks)) != 0 ? " and others" : "",
                           other_wrote ? "has written" : "has read", unordered));
}

void CheckCellInFull(Cell& cell, Request& request) {
  if (request.shared) {  // what another block left is not there
    if (cell.writer.run != actor.run) {
      cell.writer = {};
    }
    if (cell.reader.run != actor.run) {
      cell.reader = Side{0, 0, 0, 0, 0, 0, cell.reader.mark};
    }
  }
  if (request.access != Access::kWrite && cell.writer.mark == 0 && !request.on_host) {
    ReportAccess(request, request.shared ? "uninitialised shared memory" : "uninitialised global memory",
                 ", which nothing has written");
  }
  if (!AfterWriter(cell.writer, request.access)) {
    ReportRace(request, cell.writer, true);
  }
  if (request.access == Access::kRead) {
    NoteReader(cell, request.code);
    return;
  }
  if (!AfterReaders(cell)) {
    ReportRace(request, cell.reader, false);
  }
  cell.writer = Now(request.code, request.access == Access::kAtomic ? kWasAtomic : 0, 1);
  cell.reader = Side{0, 0, 0, 0, 0, 0, cell.reader.mark};
}

void CheckCell(Cell& cell, Request& request) {
  if (CheckPlainly(cell, request.access, request.shared, request.code)) {
    return;
  }
  CheckCellInFull(cell, request);
}

void CheckCells(const Shadow& shadow, std::uint64_t offset, Request& request) {
  const std::uint64_t end = offset + request.bytes;
  for (std::uint64_t word = offset / 4; word * 4 < end; ++word) {
    Cell& cell = shadow.words[word];
    Cell* const parts = shadow.bytes + word * 4;
    const std::uint64_t first = std::max(offset, word * 4);
    const std::uint64_t last = std::min(end, word * 4 + 4);
    const bool whole = last - first == 4;
    if (whole && cell.reader.mark == 0) {
      CheckCell(cell, request);
      continue;
    }
    if (cell.reader.mark == 0) {
      std::fill_n(parts, 4, cell);
      if ((cell.reader.flags & kMoreReaders) != 0) {
        CopyMoreReaders(cell, parts);
      }
      cell.reader.mark = 1;
    }
    for (std::uint64_t byte = first; byte < last; ++byte) {
      CheckCell(shadow.bytes[byte], request);
    }
    if (whole && request.access != Access::kRead) {
      cell = parts[0];
      cell.reader = {};
    }
  }
}

// Most accesses are to the memory of the one before.
Allocation* last_allocation = nullptr;

bool IsOfLastAllocation(std::uintptr_t address, std::size_t bytes) {
  const Allocation* const last = last_allocation;
  return last != nullptr && !last->freed && last->last_user == CurrentOperationIndex() && bytes <= last->bytes &&
         address - last->first <= last->bytes - bytes;
}

// False, with a report, where the bytes are not of one live allocation.
bool WithinAllocation(Request& request) {
  if (IsOfLastAllocation(request.address, request.bytes)) {
    request.on_host = last_allocation->on_host;
    return true;
  }
  Allocation* const allocation = FindAllocation(request.address);
  last_allocation = allocation;
  if (allocation == nullptr || allocation->freed || request.address < allocation->first ||
      request.address + request.bytes > allocation->first + allocation->bytes) {
    ReportAccess(request, allocation != nullptr && allocation->freed ? "freed memory" : "out of bounds", "");
    return false;
  }
  request.on_host = allocation->on_host;
  if (allocation->last_user != CurrentOperationIndex()) {
    allocation->last_user = CurrentOperationIndex();
    if (allocation->pending || (allocation->born != 0 && !IsOrdered(allocation->born))) {
      ReportAccess(request, "missing wait between streams",
                   ", whose allocation in another stream it does not wait for");
    }
    const Operation& user = CurrentOperation();
    allocation->users.resize(std::max<std::size_t>(allocation->users.size(), user.stream + 1));
    allocation->users[user.stream] = user.number;
  }
  return true;
}

void CheckGlobal(Request& request) {
  if (WithinAllocation(request)) {
    CheckCells(regions->global, request.address - regions->gpu.first, request);
  }
}

// Whether bytes lie in an array that the kernel may have: its own, or one of a function that it calls.
bool WithinArray(std::uint64_t offset, std::size_t bytes) {
  const std::uint16_t array = offset / 4 < array_of_word.size() ? array_of_word[offset / 4] : 0;
  if (array == 0 || !(*own_arrays)[array - 1U]) {
    return false;
  }
  const SharedArray& of = SharedArrays()[array - 1U];
  return offset >= of.first && offset + bytes <= of.first + of.bytes;
}

void CheckStatic(Request& request) {
  const std::uint64_t offset = request.address - thread_segment.first;
  if (!WithinArray(offset, request.bytes)) {
    return ReportAccess(request, "out of bounds", "");
  }
  CheckCells(regions->shared, offset, request);
}

void CheckDynamic(Request& request) {
  const std::uint64_t offset = request.address - regions->dynamic.first;
  if (offset + request.bytes > dynamic_bytes) {
    return ReportAccess(request, "out of bounds", "");
  }
  CheckCells(regions->shared, (kSharedWindow / 2) + offset, request);
}

// Whole words of a place where nothing is wrong, each of one of the common cases: true, and all is noted.
bool CheckWordsPlainly(std::uintptr_t at, std::size_t bytes, Access access, std::uintptr_t code) {
  if ((at | bytes) % 4 != 0) {
    return false;
  }
  Cell* cell = nullptr;
  bool shared = true;
  if (regions->dynamic.Has(at)) {
    const std::uint64_t offset = at - regions->dynamic.first;
    if (offset + bytes > dynamic_bytes) {
      return false;
    }
    cell = regions->shared.words + (kSharedWindow / 2 + offset) / 4;
  } else if (regions->gpu.Has(at)) {
    if (!IsOfLastAllocation(at, bytes)) {
      return false;
    }
    shared = false;
    cell = regions->global.words + (at - regions->gpu.first) / 4;
  } else if (thread_segment.Has(at) && WithinArray(at - thread_segment.first, bytes)) {
    cell = regions->shared.words + (at - thread_segment.first) / 4;
  } else {
    return false;
  }
  const auto place = static_cast<std::uint32_t>(code - regions->image.first);
  for (const Cell* const end = cell + bytes / 4; cell != end; ++cell) {
    if (cell->reader.mark != 0 || !CheckPlainly(*cell, access, shared, place)) {
      return false;  // those before are checked again
    }
  }
  return true;
}

}  // namespace

void CheckAccess(const void* address, std::size_t bytes, Access access, std::uintptr_t code) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (regions->stacks.Has(at) || CheckWordsPlainly(at, bytes, access, code)) {
    return;
  }
  Request request{.access = access,
                  .shared = false,
                  .on_host = false,
                  .code = static_cast<std::uint32_t>(code - regions->image.first),
                  .address = at,
                  .bytes = bytes};
  if (regions->gpu.Has(at)) {
    return CheckGlobal(request);
  }
  if (thread_segment.Has(at)) {
    request.shared = true;
    return CheckStatic(request);
  }
  if (regions->dynamic.Has(at)) {
    request.shared = true;
    return CheckDynamic(request);
  }
  if (access == Access::kRead && (parameter_range.Has(at) || regions->image.Has(at))) {
    return;
  }
  ReportAccess(request, "out of bounds", ": the address is the host's, or none");
  AbandonBlock();
}

bool IsGpuMemory(const void* address) { return GpuRange().Has(reinterpret_cast<std::uintptr_t>(address)); }

void CheckRange(const void* address, std::size_t bytes, Access access) {
  regions = &Known();
  if (bytes > 0) {
    Request request{.access = access, .address = reinterpret_cast<std::uintptr_t>(address), .bytes = bytes};
    CheckGlobal(request);
  }
}

void CheckCopy(void* to, const void* from, std::size_t bytes) {
  regions = &Known();
  Request read{.access = Access::kRead, .address = reinterpret_cast<std::uintptr_t>(from), .bytes = bytes};
  Request write{.access = Access::kWrite, .address = reinterpret_cast<std::uintptr_t>(to), .bytes = bytes};
  if (bytes == 0 || !WithinAllocation(read) || !WithinAllocation(write)) {
    return;
  }
  const bool known = read.on_host;
  read.on_host = true;  // what is not written may be copied
  const std::uint64_t source = read.address - regions->gpu.first;
  const std::uint64_t target = write.address - regions->gpu.first;
  CheckCells(regions->global, source, read);
  CheckCells(regions->global, target, write);
  for (std::size_t i = 0; !known && i < bytes; ++i) {
    const Cell& word = regions->global.words[(source + i) / 4];
    const Cell& cell = word.reader.mark == 0 ? word : regions->global.bytes[source + i];
    if (cell.writer.mark == 0) {
      Cell& written = regions->global.words[(target + i) / 4];
      if (written.reader.mark == 0) {
        std::fill_n(regions->global.bytes + (target + i) / 4 * 4, 4, written);
        written.reader.mark = 1;
      }
      regions->global.bytes[target + i].writer.mark = 0;
    }
  }
}

void ForgetAccesses(std::uintptr_t first, std::uint64_t bytes) {
  regions = &Known();
  const std::uint64_t offset = (first - regions->gpu.first) / 4;
  ClearReserved(regions->global.words + offset, (bytes + 3) / 4 * sizeof(Cell));
  ClearReserved(regions->global.bytes + offset * 4, (bytes + 3) / 4 * 4 * sizeof(Cell));
  const Cell* const words = regions->global.words + offset;
  const Cell* const parts = regions->global.bytes + offset * 4;
  ForgetMoreReaders(words, words + (bytes + 3) / 4);
  ForgetMoreReaders(parts, parts + (bytes + 3) / 4 * 4);
}

void BeginGrid(const void* kernel, const void* parameters, std::size_t bytes) {
  regions = &Known();
  thread_segment = ThreadSegment();
  parameter_range = {reinterpret_cast<std::uintptr_t>(parameters), bytes};
  if (array_of_word.empty()) {
    const std::vector<SharedArray>& arrays = SharedArrays();
    array_of_word.resize(thread_segment.bytes / 4 + 1);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      for (std::uint64_t at = arrays[i].first / 4; at * 4 < arrays[i].first + arrays[i].bytes; ++at) {
        array_of_word[at] = static_cast<std::uint16_t>(i + 1);
      }
    }
  }
  static std::map<const void*, std::vector<bool>> arrays_of;
  const auto [arrays, first_run] = arrays_of.try_emplace(kernel);
  if (first_run) {
    arrays->second = ArraysOf(reinterpret_cast<std::uintptr_t>(kernel));
  }
  own_arrays = &arrays->second;
  in_kernel = true;
}

void EndGrid() { in_kernel = false; }

void BeginBlock(std::uint64_t dynamic) { dynamic_bytes = dynamic; }

void* DynamicSharedMemory() { return reinterpret_cast<void*>(Known().dynamic.first); }

}  // namespace trireme::cuda_on_cpu
