#include "measure/chosen_engines.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/checksum.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "device/core_wait.h"
#include "measure/cpu_model.h"

namespace trireme {
namespace {

// Changes when engines or their measurement do.
constexpr int kMeasurement = 5;

// Everything that the choice depends on, in words.
std::string KeyOf(CpuLevel level, int threads) {
  std::string key = fmt::format("trireme {} measurement {}, {}, level {}, {} threads", TRIREME_VERSION, kMeasurement,
                                CpuModel(), NameOf(level), threads);
  for (const ProductEngine engine : {ProductEngine::kOnednn, ProductEngine::kOpenblas, ProductEngine::kBlis}) {
    if (const std::string version = LibraryVersion(engine); !version.empty()) {
      key += fmt::format(", {} {}", NameOf(engine), version);
    }
  }
  return key;
}

std::string PathOf(const std::string& folder, const std::string& key) {
  return fmt::format("{}/engines-{}.txt", folder, ToHex(DigestOf(key)).substr(0, 16));
}

// The table of a file whose first line is its key; empty when it is another one or makes no sense.
std::string ReadTable(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string first;
  std::string table;
  if (!std::getline(file, first) || first != key || !std::getline(file, table) || table.empty()) {
    return "";
  }
  try {
    return EngineTable::Parse(table).ToString();
  } catch (const Error&) {
    return "";
  }
}

// Readers see the old file or the new one, whatever happens in between. A cache that cannot be written is none.
void WriteTable(const std::string& path, const std::string& key, const std::string& table) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  try {
    ReplaceFile(path, fmt::format("{}\n{}\n", key, table));
  } catch (const Error&) {
  }
}

}  // namespace

std::string EngineCacheFolder() {
  if (const char* const cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::string(cache) + "/trireme";
  }
  const char* const home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.cache/trireme";
}

std::string RememberedEngines(int threads, const std::string& folder) {
  const std::string key = KeyOf(ChosenCpuLevel(), threads);
  return folder.empty() ? "" : ReadTable(PathOf(folder, key), key);
}

std::string FastestEnginesHere(int threads, const std::string& folder) {
  return FastestEnginesHere(threads, folder, [&] { return MeasureEngines(ChosenCpuLevel(), threads); });
}

std::string FastestEnginesHere(int threads, const std::string& folder,
                               const std::function<EngineMeasurement()>& measure) {
  if (std::string table = RememberedEngines(threads, folder); !table.empty()) {
    return table;
  }
  const EngineMeasurement measured = measure();
  const std::string table = measured.table.ToString();
  if (!folder.empty() && measured.waited < kQuietShare) {
    const std::string key = KeyOf(ChosenCpuLevel(), threads);
    WriteTable(PathOf(folder, key), key, table);
  }
  return table;
}

std::string FixedEnginesOf(const std::string& engine, bool deterministic) {
  if (engine == "auto" || engine == "packed" || deterministic) {
    return FixedEngines().ToString();
  }
  const ProductEngine wanted = EngineTable::Parse("fp32=" + engine).fp32;
  Require(MakeSingleEngine(wanted, ChosenCpuLevel(), 1) != nullptr,
          "train.engine = \"{}\": this program or this machine has no such engine; `trireme machine` lists those here",
          engine);
  EngineTable table = FixedEngines();
  table.fp32 = wanted;
  if (wanted == ProductEngine::kOnednn) {
    table.bf16 = wanted;
  }
  return table.ToString();
}

std::function<std::string(int threads)> EngineChooser(const std::string& engine, bool deterministic) {
  if (engine != "auto" || deterministic) {
    return {};
  }
  return [](int threads) { return FastestEnginesHere(threads); };
}

DeviceOptions DeviceOptionsOf(const RunConfig& config) {
  const TrainConfig& train = config.train;
  return {.kind = train.device,
          .threads = train.threads,
          .pin = train.pin,
          .engines = FixedEnginesOf(train.engine, train.deterministic),
          .choose_engines = train.device == "paced" ? std::function<std::string(int)>()
                                                    : EngineChooser(train.engine, train.deterministic),
          .deterministic = train.deterministic,
          .tf32 = train.dtype == "tf32"};
}

}  // namespace trireme
