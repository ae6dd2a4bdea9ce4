#include "infer/inference_model.h"

#include <algorithm>

#include "base/error.h"
#include "device/host_memory.h"
#include "nn/module.h"

namespace trireme {
namespace {

constexpr DType kFloat = DType::kFloat32;
constexpr DType kInt = DType::kInt32;

LocalSizes SizesOf(const ModelConfig& model, int tensor, DType dtype) {
  const ParallelLayout layout{.tensor = tensor};
  RequireDivisible(model, layout);
  return {model, layout, dtype, false};
}

// Rows whose logits exist at once: about 64 MB of them, but those of a generation step together.
std::int64_t LogitRows(const InferenceOptions& options, std::int64_t vocabulary) {
  constexpr std::int64_t kLogits = std::int64_t{16} << 20;
  return std::clamp<std::int64_t>(kLogits / vocabulary, options.batch, std::max(options.batch, options.rows));
}

// Dense blocks and those with experts, with positions; then without.
std::size_t ProgramNumber(const LocalSizes& sizes) { return (sizes.experts > 0 ? 1U : 0U) + (sizes.rotary ? 0U : 2U); }

// One sequence of all rows stands for any division of them: buffers depend on the number of rows alone.
std::array<ModuleProgram, 4> LargestPrograms(const ModelConfig& model, LocalSizes sizes, std::int64_t rows) {
  sizes.batch = 1;
  sizes.keys = sizes.sequence = sizes.tokens = sizes.outside = rows;
  std::array<ModuleProgram, 4> programs;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const LocalSizes of = sizes.ForLayer(model, layer);
    ModuleProgram& program = programs[ProgramNumber(of)];
    if (program.forward.empty()) {
      program = PlanBlock(model, of, ProgramPurpose::kInference);
    }
  }
  return programs;
}

}  // namespace

InferenceModel::InferenceModel(const ModelConfig& model, const std::string& weights, RankContext& context,
                               const InferenceOptions& options)
    : model_(model),
      options_(options),
      group_(context.world),
      device_(context.device),
      ops_(context.device.ops()),
      table_(model),
      sizes_(SizesOf(model, context.world.size(), options.dtype)),
      logit_rows_(LogitRows(options, sizes_.vocabulary)),
      largest_(LargestPrograms(model, sizes_, options.rows)),
      arena_(context.device, PlannedMemory()),
      weights_(arena_, table_, {options.dtype, group_.size(), group_.rank()}, weights) {
  // As if all ranks were on this machine.
  device_.set_spare_bytes(SpareBytesOfRank(group_.size() * PlannedMemory().total(), group_.size()));
  Require(model.position != PositionChoice::kLearned || options.capacity <= model.sequence,
          "the model has learned positions for {} tokens: {} do not fit", model.sequence, options.capacity);
  for (const Planned& planned : Plan()) {
    at_.*planned.place = arena_.Allocate(planned.kind, planned.dtype, planned.shape);
  }
  if (model.position == PositionChoice::kAlibi) {
    const std::vector<float> all = AlibiSlopesOf(model);
    device_.CopyFromHost(at_.slopes.data, all.data() + group_.rank() * sizes_.heads, at_.slopes.bytes());
  } else {
    at_.slopes = {};
  }
}

std::int64_t InferenceModel::LargestScratch() const {
  std::int64_t bytes = 0;
  for (const ModuleProgram& program : largest_) {
    bytes = std::max(bytes, program.scratch_bytes);
  }
  return bytes;
}

std::vector<InferenceModel::Planned> InferenceModel::Plan() const {
  const std::int64_t rows = options_.rows;
  const bool alibi = model_.position == PositionChoice::kAlibi;
  const Shape cache{model_.layers, options_.batch, options_.capacity, sizes_.kv_heads * sizes_.head_size};
  using enum MemoryKind;
  const DType working = options_.dtype;
  return {{&Buffers::tokens, kMessages, kInt, {rows}},
          {&Buffers::positions, kMessages, kInt, {rows}},
          {&Buffers::starts, kMessages, kInt, {options_.batch}},
          {&Buffers::document_starts, kMessages, kInt, {rows}},
          {&Buffers::targets, kMessages, kInt, {rows}},
          {&Buffers::slopes, kMessages, kFloat, {alibi ? sizes_.heads : 0}},
          {&Buffers::x, kScratch, working, {rows, sizes_.hidden}},
          {&Buffers::normed, kScratch, working, {rows, sizes_.hidden}},
          {&Buffers::chosen, kScratch, working, {options_.batch, sizes_.hidden}},
          {&Buffers::norm_statistics, kScratch, kFloat, {2, rows}},
          {&Buffers::block_scratch, kScratch, kFloat, {LargestScratch() / SizeOf(kFloat)}},
          {&Buffers::logits, kScratch, kFloat, {logit_rows_, sizes_.vocabulary}},
          {&Buffers::gathered_logits, kScratch, kFloat, {group_.size() * options_.batch, sizes_.vocabulary}},
          {&Buffers::loss_statistics, kScratch, kFloat, {group_.size() * 3 * logit_rows_}},
          {&Buffers::losses, kScratch, kFloat, {rows}},
          {&Buffers::keys, kActivations, working, cache},
          {&Buffers::values, kActivations, working, cache}};
}

MemoryUse InferenceModel::PlannedMemory() const {
  MemoryUse use;
  use[MemoryKind::kWeights] = ModelWeights::Bytes(table_, {options_.dtype, group_.size(), group_.rank()});
  for (const Planned& planned : Plan()) {
    use[planned.kind] += RoundUp(planned.shape.count() * SizeOf(planned.dtype), kArenaAlignment);
  }
  return use;
}

void InferenceModel::Upload(const Tensor& to, std::span<const std::int32_t> values) {
  if (!values.empty()) {
    device_.CopyFromHost(to.data, values.data(), static_cast<std::int64_t>(values.size_bytes()));
  }
}

void InferenceModel::RunWhole(std::int64_t batch, std::span<const std::int32_t> tokens,
                              std::span<const std::int32_t> document_starts) {
  const auto rows = static_cast<std::int64_t>(tokens.size());
  Require(batch >= 1 && rows % batch == 0 && rows <= options_.rows, "{} sequences of {} tokens in all, at most {}",
          batch, rows, options_.rows);
  const Run run{.batch = batch, .queries = rows / batch, .documents = !document_starts.empty()};
  Require(model_.position != PositionChoice::kLearned || run.queries <= model_.sequence,
          "the model has learned positions for {} tokens: a sequence of {} does not fit", model_.sequence, run.queries);
  std::vector<std::int32_t> positions(tokens.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % run.queries);
    // Learned ones alone: rotary positions and ALiBi are relative within a document.
    positions[i] -= options_.document_positions && run.documents ? document_starts[i] : 0;
  }
  Upload(at_.tokens, tokens);
  Upload(at_.positions, positions);
  Upload(at_.document_starts, document_starts);
  Forward(run);
}

void InferenceModel::RunCached(std::span<const std::int32_t> tokens, std::span<const std::int32_t> starts) {
  const auto rows = static_cast<std::int64_t>(tokens.size());
  Require(options_.capacity > 0 && static_cast<std::int64_t>(starts.size()) == options_.batch &&
              rows % options_.batch == 0 && rows <= options_.rows,
          "{} tokens for {} sequences at {} positions, at most {}", rows, options_.batch, starts.size(), options_.rows);
  const Run run{.batch = options_.batch, .queries = rows / options_.batch, .cached = true};
  std::vector<std::int32_t> positions(tokens.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    // Padding past the capacity needs some position that exists.
    const std::int64_t position = starts[static_cast<std::size_t>(i / run.queries)] + i % run.queries;
    positions[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(std::min(position, options_.capacity - 1));
  }
  Upload(at_.tokens, tokens);
  Upload(at_.positions, positions);
  Upload(at_.starts, starts);
  Forward(run);
}

// A cache holds keys that are turned, so that all runs over it take the factors of its capacity.
void InferenceModel::SetAngles(const Run& run) {
  const std::int64_t positions = run.cached ? options_.capacity : run.queries;
  const bool longer = TakesLongFactors(model_, positions);
  if (!angles_.empty() && longer == long_angles_) {
    return;
  }
  angles_.clear();
  for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
    angles_.push_back(RotaryAnglesOf(model_, layer, positions));
  }
  long_angles_ = longer;
}

void InferenceModel::Forward(const Run& run) {
  SetPrograms(run);
  SetAngles(run);
  last_ = run;
  Embed(run);
  for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
    RunBlock(run, layer);
  }
  const ModuleProgram head = LowerInferenceHead(model_, sizes_, logit_rows_);
  Execute(head, head.forward, {.training = false}, HeadBuffers());
}

void InferenceModel::Execute(const ModuleProgram& program, std::span<const ProgramStep> steps, const MicroBatch& tokens,
                             std::span<const Tensor> given) {
  const std::int64_t module = program.buffers[kModuleInput].present() ? model_.modules() - 1 : 0;
  const std::vector<int> rows = RowsOf(table_, program, module);
  const ProgramRunner::Context context{
      .ops = ops_, .tensor_group = group_, .parameters = weights_, .model = model_, .module = module, .rows = rows};
  ProgramRunner(context, sizes_, program).Run(steps, {.micro_batch = tokens, .given = given});
}

std::vector<Tensor> InferenceModel::HeadBuffers() const {
  const std::int64_t rows = last_.rows();
  const std::int64_t chunk = std::min(logit_rows_, rows);
  std::vector<Tensor> given(kHeadBuffers);
  given[kModuleInput] = at_.x.Rows(0, rows);
  given[kHeadNormed] = at_.normed.Rows(0, rows);
  given[kHeadStatistics] = at_.norm_statistics.Range(0, 2 * rows);
  given[kHeadLogits] = at_.logits.Rows(0, chunk);
  given[kHeadLossStatistics] = at_.loss_statistics.Reshaped({logit_rows_, 3 * group_.size()}).Rows(0, chunk);
  given[kHeadLosses] = at_.losses.Rows(0, rows);
  return given;
}

void InferenceModel::Embed(const Run& run) {
  ModuleProgram embedding = PlanEmbedding(model_, sizes_);
  for (Place& place : embedding.buffers) {
    place.area = place.present() ? Area::kGiven : Area::kAbsent;
  }
  std::vector<Tensor> given(embedding.buffers.size());
  given[kModuleOutput] = Rows(at_.x, run);
  given[kEmbeddingSum] = Rows(at_.normed, run);
  given[kEmbeddingStatistics] = at_.norm_statistics.Range(0, 2 * run.rows());
  Execute(embedding, embedding.Evaluation(),
          {.tokens = Rows(at_.tokens, run), .positions = Rows(at_.positions, run), .training = false}, given);
}

void InferenceModel::SetPrograms(const Run& run) {
  const bool made = std::any_of(programs_.begin(), programs_.end(),
                                [](const ModuleProgram& program) { return !program.forward.empty(); });
  if (made && run.batch == last_.batch && run.queries == last_.queries) {
    return;
  }
  sizes_.batch = run.batch;
  sizes_.keys = sizes_.sequence = run.queries;
  sizes_.tokens = sizes_.outside = run.rows();
  programs_ = {};
  for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
    const LocalSizes sizes = sizes_.ForLayer(model_, layer);
    const ModuleProgram& largest = largest_[ProgramNumber(sizes)];
    ModuleProgram& program = programs_[ProgramNumber(sizes)];
    if (!program.forward.empty()) {
      continue;
    }
    program =
        LowerBlock(DescribeOperations(model_, sizes.experts > 0, sizes.rotary), sizes, ProgramPurpose::kInference);
    for (std::size_t i = 0; i < program.buffers.size(); ++i) {
      program.buffers[i].area = largest.buffers[i].area;
      program.buffers[i].offset = largest.buffers[i].offset;
    }
  }
}

void InferenceModel::RunBlock(const Run& run, std::int64_t layer) {
  const MicroBatch tokens{.document_starts = run.documents ? Rows(at_.document_starts, run) : Tensor{},
                          .training = false};
  const Tensor given[] = {{}, Rows(at_.x, run)};  // over the input, which the last step does not read
  ProgramCall call{
      .micro_batch = tokens, .kept = at_.x.as<char>(), .scratch = at_.block_scratch.as<char>(), .given = given};
  if (run.cached) {
    call.cache = {.capacity = options_.capacity,
                  .keys = at_.keys.Rows(layer, 1),
                  .values = at_.values.Rows(layer, 1),
                  .starts = at_.starts,
                  .positions = Rows(at_.positions, run)};
  }
  const ProgramRunner::Context context{.ops = ops_,
                                       .tensor_group = group_,
                                       .parameters = weights_,
                                       .model = model_,
                                       .slopes = at_.slopes,
                                       .angles = angles_[static_cast<std::size_t>(layer)],
                                       .module = layer + 1,
                                       .rows = table_.OfModule(layer + 1)};
  const LocalSizes sizes = sizes_.ForLayer(model_, layer);
  const ModuleProgram& program = programs_[ProgramNumber(sizes)];
  ProgramRunner(context, sizes, program).Run(program.forward, call);
}

std::vector<float> InferenceModel::Logits(std::span<const std::int32_t> rows) {
  const auto count = static_cast<std::int64_t>(rows.size());
  Require(count <= options_.batch, "logits of {} tokens, at most {}", count, options_.batch);
  // A look-up in a table picks rows of any matrix.
  const Tensor picked = at_.targets.Rows(0, count);
  const Tensor hidden = at_.chosen.Rows(0, count);
  Upload(picked, rows);
  ops_.EmbeddingForward({.tokens = picked, .table = Rows(at_.normed, last_), .first_row = 0, .out = hidden});
  const Tensor logits = at_.gathered_logits.Rows(0, group_.size() * count);
  const Tensor own = logits.Rows(group_.rank() * count, count);
  std::vector<Tensor> given(kHeadBuffers);
  given[kHeadNormed] = hidden;
  given[kHeadLogits] = own;
  given[kHeadAllLogits] = logits;
  const ModuleProgram program = LowerInferenceLogits(model_, sizes_);
  Execute(program, program.forward, {.training = false}, given);
  std::vector<float> parts(static_cast<std::size_t>(logits.count()));
  device_.CopyToHost(parts.data(), logits.data, logits.bytes());
  // [rank, row, share] to [row, vocabulary]; the padding at the end of the vocabulary falls away.
  std::vector<float> whole(static_cast<std::size_t>(count * model_.vocabulary));
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t first = 0, rank = 0; first < model_.vocabulary; first += sizes_.vocabulary, ++rank) {
      const std::int64_t columns = std::min(sizes_.vocabulary, model_.vocabulary - first);
      std::copy_n(parts.begin() + (rank * count + row) * sizes_.vocabulary, columns,
                  whole.begin() + row * model_.vocabulary + first);
    }
  }
  return whole;
}

std::vector<float> InferenceModel::Losses(std::span<const std::int32_t> targets) {
  const std::int64_t total = last_.rows();
  Require(static_cast<std::int64_t>(targets.size()) == total, "{} targets for {} tokens", targets.size(), total);
  Upload(at_.targets, targets);
  const ModuleProgram head = LowerInferenceHead(model_, sizes_, logit_rows_);
  Execute(head, head.evaluation, {.targets = at_.targets.Rows(0, total), .training = false}, HeadBuffers());
  std::vector<float> losses(targets.size());
  device_.CopyToHost(losses.data(), at_.losses.data, total * SizeOf(kFloat));
  return losses;
}

}  // namespace trireme
