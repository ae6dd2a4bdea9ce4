#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "measure/machine.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json CpuJson(const CpuFacts& cpu) {
  std::vector<int> processors;
  for (const Processor& processor : cpu.cores.processors) {
    processors.push_back(processor.id);
  }
  return {{"model", cpu.model},
          {"level", cpu.level},
          {"levels", cpu.levels},
          {"processors", ProcessorListText(processors)},
          {"processors_online", cpu.cores.online},
          {"cores", cpu.cores.cores()},
          {"quota", cpu.cores.quota},
          {"usable_cores", cpu.cores.usable()},
          {"numa_nodes", cpu.cores.nodes()}};
}

Json MemoryJson(const MemoryFacts& memory) {
  return {{"machine_bytes", memory.machine_bytes},
          {"usable_bytes", memory.usable_bytes},
          {"available_bytes", memory.available_bytes},
          {"page_bytes", memory.page_bytes},
          {"transparent_huge_pages", memory.transparent_huge_pages},
          {"huge_pages", memory.huge_pages},
          {"shared_bytes", memory.shared_bytes},
          {"shared_free_bytes", memory.shared_free_bytes}};
}

Json CudaJson(const MachineReport& report) {
  const CudaFacts& cuda = report.cuda;
  Json gpus = Json::array();
  for (const GpuFacts& gpu : cuda.gpus) {
    gpus.push_back({{"name", gpu.name},
                    {"capability", gpu.capability},
                    {"memory_bytes", gpu.memory_bytes},
                    {"built_for", gpu.built_for}});
  }
  return {{"built", cuda.built},
          {"driver", cuda.driver},
          {"nvidia_driver", report.nvidia_driver},
          {"architectures", cuda.architectures},
          {"gpus", std::move(gpus)}};
}

Json ListsOf(const MachineReport& report) {
  Json json;
  json["limits"] = Json::array();
  for (const Limit& limit : report.limits) {
    json["limits"].push_back(
        {{"name", limit.name}, {"ulimit", limit.flag}, {"soft", limit.soft}, {"hard", limit.hard}});
  }
  json["libraries"] = Json::object();
  for (const Library& library : report.libraries) {
    json["libraries"][library.name] = library.version;
  }
  json["missing"] = Json::array();
  for (const Missing& missing : report.missing) {
    json["missing"].push_back({{"what", missing.what}, {"command", missing.command}});
  }
  return json;
}

Json RatesOf(const MachineReport& report) {
  Json json;
  json["products"] = Json::array();
  for (const ProductRate& rate : report.products) {
    json["products"].push_back({{"engine", rate.engine},
                                {"dtype", rate.dtype},
                                {"m", rate.shape.m},
                                {"n", rate.shape.n},
                                {"k", rate.shape.k},
                                {"threads", rate.threads},
                                {"gflops", rate.gflops},
                                {"chosen", rate.chosen}});
  }
  json["copies"] = Json::array();
  for (const CopyRate& rate : report.copies) {
    json["copies"].push_back(
        {{"bytes", rate.bytes}, {"threads", rate.threads}, {"gigabytes_per_second", rate.gigabytes_per_second}});
  }
  return json;
}

}  // namespace

std::string MachineJson(const MachineReport& report) {
  Json json = {{"trireme", report.program},
               {"host", report.system.host},
               {"system", report.system.system},
               {"kernel", report.system.kernel},
               {"architecture", report.system.architecture},
               {"device", report.device},
               {"threads", report.threads},
               {"engines", report.engines},
               {"cpu", CpuJson(report.cpu)},
               {"memory", MemoryJson(report.memory)},
               {"cuda", CudaJson(report)},
               {"pages", {{"report", report.pages.report.empty()}, {"planner", report.pages.planner.empty()}}}};
  json.update(ListsOf(report));
  if (!report.products.empty()) {
    json.update(RatesOf(report));
  }
  return JsonText(json, {.indent = 1}) + "\n";
}

}  // namespace trireme
