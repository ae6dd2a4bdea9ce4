#include "lowering/module_program.h"

#include <algorithm>

#include "lowering/operands.h"

namespace trireme {
namespace {

// When a buffer is in use: the part of the program, and the first and last of that part's steps.
struct Lifetime {
  int part = kNoId;
  int first = 0;
  int last = 0;
  bool several_parts = false;
};

std::vector<Lifetime> LifetimesOf(const ModuleProgram& program) {
  std::vector<Lifetime> lifetimes(program.buffers.size());
  const std::vector<ProgramStep>* parts[] = {&program.forward, &program.backward, &program.backward_weight};
  for (int part = 0; part < 3; ++part) {
    for (int step = 0; step < static_cast<int>(parts[part]->size()); ++step) {
      for (const Operand& operand : OperandsOf((*parts[part])[static_cast<std::size_t>(step)].work)) {
        if (!operand.is_buffer()) {
          continue;
        }
        Lifetime& lifetime = lifetimes[static_cast<std::size_t>(operand.id)];
        if (lifetime.part == kNoId) {
          lifetime = {.part = part, .first = step};
        }
        lifetime.several_parts = lifetime.several_parts || lifetime.part != part;
        lifetime.last = step;
      }
    }
  }
  return lifetimes;
}

std::int64_t BytesOf(const Place& place) { return RoundUp(place.shape.count() * SizeOf(place.dtype), kPlanAlignment); }

// The largest buffers first, each at the lowest offset where no other lies that is in use at the same time.
std::int64_t PlaceScratch(std::vector<Place>& buffers, const std::vector<Lifetime>& lifetimes,
                          std::vector<int> members) {
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return BytesOf(buffers[static_cast<std::size_t>(a)]) > BytesOf(buffers[static_cast<std::size_t>(b)]);
  });
  std::int64_t end = 0;
  std::vector<int> placed;
  for (const int member : members) {
    Place& place = buffers[static_cast<std::size_t>(member)];
    const Lifetime& own = lifetimes[static_cast<std::size_t>(member)];
    std::int64_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (const int other : placed) {
        const Place& there = buffers[static_cast<std::size_t>(other)];
        const Lifetime& theirs = lifetimes[static_cast<std::size_t>(other)];
        const bool together = own.part == theirs.part && own.first <= theirs.last && theirs.first <= own.last;
        if (together && offset < there.offset + BytesOf(there) && there.offset < offset + BytesOf(place)) {
          offset = there.offset + BytesOf(there);
          moved = true;
        }
      }
    }
    place.area = Area::kScratch;
    place.offset = offset;
    placed.push_back(member);
    end = std::max(end, offset + BytesOf(place));
  }
  return end;
}

}  // namespace

void PlaceBuffers(ModuleProgram& program) {
  const std::vector<Lifetime> lifetimes = LifetimesOf(program);
  std::vector<int> scratch;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    Place& place = program.buffers[i];
    const auto buffer = static_cast<BufferId>(i);
    if (place.area == Area::kWeights) {
      place.offset = program.weight_bytes;
      program.weight_bytes += BytesOf(place);
    } else if (buffer == kModuleOutput || buffer == kGradOutput || buffer == kGradInput) {
      place.area = Area::kGiven;
    } else if (buffer == kModuleInput || lifetimes[i].several_parts) {
      place.area = Area::kKept;
      place.offset = program.kept_bytes;
      program.kept_bytes += BytesOf(place);
    } else if (lifetimes[i].part != kNoId) {
      scratch.push_back(buffer);
    }
  }
  program.scratch_bytes = PlaceScratch(program.buffers, lifetimes, std::move(scratch));
}

namespace {

// Sizes with equal keys are compared.
std::uint64_t KeyOf(const LocalSizes& s) {
  const bool flags[] = {s.sequence_parallel,
                        s.split_backward,
                        s.recompute_norms,
                        s.recompute_activation,
                        s.recompute_attention,
                        s.recompute_block,
                        s.ring,
                        s.experts > 0,
                        s.rotary};
  std::uint64_t key = 0;
  for (const bool flag : flags) {
    key = 2 * key + (flag ? 1 : 0);
  }
  for (const std::int64_t size :
       {s.batch, std::int64_t{s.tensor}, std::int64_t{s.context}, std::int64_t{s.head_ranks}}) {
    key = key * 1'000'003 + static_cast<std::uint64_t>(size);
  }
  return key;
}

}  // namespace

std::shared_ptr<const ModuleProgram> BlockProgramCache::ProgramOf(const ModelConfig& model, const LocalSizes& sizes) {
  constexpr std::size_t kMost = 512;
  if (model_ != model) {
    model_ = model;
    entries_.clear();
  }
  const std::uint64_t key = KeyOf(sizes);
  const auto [first, last] = entries_.equal_range(key);
  for (auto entry = first; entry != last; ++entry) {
    if (entry->second.sizes == sizes) {
      return entry->second.program;
    }
  }
  if (entries_.size() == kMost) {
    entries_.clear();
  }
  auto program = std::make_shared<const ModuleProgram>(PlanBlock(model, sizes));
  entries_.emplace(key, Entry{sizes, program});
  return program;
}

ModuleProgram PlanBlock(const ModelConfig& model, const LocalSizes& sizes, ProgramPurpose purpose) {
  ModuleProgram program = LowerBlock(DescribeOperations(model, sizes.experts > 0, sizes.rotary), sizes, purpose);
  PlaceBuffers(program);
  return program;
}

std::vector<int> RowsOf(const ParameterTable& table, const ModuleProgram& program, std::int64_t module) {
  std::vector<int> rows = table.OfModule(module);
  if (program.tied == static_cast<int>(rows.size())) {  // a tied table is listed with the embedding alone
    rows.push_back(table.token_table());
  }
  return rows;
}

}  // namespace trireme
