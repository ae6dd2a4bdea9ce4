// The whole of a recipe. Every key has a default; one table (run/recipe_keys.cc) names each key, its type, its help and
// its member, and serves the reader, --set, --dry-run, run.toml and the documentation alike.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"
#include "model/model_config.h"
#include "run/optimizer_kind.h"
#include "topology/layout.h"

namespace trireme {

struct BatchConfig {
  std::int64_t global = 8;
  // Ramp-up: the batch starts at ramp_start and grows by ramp_increment until `global`, evenly over ramp_samples.
  std::int64_t ramp_start = 0;  // 0: no ramp
  std::int64_t ramp_increment = 0;
  std::int64_t ramp_samples = 0;
  bool operator==(const BatchConfig&) const = default;
};

// Type of the operands of Muon's iterations. kAutomatic: fp32 in fp32 and tf32 runs, else bf16.
enum class MuonType : std::uint8_t { kAutomatic, kFloat32, kBFloat16 };
template <>
inline constexpr std::array<std::string_view, 3> kWords<MuonType> = {"auto", "fp32", "bf16"};

// How Muon's rate follows from a matrix's shape.
enum class MuonRate : std::uint8_t {
  kMatchAdamW,  // updates as large as AdamW's
  kOriginal,
};
template <>
inline constexpr std::array<std::string_view, 2> kWords<MuonRate> = {"match_rms_adamw", "original"};

// Course of the learning rate after warm-up.
enum class RateSchedule : std::uint8_t { kCosine, kLinear, kConstant, kWarmupStableDecay };
template <>
inline constexpr std::array<std::string_view, 4> kWords<RateSchedule> = {"cosine", "linear", "constant", "wsd"};

// The learning rate after a resume with a changed recipe: see run/run_schedule.h.
enum class ResumedRate : std::uint8_t { kContinue, kRecipe };
template <>
inline constexpr std::array<std::string_view, 2> kWords<ResumedRate> = {"continue", "recipe"};

// Parameters of one role, with their own rate and decay.
struct ParameterGroup {
  double rate = 1;           // multiplies the learning rate
  double weight_decay = -1;  // below 0: optimizer.weight_decay, and none for vectors
  bool operator==(const ParameterGroup&) const = default;
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 3e-4;
  double weight_decay = 0.1;
  double clip = 1.0;  // 0: no clipping
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.95;  // of sgd and muon
  bool nesterov = true;    // likewise
  int muon_iterations = 5;
  MuonType muon_type = MuonType::kAutomatic;
  MuonRate muon_rate = MuonRate::kMatchAdamW;
  bool adafactor_relative_step = false;   // rate min(0.01, 1 / sqrt(step)) instead of the schedule's
  bool adafactor_scale_parameter = true;  // the rate is a multiple of the parameter's root mean square
  ParameterGroup tables, matrices, head, vectors;
  int powersgd_rank = 0;            // of compressed gradients; 0: gradients are reduced whole
  std::int64_t powersgd_start = 0;  // steps that reduce them whole first
  std::string moments = "fp32";     // fp32 | bf16
  RateSchedule schedule = RateSchedule::kCosine;
  std::int64_t warmup_samples = 0;
  std::int64_t decay_samples = 0;  // 0: the whole run
  double final_fraction = 0.1;     // of the learning rate, at the end of the decay
  ResumedRate on_resume = ResumedRate::kContinue;
  std::int64_t bridge_samples = 0;  // from the rate before a resume to the one that the changed recipe says; 0: chosen

  bool operator==(const OptimizerConfig&) const = default;
};

// What a step does whose gradient is not finite. kRollback: back to the newest checkpoint.
enum class NonFiniteAction : std::uint8_t { kSkip, kStop, kRollback };
template <>
inline constexpr std::array<std::string_view, 3> kWords<NonFiniteAction> = {"skip", "stop", "rollback"};

// What follows a spike of the loss or of the gradient's norm.
enum class SpikeAction : std::uint8_t {
  kNote,
  kSkip,      // no update
  kRollback,  // back to the newest checkpoint, then past the step
  kLower,     // half the rate from then on
};
template <>
inline constexpr std::array<std::string_view, 4> kWords<SpikeAction> = {"note", "skip", "rollback", "lower"};

enum class AttentionEngine : std::uint8_t {
  kFlash,  // never stores the scores
  kPlain,  // products, softmax and products, whose weights backward reads
};
template <>
inline constexpr std::array<std::string_view, 2> kWords<AttentionEngine> = {"flash", "plain"};

struct TrainConfig {
  std::string dtype = "fp32";  // fp32 | tf32 | bf16 | fp16 | fp8
  // For fp16: the loss is multiplied by the scale, so that small gradients are not rounded to zero
  // (train/loss_scaler.h).
  double loss_scale = 0;  // above 0: constant
  double initial_loss_scale = 65536;
  double min_loss_scale = 1;
  std::int64_t loss_scale_window = 1000;  // steps without overflow until the scale grows
  int hysteresis = 2;                     // overflows until it is lowered
  double loss_scale_growth = 2;
  double loss_scale_backoff = 0.5;
  std::int64_t seed = 1;
  std::int64_t steps = 100;
  std::int64_t samples = 0;     // when given: steps follow from it
  std::int64_t tokens = 0;      // likewise
  std::string device = "auto";  // auto | cpu | cuda | paced
  std::string paced_cluster;    // of device = paced: a cluster file, or the name of one
  int threads = 0;              // OpenMP threads per rank of a CPU device; 0: cores / ranks on the machine
  std::string pin = "auto";     // auto | none | cores
  std::string engine = "auto";  // of CPU products: auto | packed | onednn | openblas | blis
  AttentionEngine attention = AttentionEngine::kFlash;
  std::string fp8_products = "auto";  // of dtype = fp8: see model/float8_products.h
  bool deterministic = false;
  bool graphs = true;
  double z_loss = 0;
  NonFiniteAction on_nonfinite = NonFiniteAction::kSkip;
  double loss_spike = 2;  // a loss above this multiple of its running mean is noted; 0: never
  double norm_spike = 0;  // the same of the gradient's norm
  SpikeAction on_spike = SpikeAction::kNote;
  bool rerun = false;  // computes steps with spikes or non-finite numbers again before their update
  // "256: model.sequence=32, batch.global=8; 1024: layout.micro_batch=2": settings until so many samples are consumed.
  std::string stages;
  std::string skip_steps;                // "1200-1250, 3000": their samples are passed over
  bool count_zeros = false;              // of the gradient, each step, for the log
  std::int64_t replica_check_every = 0;  // steps between comparisons of the data ranks' copies; 0: never
  std::int64_t head_chunk = 0;           // tokens of a micro batch whose logits exist at once; 0: chosen
  bool operator==(const TrainConfig&) const = default;

  bool plain_attention() const { return attention == AttentionEngine::kPlain; }
};

enum class Packing : std::uint8_t {
  kWindows,  // of the stream, which cut documents
  kBestFit,  // short documents packed whole, the rest is padding
};
template <>
inline constexpr std::array<std::string_view, 2> kWords<Packing> = {"windows", "best_fit"};

// By what a step's samples are divided over data ranks and micro batches.
enum class BatchBalance : std::uint8_t { kAttention, kNone };
template <>
inline constexpr std::array<std::string_view, 2> kWords<BatchBalance> = {"attention", "none"};

struct DataConfig {
  std::string source = "synthetic";
  std::string split = "95,5,0";  // train, validation, test
  bool document_masks = false;
  bool document_positions = false;
  bool answers_only = false;
  bool padding_masks = false;
  Packing packing = Packing::kWindows;
  BatchBalance balance = BatchBalance::kAttention;
  bool operator==(const DataConfig&) const = default;
};

struct CheckpointConfig {
  std::int64_t every = 0;  // steps; 0: only at the end
  std::int64_t keep = 3;
  bool asynchronous = true;
  int ranks_per_file = 1;        // consecutive ranks whose state one file holds
  double final_save_wait = 600;  // seconds that the last save of a run is tried again for when it fails
  bool operator==(const CheckpointConfig&) const = default;
};

struct ValidationConfig {
  std::int64_t every = 0;  // steps; 0: never
  std::int64_t samples = 64;
  bool operator==(const ValidationConfig&) const = default;
};

// Tasks whose score a run computes while it trains (infer/task_files.h).
struct EvaluateConfig {
  std::string tasks;         // files, with commas between them: *.jsonl has questions, any other file is a text
  std::int64_t every = 0;    // steps; 0: never
  std::string steps;         // "100, 500-510": at these too
  std::int64_t samples = 0;  // questions or windows of a task at most; 0: all
  std::string tokenizer;     // empty: the one found beside the data
  bool operator==(const EvaluateConfig&) const = default;
};

// The form of a step's line: see report/log_line.h.
enum class LogFormat : std::uint8_t { kShort, kMegatron };
template <>
inline constexpr std::array<std::string_view, 2> kWords<LogFormat> = {"short", "megatron"};

// What a run shows and records; changes no number of it.
struct LogConfig {
  LogFormat format = LogFormat::kShort;
  bool tensorboard = false;          // event files in the run's tensorboard/
  std::int64_t histogram_every = 0;  // steps between histograms of weights and gradients in them; 0: never
  std::string dump_steps;            // "3, 10-12": weights before and after these steps, per rank, in the run's dump/
  bool timers = false;               // seconds of forward, backward, reductions and the update, with each step's line
  bool operator==(const LogConfig&) const = default;
};

struct RunConfig {
  ModelConfig model;
  std::string model_from;  // where the first weights come from; empty: drawn
  ParallelLayout layout;
  BatchConfig batch;
  OptimizerConfig optimizer;
  TrainConfig train;
  DataConfig data;
  CheckpointConfig checkpoint;
  ValidationConfig validation;
  EvaluateConfig evaluate;
  LogConfig log;
  bool operator==(const RunConfig&) const = default;
};

// A resolved recipe: the config, and for each key where its value came from ("default", "recipe line 12", "--set").
struct Recipe {
  RunConfig config;
  std::map<std::string, std::string> origins;
};

// What a recipe stands on beside its own text.
struct RecipeContext {
  std::string models_folder = {};  // of model.preset; searched beside the program when empty
  // The model that lies at the path of model.from; the model keys start from its shape, and keys that would
  // change it are an Error. Without this function the recipe's own keys say the shape.
  std::function<ModelConfig(const std::string& path)> read_model = {};
  // Told which file a preset's name stands for where there are two.
  std::function<void(const std::string& choice)> say = {};
};

// Reads a TOML file, then applies overrides "key=value" in order. Every Error names file, line, key and the nearest
// that works. Not validated against ranks: see Validate.
Recipe LoadRecipe(const std::string& path, const std::vector<std::string>& overrides,
                  const RecipeContext& context = {});
// Reads a recipe from text; `origin` names it in errors.
Recipe ParseRecipe(const std::string& text, const std::string& origin, const std::vector<std::string>& overrides,
                   const RecipeContext& context = {});

// Checks the whole: shapes, divisibility at every step of the ramp, schedule counts, values in range, features that
// training offers. Throws one Error. A `ranks` above 0 must equal the product of the axes; the message shows each
// factor.
void Validate(const RunConfig& config, int ranks);

// TOML that LoadRecipe reads back to an equal config.
std::string ToToml(const RunConfig& config);
// key, value as text, origin: for --dry-run and for what differs on resume.
struct KeyValue {
  std::string key;
  std::string value;
};
std::vector<KeyValue> Flatten(const RunConfig& config);
// A table of every key: name, default, help; for `trireme train --help-keys` and docs.
std::string DescribeKeys();

// How many samples each step takes: a pure function of the samples consumed so far.
class BatchSchedule {
 public:
  // Requires a validated config. The ramp-up begins when `ramp_origin` samples are consumed.
  explicit BatchSchedule(const BatchConfig& config, std::int64_t ramp_origin = 0)
      : config_(config), ramp_origin_(ramp_origin) {}
  std::int64_t GlobalBatchAt(std::int64_t consumed_samples) const;
  // Every batch size that occurs once `from` samples are consumed, ascending.
  std::vector<std::int64_t> Sizes(std::int64_t from = 0) const;
  // With `from` samples consumed: samples consumed after `steps` more steps, and steps until at least `samples` are
  // consumed.
  std::int64_t SamplesAfter(std::int64_t steps, std::int64_t from = 0) const;
  std::int64_t StepsFor(std::int64_t samples, std::int64_t from = 0) const;

 private:
  BatchConfig config_;
  std::int64_t ramp_origin_;
};

// Micro batches a data rank runs for a global batch.
int MicroBatches(const ParallelLayout& layout, std::int64_t global_batch);
// Steps of a run that is never interrupted: train.steps, or what train.samples or train.tokens come to.
std::int64_t TotalSteps(const RunConfig& config);
// Learning rate of a step at `position` of the schedule, in samples; `horizon` ends the decay by default. In a run
// whose recipe never changed they are the samples consumed and those of the whole run (run/run_schedule.h).
double LearningRateAt(const OptimizerConfig& config, double position, double horizon);

}  // namespace trireme
