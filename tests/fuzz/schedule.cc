#include "schedule/schedule.h"

#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] {
    const Schedule schedule = ParseSchedule(std::string(FuzzInput(data, size).Rest()), "input");
    if (!(ParseSchedule(ToText(schedule), "again") == schedule)) {
      __builtin_trap();
    }
    for (int stage = 0; stage < schedule.stages; ++stage) {
      PlanSlots(schedule, stage);
    }
    Play(schedule, UnitCosts(schedule));
    DrawGrid(schedule, 80);
  });
}
