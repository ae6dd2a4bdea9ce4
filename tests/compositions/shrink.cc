#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "compositions/judge.h"
#include "parity/parity.h"

namespace trireme::compositions {
namespace {

std::map<std::string, std::string> ValuesOf(const RunConfig& config) {
  std::map<std::string, std::string> values;
  for (const KeyValue& each : Flatten(config)) {
    values[each.key] = each.value;
  }
  return values;
}

// What keys are set back to, where a composition does not need them to be wrong.
RunConfig Simple(const RunConfig& config) {
  RunConfig simple = parity::SmallRun(config.model.family);
  simple.train = {.seed = config.train.seed,
                  .steps = config.train.steps,
                  .device = config.train.device,
                  .threads = config.train.threads,
                  .engine = config.train.engine};
  simple.checkpoint = config.checkpoint;
  return simple;
}

}  // namespace

Composition Shrink(const Composition& composition, const Places& places) {
  Composition smallest = composition;
  const auto take_if_wrong = [&](const Composition& candidate) {
    const bool wrong = IsValid(candidate.config) && !Judge(candidate, places).wrong.empty();
    smallest = wrong ? candidate : smallest;
    return wrong;
  };
  Composition candidate = smallest;
  candidate.other = parity::OneRank(smallest.config).layout;
  take_if_wrong(candidate);
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [key, value] : ValuesOf(Simple(smallest.config))) {
      if (ValuesOf(smallest.config)[key] == value) {
        continue;
      }
      try {
        candidate = smallest;
        candidate.config =
            ParseRecipe(ToToml(smallest.config), "a smaller recipe", {fmt::format("{}={}", key, value)}).config;
        changed = take_if_wrong(candidate) || changed;
      } catch (const Error&) {
        // The key does not go with the others.
      }
    }
  }
  return smallest;
}

}  // namespace trireme::compositions
