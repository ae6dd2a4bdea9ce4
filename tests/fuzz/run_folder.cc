#include <filesystem>
#include <iterator>

#include "fuzz/fuzz_input.h"
#include "operate/trace_recorder.h"
#include "report/report_page.h"
#include "report/run_record.h"

// A file of a run's folder, or a table or plan beside it, as `status`, `report` and `compare` read it: one byte says
// which.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  static const std::string run = folder.path() + "/run";
  FuzzInput input(data, size);
  constexpr const char* kNames[] = {
      "run/metrics.jsonl", "run/events.jsonl", "run/machine.json",         "run/prediction.json", "run/memory.json",
      "run/trace.json",    "run/run.toml",     "run/trace/rank-00000.txt", "plan.json",           "table.csv"};
  const std::string name = kNames[input.Byte() % std::size(kNames)];
  std::filesystem::create_directories(run + "/trace");
  folder.Write("run/run.toml", "");
  const std::string path = folder.Write(name, input.Rest());
  if (!name.starts_with("run/")) {
    return Tolerate([&] { ReadReportInput({path}); });
  }
  Tolerate([&] { ReadRankTrace(run, 0); });
  Tolerate([&] { ReadRun(run); });
  folder.Remove(name);
  return 0;
}
