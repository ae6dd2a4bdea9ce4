#include "operate/run_checkpoints.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <filesystem>
#include <new>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/read/checkpoint_reader.h"

namespace trireme {
namespace {

// Saves that must have been waited for before the time they take is judged, and what part of it is too much: one in so
// many.
constexpr std::int64_t kSavesToJudge = 5;
constexpr int kMostWaiting = 10;

const char* KindName(StateKind kind) {
  switch (kind) {
    case StateKind::kMaster:
      return kMasterKind;
    case StateKind::kFirstMoment:
      return kFirstMomentKind;
    case StateKind::kSecondMoment:
      return kSecondMomentKind;
    case StateKind::kRowMoment:
      return kRowMomentKind;
    case StateKind::kColumnMoment:
      return kColumnMomentKind;
  }
  return "";
}

const Shape& ShapeOf(const OwnedState& state, const Parameter& parameter) {
  return state.shape.rank() > 0 ? state.shape : parameter.shape;
}

std::int64_t SavedElements(const OwnedState& state) {
  std::int64_t count = 0;
  for (const SliceRun& run : state.runs) {
    count += state.saved ? run.count : 0;
  }
  return count;
}

std::int64_t SavedElements(std::span<const OwnedState> states) {
  std::int64_t count = 0;
  for (const OwnedState& state : states) {
    count += SavedElements(state);
  }
  return count;
}

// Copies the runs' values one after another to `out`. Rows of a cut matrix follow each other in the slice, so that most
// slices are one copy.
void CopyRuns(Device& device, const OwnedState& state, float* out) {
  for (std::size_t i = 0; i < state.runs.size();) {
    const std::int64_t first = state.runs[i].local;
    std::int64_t last = first;
    for (; i < state.runs.size() && state.runs[i].local == last; ++i) {
      last += state.runs[i].count;
    }
    CopyValues(device, state.values.Range(first, last - first), out);
    out += last - first;
  }
}

void FindDifferences(const RunConfig& config, const RunState& saved, LoadedCheckpoint& loaded) {
  std::map<std::string, std::string> before;
  for (const KeyValue& key : saved.keys) {
    before[key.key] = key.value;
  }
  for (const KeyValue& now : Flatten(config)) {
    const auto then = before.find(now.key);
    if (then != before.end() && then->second != now.value) {
      loaded.differences.push_back(fmt::format("{}: {} -> {}", now.key, then->second, now.value));
      loaded.changed.insert(now.key);
    }
  }
}

// Where the schedule of a save stood. Checkpoints of version 1 do not say: it follows from their recipe.
ScheduleState ScheduleOf(const RunConfig& config, const RunState& saved) {
  if (saved.schedule) {
    return *saved.schedule;
  }
  try {
    const RunConfig then = ParseRecipe(saved.recipe, "the checkpoint's recipe", {}).config;
    Validate(then, 0);
    return RunSchedule(then).StateAt(saved.consumed_samples);
  } catch (const Error&) {  // of a program with other keys
    return RunSchedule(config).StateAt(saved.consumed_samples);
  }
}

// Earlier saves have those of rank 0 alone, among the notes of the manifest.
std::string ChoicesFor(const CheckpointReader& reader, int rank) {
  const auto& notes = reader.manifest().state.notes;
  const auto old = notes.find("device_choices");
  return old != notes.end() ? old->second : reader.DeviceChoices(rank);
}

RunState AboutRun(const RunConfig& config) {
  RunState state;
  state.seed = config.train.seed;
  state.layout = config.layout.ToString();
  state.model = config.model;
  state.recipe = ToToml(config);
  state.keys = Flatten(config);
  return state;
}

SaverOptions OptionsOfSaver(const RunCheckpointOptions& options, const Communicator& world,
                            std::function<void(const std::string&)> message) {
  return {.folder = options.folder,
          .rank = world.rank(),
          .ranks = world.size(),
          .ranks_per_file = options.config.checkpoint.ranks_per_file,
          .keep = options.config.checkpoint.keep,
          .message = std::move(message),
          .hook = options.hook};
}

}  // namespace

RunCheckpoints::RunCheckpoints(RunCheckpointOptions options, Communicator& world, Device& device,
                               const ParameterTable& table)
    : options_(std::move(options)),
      world_(world),
      device_(device),
      table_(table),
      about_run_(AboutRun(options_.config)),
      saver_(OptionsOfSaver(options_, world, [this](const std::string& text) { HearSaver(text); })) {
  exchanged_ = static_cast<std::int64_t*>(device_.Allocate(sizeof *exchanged_));
  // No rank saves before rank 0 has removed what an earlier process left.
  world_.Barrier();
}

RunCheckpoints::~RunCheckpoints() { device_.Free(exchanged_); }

void RunCheckpoints::Say(const std::string& text) const {
  if (options_.message) {
    options_.message(text);
  }
}

void RunCheckpoints::Alive() const {
  if (options_.alive) {
    options_.alive();
  }
}

void RunCheckpoints::Reserve(std::span<const OwnedState> states) {
  assert(saves_ == 0);
  PlanSnapshot(states);
}

void RunCheckpoints::PlanSnapshot(std::span<const OwnedState> states) {
  slices_.clear();
  if (device_.is_paced()) {
    return;  // no tensor has values: its checkpoints hold the run's position alone
  }
  snapshot_.resize(static_cast<std::size_t>(SavedElements(states)));
  std::size_t offset = 0;
  for (const OwnedState& state : states) {
    const auto count = static_cast<std::size_t>(SavedElements(state));
    if (count == 0) {
      continue;
    }
    const Parameter& parameter = table_.rows()[static_cast<std::size_t>(state.row)];
    slices_.push_back({.tensor = parameter.name,
                       .kind = KindName(state.kind),
                       .shape = ShapeOf(state, parameter),
                       .pieces = PiecesOf(state.runs),
                       .values = std::span(snapshot_).subspan(offset, count)});
    offset += count;
  }
}

void RunCheckpoints::Snapshot(std::span<const OwnedState> states) {
  if (slices_.empty()) {
    PlanSnapshot(states);
  }
  if (device_.is_paced()) {
    return;
  }
  std::size_t offset = 0;
  for (const OwnedState& state : states) {
    const auto count = static_cast<std::size_t>(SavedElements(state));
    if (count > 0) {
      CopyRuns(device_, state, snapshot_.data() + offset);
      offset += count;
      Alive();
    }
  }
  assert(offset == snapshot_.size());
}

void RunCheckpoints::Save(const SavedProgress& progress, std::span<const OwnedState> states) {
  if (progress.step == last_started_) {
    return;
  }
  const auto start = Clock::now();
  AwaitSaveBefore(progress.step);
  last_started_ = progress.step;
  try {
    Snapshot(states);
  } catch (const std::bad_alloc&) {
    saver_.FailSave(progress.step, fmt::format("the host has no {} bytes of memory left for a copy of the state",
                                               SavedElements(states) * static_cast<std::int64_t>(sizeof(float))));
    return;
  }
  if (options_.hook) {
    options_.hook(SavePoint::kSnapshot);
  }
  RunState state = about_run_;
  static_cast<RunPosition&>(state) = progress;
  state.updates = progress.updates;
  state.loss_scale = progress.loss_scale;
  state.schedule = progress.schedule;
  state.notes = progress.notes;
  const bool overlapped = options_.config.checkpoint.asynchronous;
  saver_.StartSave(std::move(state), slices_, progress.last || !overlapped, progress.device_choices);
  if (!overlapped) {
    Settle();
  }
  stall_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
}

std::int64_t RunCheckpoints::BytesOfCheckpoint(std::span<const OwnedState> states) {
  const std::int64_t elements = device_.is_paced() ? 0 : SavedElements(states);
  return Reduced(elements * static_cast<std::int64_t>(sizeof(float)), ReduceOp::kSum);
}

void RunCheckpoints::AwaitSaveBefore(std::int64_t step) {
  const std::string run = std::filesystem::path(options_.folder).parent_path().string();
  if (world_.rank() == 0 && !tries_again_ && !run.empty() && IsGone(run)) {
    Say(fmt::format("'{}' has been removed: the checkpoint of step {} makes it anew, what else was in it is lost", run,
                    step));
  }
  const auto start = Clock::now();
  const bool in_hand = saver_.under_way();
  Settle();
  JudgeWait(in_hand ? Clock::now() - start : Clock::duration{});
}

void RunCheckpoints::Settle() {
  saver_.WaitForShard();
  // A folder may be removed after one rank has written to it and made again by another: so all write, then all probe.
  world_.Barrier();
  const std::int64_t lost = Smallest(saver_.ShardIsThere() ? world_.size() : world_.rank());
  if (lost < world_.size()) {
    saver_.ShardIsLost(lost);
  }
  saver_.Wait();
}

void RunCheckpoints::JudgeWait(Clock::duration waited) {
  const Clock::time_point now = Clock::now();
  if (saves_++ == 0) {
    first_save_ = now;
    return;
  }
  waited_ += waited;
  const Clock::duration whole = now - first_save_;
  if (world_.rank() == 0 && !wait_told_ && saves_ > kSavesToJudge && waited_ * kMostWaiting > whole) {
    wait_told_ = true;
    Say(
        fmt::format("{:.0f} % of the time goes into waiting for checkpoints: a save is due every {:.3g} s and takes "
                    "longer; raise checkpoint.every (now {})",
                    100.0 * static_cast<double>(waited_.count()) / static_cast<double>(whole.count()),
                    std::chrono::duration<double>(whole - waited_).count() / static_cast<double>(saves_ - 1),
                    options_.config.checkpoint.every));
  }
}

void RunCheckpoints::Finish() {
  Settle();
  world_.Barrier();
  saver_.RemovePruned();
  world_.Barrier();
  if (world_.rank() == 0) {
    RemoveUnfinished(options_.folder);
  }
}

std::int64_t RunCheckpoints::Smallest(std::int64_t mine) { return -Reduced(-mine, ReduceOp::kMax); }

std::int64_t RunCheckpoints::Reduced(std::int64_t mine, ReduceOp op) {
  if (world_.size() == 1) {
    return mine;
  }
  device_.CopyFromHost(exchanged_, &mine, sizeof mine);
  world_.AllReduce({exchanged_, DType::kInt64, {1}}, op);
  device_.CopyToHost(&mine, exchanged_, sizeof mine);
  return mine;
}

void RunCheckpoints::ReadInto(const CheckpointReader& reader, const StoredTensor* tensor, const OwnedState& state,
                              std::vector<float>& staging) {
  staging.assign(static_cast<std::size_t>(state.values.count()), 0.0F);
  if (tensor != nullptr) {
    reader.Read(*tensor, state.runs, staging.data());
  }
  CopyValues(device_, staging, state.values);
}

RunCheckpoints::Offer RunCheckpoints::FindOffer(std::int64_t at_most) const {
  Offer offer;
  for (const StepFolder& candidate : ListCheckpoints(options_.folder)) {
    if (candidate.step > at_most) {
      continue;
    }
    try {
      const CheckpointReader reader(candidate.path, ShardChecks::kNone);
      if (!reader.index_problem().empty()) {
        Say(
            fmt::format("checkpoint of step {}: {}; the headers of its shards were read instead, and 'trireme "
                        "checkpoint verify --mend' makes it anew",
                        candidate.step, reader.index_problem()));
      }
      offer.step = candidate.step;
      offer.content = reader.Pack();
      return offer;
    } catch (const Error& error) {
      offer.content = fmt::format("checkpoint of step {} is not used: {}", candidate.step, error.what());
      Say(offer.content);
    }
  }
  return offer;
}

RunCheckpoints::Offer RunCheckpoints::ShareOffer(const Offer& mine) {
  std::string bytes(reinterpret_cast<const char*>(&mine.step), sizeof mine.step);
  bytes += mine.content;
  Offer offer;
  offer.shared = world_.ShareBytes(std::move(bytes), 0);
  std::memcpy(&offer.step, offer.shared->data(), sizeof offer.step);
  return offer;
}

std::string RunCheckpoints::TryOpen(const Offer& offer, std::optional<CheckpointReader>& reader) const {
  try {
    reader.emplace(options_.folder + "/" + StepFolderName(offer.step), offer.shared, sizeof offer.step);
    if (!reader->shards_checked()) {
      reader->CheckShards(world_.rank(), world_.size());
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string RunCheckpoints::TryRead(const CheckpointReader& reader, std::span<const OwnedState> states,
                                    LoadedCheckpoint& loaded) {
  const std::string& folder = reader.folder();
  try {
    const RunState& saved = reader.manifest().state;
    const auto& tensors = reader.tensors();
    loaded.weights_only =
        std::all_of(tensors.begin(), tensors.end(), [](const auto& each) { return each.about.kind == kMasterKind; });
    loaded.dropped = FindDroppedState(reader.manifest(), folder, options_.config);
    const bool new_optimizer = std::any_of(loaded.dropped.begin(), loaded.dropped.end(),
                                           [](const DroppedState& each) { return each.part == "optimizer"; });
    std::vector<float> staging;
    for (const OwnedState& state : device_.is_paced() ? std::span<const OwnedState>() : states) {
      const std::string& name = table_.rows()[static_cast<std::size_t>(state.row)].name;
      const bool read = state.kind == StateKind::kMaster || !(loaded.weights_only || new_optimizer);
      const StoredTensor* tensor = read ? reader.Find(name, KindName(state.kind)) : nullptr;
      Require(!read || tensor != nullptr, "'{}' has no {} of '{}'", folder, KindName(state.kind), name);
      ReadInto(reader, tensor, state, staging);
      Alive();
    }
    loaded.progress = {saved,
                       new_optimizer ? 0 : saved.updates,
                       saved.loss_scale,
                       ScheduleOf(options_.config, saved),
                       ChoicesFor(reader, world_.rank()),
                       saved.notes};
    loaded.folder = folder;
    FindDifferences(options_.config, saved, loaded);
    return "";
  } catch (const Error& error) {
    return error.what();
  } catch (const std::bad_alloc&) {
    Fail("'{}' cannot be read: the host has no memory left", folder);
  }
}

std::optional<LoadedCheckpoint> RunCheckpoints::Load(std::span<const OwnedState> states) {
  Settle();
  world_.Barrier();  // rank 0 may still have been committing what this rank saved
  const bool mine_seen = !ListCheckpoints(options_.folder).empty();
  const bool all_seen = Smallest(mine_seen ? 1 : 0) != 0;
  Require(all_seen || !mine_seen, "'{}' holds checkpoints that other ranks do not see", options_.folder);
  if (!all_seen) {
    return std::nullopt;
  }
  std::string why;
  for (std::int64_t at_most = INT64_MAX;;) {
    // Rank 0 reads what all need; each rank then opens its part of the shards, and those that hold what it wants.
    const Offer offer = ShareOffer(world_.rank() == 0 ? FindOffer(at_most) : Offer());
    if (offer.step < 0) {
      const std::string reason = offer.shared->substr(sizeof offer.step);
      Fail("'{}' holds checkpoints, but none is good: {}", options_.folder, reason.empty() ? why : reason);
    }
    LoadedCheckpoint loaded;
    std::optional<CheckpointReader> reader;
    std::string damage = TryOpen(offer, reader);
    std::int64_t finder = Smallest(damage.empty() ? world_.size() : world_.rank());
    if (finder == world_.size()) {
      // Before anything is read: an older checkpoint is no answer to a recipe that does not fit this one.
      RequireStateKept(reader->manifest(), reader->folder(), options_.config, options_.drop_state);
      damage = TryRead(*reader, states, loaded);
      finder = Smallest(damage.empty() ? world_.size() : world_.rank());
    }
    if (finder == world_.size()) {
      last_started_ = last_loaded_ = offer.step;
      return loaded;
    }
    why = fmt::format("checkpoint of step {} is not used: {}", offer.step,
                      *world_.ShareBytes(damage, static_cast<int>(finder)));
    if (world_.rank() == 0) {
      Say(why);
    }
    at_most = offer.step - 1;
  }
}

}  // namespace trireme
