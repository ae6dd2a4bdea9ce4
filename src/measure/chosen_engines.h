// Which engine multiplies matrices in a run on CPUs. `auto` measures once per machine and remembers the result in a
// file, so that the same command gives the same bits; the key of the file is everything that a measurement depends on.
// What was measured while other processes had the cores is used once and not remembered.
#pragma once

#include <functional>
#include <string>

#include "device/cpu/product/engine_choice.h"
#include "device/device.h"
#include "run/run_config.h"

namespace trireme {

// Where results are kept: $XDG_CACHE_HOME/trireme, else ~/.cache/trireme; empty where neither variable is set.
std::string EngineCacheFolder();

// The fastest engines at this machine's level with `threads` threads, as EngineTable's text: read from `folder`, or
// measured and, where the cores were quiet, written there. A folder that cannot be written, or a file that makes no
// sense, only costs a measurement.
std::string FastestEnginesHere(int threads, const std::string& folder = EngineCacheFolder());
// The fastest engines by another way to measure.
std::string FastestEnginesHere(int threads, const std::string& folder,
                               const std::function<EngineMeasurement()>& measure);
// What `folder` remembers; empty where nothing was measured.
std::string RememberedEngines(int threads, const std::string& folder = EngineCacheFolder());

// The table for `train.engine` where no measurement decides: the engine that it names, or the fixed table for auto. An
// Error when the engine is not in this program or not on this machine.
std::string FixedEnginesOf(const std::string& engine, bool deterministic);
// FastestEnginesHere for `auto`; empty for a named engine and for deterministic runs.
std::function<std::string(int threads)> EngineChooser(const std::string& engine, bool deterministic);
// The device of a run's ranks, as its train keys say; where ranks are started its engines are chosen as above.
DeviceOptions DeviceOptionsOf(const RunConfig& config);

}  // namespace trireme
