#include "operate/serial_run.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

constexpr double kPi = 3.14159265358979323846;

// The schedule of the learning rate as its documentation says it.
double ScheduledRate(const SerialRecipe& recipe, double position, double last) {
  const auto warmup = static_cast<double>(recipe.warmup);
  const auto decay = static_cast<double>(recipe.decay);
  if (position < warmup) {
    return recipe.rate / (warmup + 1) * (position + 1);
  }
  if (recipe.kind == "constant") {
    return recipe.rate;
  }
  double begin = warmup;
  double end = decay > 0 ? decay : last;
  if (recipe.kind == "wsd") {
    end = last;
    begin = std::max(warmup, last - (decay > 0 ? decay : std::floor(last / 10)));
  }
  const double lowest = recipe.rate * recipe.final_share;
  if (position >= end) {
    return lowest;
  }
  const double way = position <= begin ? 0 : (position - begin) / (end - begin);
  const double height = recipe.kind == "cosine" ? (std::cos(kPi * way) + 1) / 2 : 1 - way;
  return lowest + height * (recipe.rate - lowest);
}

bool Near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(a, b); }

}  // namespace

SerialRun::SerialRun(const SerialRecipe& recipe) : recipe_(recipe) {
  end_ = End();
  Straight();
}

void SerialRun::Straight() {
  last_position_ = static_cast<double>(end_);
  position_ = [](std::int64_t consumed) { return static_cast<double>(consumed); };
  rate_ = [recipe = recipe_, last = last_position_](std::int64_t consumed) {
    return ScheduledRate(recipe, static_cast<double>(consumed), last);
  };
}

bool SerialRun::Resume(const SerialRecipe& recipe) {
  const SerialRecipe before = recipe_;
  const double rate_before = NextRate();
  const std::int64_t ramp_before = ramp_begin_;
  recipe_ = recipe;
  // The ramp-up.
  const bool same_ramp = recipe.ramp_start == before.ramp_start && recipe.ramp_increment == before.ramp_increment &&
                         recipe.ramp_samples == before.ramp_samples;
  const bool was_ramping = before.ramp_start > 0 && consumed_ < ramp_begin_ + before.ramp_samples;
  if (!same_ramp && recipe.ramp_start > 0 && !was_ramping) {
    ramp_begin_ = consumed_;
  }
  const std::int64_t end_before = end_;
  end_ = End();
  if (Ended()) {
    // Nothing is trained and nothing is saved: the next resume starts from what the save before it said.
    recipe_ = before;
    end_ = end_before;
    ramp_begin_ = ramp_before;
    return false;
  }
  const auto left = static_cast<double>(end_ - consumed_);
  const bool from_first_sample =
      recipe.kind != before.kind || recipe.warmup != before.warmup || recipe.decay != before.decay;
  if (recipe.at_once || from_first_sample) {
    bridge_to_ = 0;
    Straight();
  } else if (end_ != end_before) {
    const double here = position_(consumed_);
    const double straight = here + left;
    const bool decaying = !Near(ScheduledRate(recipe, here, last_position_), ScheduledRate(recipe, here, straight));
    last_position_ = decaying ? last_position_ : straight;
    const double pace = (last_position_ - here) / left;
    position_ = [here, pace, from = consumed_](std::int64_t consumed) {
      return here + pace * static_cast<double>(consumed - from);
    };
  }
  const auto base = [recipe, position = position_, last = last_position_](std::int64_t consumed) {
    return ScheduledRate(recipe, position(consumed), last);
  };
  const auto mixed = [this, base](std::int64_t consumed) {
    if (consumed >= bridge_to_) {
      return base(consumed);
    }
    const double way = static_cast<double>(consumed - bridge_from_) / static_cast<double>(bridge_to_ - bridge_from_);
    return bridge_rate_ + way * (base(consumed) - bridge_rate_);
  };
  rate_ = mixed;
  if (!recipe.at_once && !Near(mixed(consumed_), rate_before)) {
    std::int64_t length = recipe.bridge;
    if (length == 0) {
      length = recipe.warmup > 0 ? recipe.warmup : std::max<std::int64_t>((end_ - consumed_) / 20, 1);
    }
    bridge_from_ = consumed_;
    bridge_to_ = std::min(end_, consumed_ + length);
    bridge_rate_ = rate_before;
  }
  return true;
}

std::int64_t SerialRun::BatchAt(std::int64_t consumed) const {
  if (recipe_.ramp_start == 0) {
    return recipe_.batch;
  }
  // One increment after the other, each as soon as its share of the ramp-up is consumed.
  const std::int64_t increments = (recipe_.batch - recipe_.ramp_start) / recipe_.ramp_increment;
  std::int64_t batch = recipe_.ramp_start;
  for (std::int64_t made = 1; made <= increments; ++made) {
    if ((consumed - ramp_begin_) * increments >= made * recipe_.ramp_samples) {
      batch += recipe_.ramp_increment;
    }
  }
  return batch;
}

std::int64_t SerialRun::End() const {
  SerialRun rest = *this;
  while (!rest.Ended()) {
    rest.consumed_ += rest.BatchAt(rest.consumed_);
    ++rest.step_;
  }
  return rest.consumed_;
}

std::int64_t SerialRun::LastStep() const {
  SerialRun rest = *this;
  while (!rest.Ended()) {
    rest.consumed_ += rest.BatchAt(rest.consumed_);
    ++rest.step_;
  }
  return rest.step_;
}

SerialStep SerialRun::Step() {
  const std::int64_t batch = BatchAt(consumed_);
  const double rate = rate_(consumed_);
  consumed_ += batch;
  return {.step = ++step_, .batch = batch, .consumed = consumed_, .rate = rate};
}

}  // namespace trireme
