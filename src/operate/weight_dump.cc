#include "operate/weight_dump.h"

#include <fmt/format.h>

#include <vector>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/hugging_face/safetensors.h"

namespace trireme {

void DumpWeights(Trainer& trainer, const std::string& folder, std::int64_t step, const std::string& when) {
  std::vector<SafetensorsEntry> entries;
  std::string data;
  const ParameterTable& table = trainer.table();
  for (std::size_t row = 0; row < table.rows().size(); ++row) {
    if (!trainer.parts().HoldsRow(static_cast<int>(row))) {
      continue;
    }
    const std::vector<float> values = trainer.parts().WeightOnHost(static_cast<int>(row));
    const Shape shape = LocalShape(table.rows()[row], trainer.config().layout.tensor);
    SafetensorsEntry entry{.name = table.rows()[row].name, .dtype = "F32", .shape = {}};
    for (int dim = 0; dim < shape.rank(); ++dim) {
      entry.shape.push_back(shape[dim]);
    }
    entry.begin = static_cast<std::int64_t>(data.size());
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    entry.end = static_cast<std::int64_t>(data.size());
    entries.push_back(std::move(entry));
  }
  const int rank = trainer.world().rank();
  RefuseLink(folder);
  MakeDirectories(folder);
  const Coordinate& here = trainer.coordinate();
  const std::string header = FormatSafetensorsHeader({{"step", std::to_string(step)},
                                                      {"when", when},
                                                      {"rank", std::to_string(rank)},
                                                      {"tensor", std::to_string(here.tensor)},
                                                      {"context", std::to_string(here.context)},
                                                      {"data", std::to_string(here.data)},
                                                      {"pipeline", std::to_string(here.pipeline)}},
                                                     entries);
  ReplaceFile(fmt::format("{}/step-{:06}-{}-rank-{}.safetensors", folder, step, when, rank), header + data);
}

}  // namespace trireme
