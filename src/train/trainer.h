// Trains one rank's part of a model, a step at a time. Every rank of the world makes the same calls; losses, norms and
// decisions are equal on all of them.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "comm/grid_comms.h"
#include "comm/rank_runner.h"
#include "cost/step_cost.h"
#include "data/samples/sample_source.h"
#include "run/run_config.h"
#include "run/run_schedule.h"
#include "run/step_list.h"
#include "train/batch_loader.h"
#include "train/evaluation.h"
#include "train/histogram.h"
#include "train/loss_scaler.h"
#include "train/pipeline_runner.h"
#include "train/work_balance.h"
#include "train/zero_shard.h"

namespace trireme {

// Why a step's numbers were suspicious, as computing it again showed.
enum class Cause : std::uint8_t {
  kNone,     // it was not computed again
  kPassing,  // other numbers the second time
  kLasting,  // other numbers on another data rank
  kData,     // the same numbers everywhere
  kRepeats,  // the same numbers, and there is no other data rank
};
struct Verdict {
  Cause cause = Cause::kNone;
  std::string text;
};

struct StepResult {
  std::int64_t step = 0;  // the first is 1
  double loss = 0;        // mean over the weights of the global batch
  double gradient_norm = 0;
  std::int64_t zeros = 0;  // elements of the gradient that are 0, where train.count_zeros asks for them
  double learning_rate = 0;
  std::int64_t global_batch = 0;
  std::int64_t consumed_samples = 0;  // after this step
  std::int64_t consumed_tokens = 0;   // after this step
  bool skipped = false;               // no update was made, on any rank: a non-finite loss or gradient, or passed over
  bool overflowed = false;            // skipped, and a dynamic loss scale (fp16) has taken note of it
  double loss_scale = 1;              // of this step; losses, norms and zeros are those without it
  bool vetoed = false;                // finite, but set_veto's function refused the update, on every rank
  bool passed_over = false;           // there are no numbers: train.skip_steps names it, or it had no targets
  bool without_targets = false;       // passed over because no token of the batch had a loss
  Verdict verdict;
  std::optional<WorkBalance> balance;  // of attention within documents, where data.document_masks asks for them
  int request = 0;                     // the largest of the ranks' requests, see Step
  double seconds = 0;
};

// How far a run has come: with the seed and the state, all that the next step depends on.
struct Progress {
  std::int64_t step = 0;
  std::int64_t consumed_samples = 0;
  std::int64_t consumed_tokens = 0;  // of these samples, each as long as the sequence was when it was trained
  std::int64_t updates = 0;          // steps that were not skipped: the optimizer's own count
  LossScaleState loss_scale;
};

class Trainer {
 public:
  // Requires Validate(config, world size). `sources` and the context outlive the trainer. Weights are drawn afresh.
  struct Sources {
    const SampleSource* train = nullptr;
    const SampleSource* validation = nullptr;  // may be missing when validation.every is 0
  };
  Trainer(const RunConfig& config, RankContext& context, const Sources& sources);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // `request`: a number that this rank wants every rank to see after the step (a signal it got, say); 0 is none.
  StepResult Step(int request = 0);
  // Mean loss over validation.samples samples of the validation source, whatever the layout.
  double Validate();
  // What the task's judge says of its samples' losses under the current weights, whatever the layout.
  std::vector<TaskScore> Evaluate(const EvaluationTask& task);

  // Asked between the numbers of a step and its update, with equal numbers on every rank: true has the step computed
  // again, and StepResult::verdict says what that showed. After kLasting no update is made.
  void set_suspicion(std::function<bool(const StepResult&)> suspicion) { suspicion_ = std::move(suspicion); }

  // Asked with equal numbers on every rank after those of a finite step: true has no update made.
  void set_veto(std::function<bool(const StepResult&)> veto) { veto_ = std::move(veto); }
  // Called on every rank before a step's update, with the factor that makes the owned gradients (Histograms) those of
  // the loss.
  void set_before_update(std::function<void(const StepResult&, double factor)> hook) {
    before_update_ = std::move(hook);
  }
  // Multiplies the learning rate of later steps.
  void set_rate_factor(double factor) { rate_factor_ = factor; }
  // A later step whose samples are passed over, as those of train.skip_steps.
  void PassOverStep(std::int64_t step) { passed_steps_.insert(step); }
  const std::set<std::int64_t>& passed_steps() const { return passed_steps_; }

  // Told of the phases of every step; nullptr: no ledger. Outlives the trainer or is replaced.
  void set_ledger(Ledger* ledger);

  // After a step that was skipped, before State(). "rank 3: gradient of 'blocks.1.mlp.up.weight' …": the parameter that
  // backward reached first, of those whose reduced gradient is not finite, and the lowest rank that owns a part of it;
  // or the ranks whose loss is not finite. Collective over the world; every rank gets the same text.
  std::string NameNonFinite();
  // Elements of the whole gradient that are 0. Collective.
  std::int64_t CountZeros();
  // By row of the table, of all ranks: the gradients that the coming update reads, times `factor` (within
  // set_before_update's function), or the weights, in fp32 (between steps). Collective.
  std::vector<Histogram> Histograms(bool gradients, double factor = 1);
  // An Error that names ranks when data ranks that must hold equal weights do not. Collective over the data group.
  void CompareReplicas();
  // Memory of this rank as it is now, for observers of a step (set_ledger tells the phases).
  LiveTensors Live();

  const Progress& progress() const { return progress_; }
  // The whole state, for checkpoints: views of live memory, good until the next step or validation; gradients are gone.
  // After writing to it call Restore.
  std::vector<OwnedState> State() { return zero_->State(); }
  // Requires a State() that is still good, whether or not it was written to.
  void Restore(const Progress& progress);
  // Batches, learning rate and end of the run; a fresh run's unless it is replaced, between steps.
  const RunSchedule& schedule() const { return schedule_; }
  void set_schedule(const RunSchedule& schedule) { schedule_ = schedule; }
  RunPosition position() const {
    return {.step = progress_.step,
            .consumed_samples = progress_.consumed_samples,
            .consumed_tokens = progress_.consumed_tokens};
  }

  const RunConfig& config() const { return config_; }
  const LossScaler& loss_scaler() const { return scaler_; }
  const Coordinate& coordinate() const { return comms_.coordinate(); }
  const ParameterTable& table() const { return stage_.table(); }
  Communicator& world() { return comms_.world(); }
  Device& device() const { return device_; }
  // Device memory outside the arena, as far as it is known: workspaces of libraries; communicators and the buffers of
  // their messages, and what was planned for these.
  std::int64_t WorkspaceBytes() const { return device_.internal_bytes(); }
  std::int64_t CommunicationBytes() const { return comms_.device_bytes(); }
  std::int64_t PlannedCommunicationBytes() const;
  // Law 5's two sides: what cost predicts for a step of this batch size, and what this rank has counted so far.
  StepCost Predicted(std::int64_t global_batch) const;
  StepCost Counted();
  // This rank's weight slice of a table row as fp32 on the host; it must hold the row. Collective over the data group.
  std::vector<float> WeightOnHost(int row);
  bool HoldsRow(int row) const;

 private:
  struct PlannedSchedule {
    Schedule schedule;
    SlotPlan slots;
  };
  // Makes the connections that steps use, but for the pipeline's. Collective over the world.
  void ConnectGroups();
  const PlannedSchedule& ScheduleFor(int micro_batches);
  // Forward and backward of every micro batch; gradients, times the loss scale, reduced.
  void Compute(std::vector<MicroBatch> batch, std::int64_t step);
  // After the numbers of a step.
  void AdaptLossScale(StepResult& result);
  // Where ranks share a GPU: the first step of so many micro batches (0: the first evaluation) loads kernels and
  // measures products, so that its calls go through host memory (Communicator::set_through_host). Collective; whether
  // it is that one.
  bool BeginFirst(int micro_batches);
  // After the work of such a step.
  void EndFirst();
  // No rank has work on the device when this returns. Collective.
  void MeetIdle();
  // Where ranks share a GPU: records what the coming step repeats while no rank has work there.
  void RecordWhileQuiet(const PlannedSchedule& plan, const std::vector<MicroBatch>& batch);
  // One exchange gives every rank the same numbers, so the same decisions. The factor that the gradients need.
  double TakeNumbers(StepResult& result, int micro_batches, int request);
  StepResult PassOver(StepResult result, int request);
  void Consume(std::int64_t samples);
  // See set_suspicion; the numbers of the result become those that count.
  double Rerun(StepResult& result, std::int64_t first, int micro_batches);
  // This rank's loss and weight, of the last stage.
  std::array<double, 2> LossSums(int micro_batches) const;
  // The sum of each micro batch's losses; zeros on ranks that do not speak for the head.
  std::vector<double> MicroBatchLosses(int micro_batches) const;
  // A chunk of a sample's logits to the task's function.
  void HandOver(const LogitChunk& chunk, std::int64_t sample, const EvaluationTask& task) const;
  std::vector<double> LossByDataRank(int micro_batches);
  // Sums what all ranks must know: {loss, weight, squared norm, requests in a positional code}.
  std::array<double, 4> Exchange(int micro_batches, bool with_gradients, int request = 0);
  int NextMicroBatches() const;
  // Memory of what chunks keep, by chunk.
  std::vector<KeptMemory> AllocateKept();
  void Mark(std::string_view phase);
  // Whether all steps of as many micro batches start the same operations on the device: dropout and a dynamic
  // loss scale change them,
  // a ledger must be called in each phase, and weights and activations that come from the host do so in other streams.
  bool StepsAreAlike() const;
  // What of such a step can be recorded when several ranks meet in it.
  PipelineRunner::Repeats Repeated(int micro_batches);
  bool LossIsFinite(int micro_batches) const;

  RunConfig config_;
  Device& device_;
  GridComms comms_;
  Sources sources_;
  StageOfRun stage_;
  RunSchedule schedule_;
  Arena arena_;
  std::unique_ptr<ZeroShard> zero_;
  std::unique_ptr<BatchLoader> loader_;
  std::unique_ptr<ActivationBuffers> activation_buffers_;  // with layout.offload_activations
  std::unique_ptr<PipelineRunner> runner_;
  std::map<int, PlannedSchedule> schedules_;
  Tensor squares_;
  Tensor numbers_;
  Tensor slopes_;
  Tensor loss_sums_;
  Progress progress_;
  LossScaler scaler_;
  StepList skip_steps_;
  std::function<bool(const StepResult&)> suspicion_;
  std::function<bool(const StepResult&)> veto_;
  std::function<void(const StepResult&, double)> before_update_;
  double rate_factor_ = 1;
  std::set<std::int64_t> passed_steps_;
  Ledger* ledger_ = nullptr;
  int last_micro_batches_ = 0;
  std::map<int, int> steps_of_;  // by their micro batches
  std::set<int> begun_;          // see BeginFirst
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace trireme
