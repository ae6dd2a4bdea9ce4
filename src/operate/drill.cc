#include "operate/drill.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <limits>
#include <thread>
#include <utility>

#include "base/error.h"
#include "schedule/schedule.h"
#include "topology/layout.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 13> kActions = {"stop",          "sleep",       "spin",     "throw", "exit",
                                                       "kill",          "nan",         "overflow", "loss",  "flip",
                                                       "flip-gradient", "flip-moment", "slow"};

constexpr std::byte kLastingBit{16};     // not the lowest: the next update could round it away
constexpr std::byte kExponentBit{0x40};  // the highest of an fp32 exponent: a value below 2 becomes huge

void FlipBits(Device& device, const Tensor& tensor, std::int64_t byte, std::byte bits) {
  if (tensor.count() == 0) {
    return;
  }
  std::byte value{};
  device.CopyToHost(&value, tensor.as<std::byte>() + byte, 1);
  value ^= bits;
  device.CopyFromHost(tensor.as<std::byte>() + byte, &value, 1);
}

// File that says that a drill has happened so many times.
std::string MarkOf(const Drill& drill, const std::string& folder, int turn) {
  return fmt::format("{}/drill-{}-{}", folder, drill.what, turn);
}

std::int64_t Number(const std::string& key, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  Require(error == std::errc() && end == text.data() + text.size() && value >= 0 && value < 1'000'000'000,
          "--inject: {} = '{}' is no number that works", key, text);
  return value;
}

void Set(Drill& drill, const std::string& key, const std::string& value) {
  if (key == "rank") {
    drill.rank = static_cast<int>(Number(key, value));
  } else if (key == "step") {
    drill.step = Number(key, value);
  } else if (key == "times") {
    drill.times = static_cast<int>(Number(key, value));
  } else if (key == "phase") {
    drill.phase = value;
  } else if (key == "save") {
    drill.save = value;
  } else if (key == "what") {
    drill.what = value;
  } else {
    Fail("--inject: no such part '{}'; it takes rank, step, phase, save, what, times", key);
  }
}

}  // namespace

Drill ParseDrill(const std::string& text) {
  Drill drill;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const std::size_t equals = part.find('=');
    Require(equals != std::string::npos, "--inject: '{}' is not of the form key=value", part);
    Set(drill, part.substr(0, equals), part.substr(equals + 1));
    at = end + 1;
  }
  if (!text.empty()) {
    Require(std::find(kActions.begin(), kActions.end(), drill.what) != kActions.end(),
            "--inject: what = '{}' is not one of {}", drill.what, fmt::join(kActions, ", "));
    bool known = drill.save.empty();
    for (int point = 0; point < kSavePoints; ++point) {
      known = known || drill.save == Name(static_cast<SavePoint>(point));
    }
    Require(known, "--inject: no point '{}' in a save", drill.save);
    if (drill.what == "nan" || drill.what == "overflow" || drill.what == "flip-gradient") {
      drill.phase = "reduce";
    } else if (drill.what == "loss") {
      drill.phase = "norm";
    }
  }
  return drill;
}

std::string WhyIdle(const Drill& drill, const RunConfig& config, const std::string& folder) {
  if (drill.what.empty()) {
    return "";
  }
  if (const std::int64_t steps = TotalSteps(config); drill.step > steps) {
    return fmt::format("step {} is after the run's last one, {}", drill.step, steps);
  }
  if (!drill.save.empty() && config.checkpoint.every > 0 && drill.step % config.checkpoint.every != 0 &&
      drill.step != TotalSteps(config)) {
    return fmt::format("nothing is saved at step {}: checkpoint.every = {}", drill.step, config.checkpoint.every);
  }
  const ParallelLayout& layout = config.layout;
  const int head = PlacementOf(layout).HeadStage();
  if (drill.what == "loss" && ProcessGrid(layout).CoordinateOf(drill.rank).pipeline != head) {
    const int first = ProcessGrid(layout).RankOf({.pipeline = head});
    return fmt::format("rank {} computes no loss, which is on stage {}: ranks {} to {}", drill.rank, head, first,
                       first + layout.ranks() / layout.pipeline - 1);
  }
  int acted = 0;
  for (; acted < drill.times && access(MarkOf(drill, folder, acted + 1).c_str(), F_OK) == 0; ++acted) {
  }
  return drill.what != "slow" && acted == drill.times
             ? fmt::format("it has happened in this run's folder already ({})", MarkOf(drill, folder, 1))
             : "";
}

bool HasActed(const Drill& drill, const std::string& folder) {
  return drill.what == "slow" || access(MarkOf(drill, folder, 1).c_str(), F_OK) == 0;
}

DrillMaster::DrillMaster(Drill drill, int rank, std::string folder, Target target)
    : drill_(std::move(drill)),
      mine_(!drill_.what.empty() && drill_.rank == rank),
      folder_(std::move(folder)),
      target_(std::move(target)) {}

void DrillMaster::AtPhase(std::int64_t step, std::string_view phase) {
  const bool slow = drill_.what == "slow" && step > drill_.step;
  if (mine_ && drill_.save.empty() && (step == drill_.step || slow) && phase == drill_.phase) {
    Do();
  }
}

void DrillMaster::AtSave(std::int64_t step, SavePoint point) {
  if (mine_ && !drill_.save.empty() && step == drill_.step && Name(point) == drill_.save) {
    Do();
  }
}

bool DrillMaster::TakeTurn() const {
  for (int turn = 1; turn <= drill_.times; ++turn) {
    const std::string mark = MarkOf(drill_, folder_, turn);
    const int file = open(mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file >= 0) {
      close(file);
      return true;
    }
  }
  return false;
}

bool DrillMaster::Damaged() const {
  const std::string& what = drill_.what;
  Device& device = target_.device;
  if (what == "nan" || what == "overflow") {
    const float bad = what == "nan" ? std::nanf("") : std::numeric_limits<float>::infinity();
    device.CopyFromHost(target_.live().gradient.data, &bad, sizeof bad);
  } else if (what == "loss") {
    const Tensor losses = target_.live().loss_sums;
    float loss = 0;
    device.CopyToHost(&loss, losses.data, sizeof loss);
    loss *= 100;
    device.CopyFromHost(losses.data, &loss, sizeof loss);
  } else if (what == "flip") {
    FlipBits(device, target_.live().weights, 0, kLastingBit);
  } else if (what == "flip-gradient") {
    FlipBits(device, target_.live().gradient, 3, kExponentBit);
  } else if (what == "flip-moment") {
    FlipBits(device, target_.live().moment, 0, kLastingBit);
  } else {
    return false;
  }
  return true;
}

void DrillMaster::Do() {
  const std::string& what = drill_.what;
  if (what == "slow") {
    return target_.device.Pause(0.05);
  }
  if (!TakeTurn()) {
    return;
  }
  if (what == "stop") {
    kill(getpid(), SIGSTOP);
  } else if (what == "kill") {
    kill(getpid(), SIGKILL);
  } else if (what == "exit") {
    _exit(0);
  } else if (what == "throw") {
    Fail("a drill: --inject what=throw");
  } else if (what == "sleep") {
    while (true) {
      std::this_thread::sleep_for(std::chrono::hours(1));
    }
  } else if (!Damaged()) {  // spin
    for (std::atomic<std::uint64_t> turns = 0;;) {
      turns.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

}  // namespace trireme
