#include "operate/disk_forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace trireme {

std::int64_t DiskForecast::most() const {
  return saves == 0 ? existing : std::max(existing + 1, std::min(existing + saves, keep + 1));
}

std::int64_t DiskForecast::needed() const {
  const std::int64_t parts = joined && saves > 0 ? 1 : 0;
  return (most() - existing + parts) * bytes;
}

std::int64_t SavesToCome(const CheckpointConfig& config, std::int64_t step, std::int64_t total) {
  if (step >= total) {
    return 0;
  }
  if (config.every == 0) {
    return 1;
  }
  return total / config.every - step / config.every + (total % config.every == 0 ? 0 : 1);
}

std::string Describe(const DiskForecast& forecast, const std::string& folder) {
  const std::string free =
      forecast.free < 0 ? "how much is free is not known"
                        : fmt::format("{} {} free", HumanBytes(forecast.free), forecast.fits() ? "are" : "only are");
  return fmt::format("{}checkpoints take {} each, {} at a time (checkpoint.keep = {}): '{}' needs {} more, {}{}",
                     forecast.fits() ? "" : "warning: ", HumanBytes(forecast.bytes), forecast.most(), forecast.keep,
                     folder, HumanBytes(forecast.needed()), free,
                     forecast.fits() ? "" : "; make room, or lower checkpoint.keep");
}

}  // namespace trireme
