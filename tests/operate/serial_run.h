// What a run and its resumes should do, one step at a time and with nothing of src/: how many samples each step takes,
// its learning rate, and when the run ends. The oracle of resume_changes_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trireme {

struct SerialRecipe {
  std::int64_t batch = 8;
  std::int64_t ramp_start = 0;  // 0: no ramp-up
  std::int64_t ramp_increment = 0;
  std::int64_t ramp_samples = 0;
  std::int64_t steps = 0;  // one of these two is 0
  std::int64_t samples = 0;
  std::string kind = "cosine";
  double rate = 1e-3;
  std::int64_t warmup = 0;
  std::int64_t decay = 0;
  double final_share = 0.1;
  bool at_once = false;  // optimizer.schedule.on_resume = "recipe"
  std::int64_t bridge = 0;
};

struct SerialStep {
  std::int64_t step = 0;
  std::int64_t batch = 0;
  std::int64_t consumed = 0;  // after the step
  double rate = 0;
};

class SerialRun {
 public:
  explicit SerialRun(const SerialRecipe& recipe);
  // The run was stopped and is started again with this recipe. False: it had passed that recipe's end, so that nothing
  // is trained or saved.
  bool Resume(const SerialRecipe& recipe);
  bool Ended() const { return recipe_.steps > 0 ? step_ >= recipe_.steps : consumed_ >= recipe_.samples; }
  SerialStep Step();
  double NextRate() const { return rate_(consumed_); }
  std::int64_t consumed() const { return consumed_; }
  std::int64_t step() const { return step_; }
  // The last step of the whole run, by taking the steps that are left.
  std::int64_t LastStep() const;

 private:
  std::int64_t BatchAt(std::int64_t consumed) const;
  // Samples consumed at the end, by taking the steps that are left.
  std::int64_t End() const;
  // The rate as a function of samples consumed is built up by resumes: each wraps or replaces the one before.
  void Straight();

  SerialRecipe recipe_;
  std::int64_t step_ = 0;
  std::int64_t consumed_ = 0;
  std::int64_t ramp_begin_ = 0;
  std::int64_t end_ = 0;
  double last_position_ = 0;
  std::function<double(std::int64_t)> position_;  // on the schedule
  std::function<double(std::int64_t)> rate_;
  // The bridge that is being crossed.
  std::int64_t bridge_from_ = 0;
  std::int64_t bridge_to_ = 0;
  double bridge_rate_ = 0;
};

}  // namespace trireme
