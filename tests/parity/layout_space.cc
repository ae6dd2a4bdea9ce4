#include "parity/layout_space.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "family_features.h"
#include "parity/parity.h"
#include "schedule/schedule.h"

namespace trireme::parity {
namespace {

constexpr std::array<const char*, 3> kFamilies = {"gpt2", "bloom", "llama"};

std::string FamilyOf(const Choice& choice) {
  const auto family = static_cast<std::size_t>(choice[kFamily]);
  if (family < kFamilies.size()) {
    return kFamilies[family];
  }
  // The others take turns as the fourth: their blocks are made of the same operations.
  static const std::vector<std::string> more = FamilyNames({kFamilies.begin(), kFamilies.end()});
  std::size_t turn = 0;
  for (const int factor : choice) {
    turn = 3 * turn + static_cast<std::size_t>(factor);
  }
  return more[turn % more.size()];
}
struct ContextChoice {
  int degree;
  ContextKind kind;
  int ulysses = 0;
  std::int64_t sequence = 12;  // twice the degree divides it
};
constexpr std::array<ContextChoice, 5> kContexts = {{{1, ContextKind::kAllGather},
                                                     {2, ContextKind::kAllGather},
                                                     {2, ContextKind::kUlysses},
                                                     {3, ContextKind::kRing},
                                                     {4, ContextKind::kUlyssesRing, 2, 16}}};

const ContextChoice& ContextOf(const Choice& choice) { return kContexts[static_cast<std::size_t>(choice[kContext])]; }

constexpr std::array<Recompute, 4> kRecomputes = {Recompute::kNone, Recompute::kLight, Recompute::kSelective,
                                                  Recompute::kFull};

// A pair of factors with a value of each, by number.
constexpr std::size_t kMostValues = 8;
constexpr std::size_t kPairs = kFactors * kMostValues * kFactors * kMostValues;

template <typename Visit>
void ForEachPair(const Choice& choice, Visit visit) {
  for (std::size_t a = 0; a < kFactors; ++a) {
    for (std::size_t b = a + 1; b < kFactors; ++b) {
      const std::size_t first = a * kMostValues + static_cast<std::size_t>(choice[a]);
      visit((first * kFactors + b) * kMostValues + static_cast<std::size_t>(choice[b]));
    }
  }
}

const ScheduleKind& KindOf(const Choice& choice) {
  return ScheduleKinds()[static_cast<std::size_t>(choice[kSchedule])];
}

// A number in [0, bound) that depends on the seed and on what it is for.
int Draw(std::uint64_t seed, const char* what, int bound) {
  return static_cast<int>(RandomBelow(RandomKey(seed, what), 0, static_cast<std::uint64_t>(bound)));
}

}  // namespace

const std::array<int, kFactors>& FactorSizes() {
  static const std::array<int, kFactors> sizes = {
      4, 4, 4, 3, 4, static_cast<int>(ScheduleKinds().size()), 2, 4, 8, static_cast<int>(kContexts.size())};
  return sizes;
}

bool Possible(const Choice& choice) {
  const int tensor = choice[kTensor] + 1;
  const int pipeline = choice[kPipeline] + 1;
  const int data = choice[kData] + 1;
  const int micro_batches = choice[kMicroBatches] + 1;
  const ContextChoice& context = ContextOf(choice);
  if (tensor * pipeline * data * context.degree > 8) {
    return false;
  }
  // Models of SmallRun have 12 heads.
  const int head_ranks = context.kind == ContextKind::kUlysses ? context.degree : std::max(context.ulysses, 1);
  if (12 % (tensor * head_ranks) != 0) {
    return false;
  }
  if (choice[kSequenceParallel] == 1 && context.sequence / context.degree % tensor != 0) {
    return false;
  }
  const ScheduleKind& kind = KindOf(choice);
  return (kind.least_chunks == 1 || pipeline > 1) && (!kind.rounds_of_micro_batches || micro_batches % pipeline == 0);
}

std::vector<Choice> AllChoices() {
  std::vector<Choice> all;
  Choice choice{};
  while (true) {
    if (Possible(choice)) {
      all.push_back(choice);
    }
    int factor = 0;
    while (factor < kFactors &&
           ++choice[static_cast<std::size_t>(factor)] == FactorSizes()[static_cast<std::size_t>(factor)]) {
      choice[static_cast<std::size_t>(factor++)] = 0;
    }
    if (factor == kFactors) {
      return all;
    }
  }
}

namespace {

std::vector<Choice> DrawnCover() {
  const std::vector<Choice> all = AllChoices();
  std::vector<char> open(kPairs, 0);
  for (const Choice& choice : all) {
    ForEachPair(choice, [&](std::size_t pair) { open[pair] = 1; });
  }
  std::vector<Choice> cover;
  for (std::uint64_t round = 0; std::find(open.begin(), open.end(), 1) != open.end(); ++round) {
    // The best of a few hundred draws; when none helps, the first choice that does.
    Choice best{};
    int best_count = 0;
    for (std::uint64_t candidate = 0; candidate < 400; ++candidate) {
      const Choice& choice = all[RandomBelow(RandomKey(round, "cover"), candidate, all.size())];
      int count = 0;
      ForEachPair(choice, [&](std::size_t pair) { count += open[pair]; });
      if (count > best_count) {
        best_count = count;
        best = choice;
      }
    }
    for (std::size_t i = 0; best_count == 0; ++i) {
      ForEachPair(all[i], [&](std::size_t pair) { best_count += open[pair]; });
      best = all[i];
    }
    ForEachPair(best, [&](std::size_t pair) { open[pair] = 0; });
    cover.push_back(best);
  }
  return cover;
}

}  // namespace

const std::vector<Choice>& PairwiseCover() {
  static const std::vector<Choice> cover = DrawnCover();
  return cover;
}

RunConfig ConfigOf(const Choice& choice) {
  RunConfig config = SmallRun(FamilyOf(choice));
  ParallelLayout& layout = config.layout;
  layout.tensor = choice[kTensor] + 1;
  layout.pipeline = choice[kPipeline] + 1;
  layout.context = ContextOf(choice).degree;
  layout.context_kind = ContextOf(choice).kind;
  layout.ulysses = ContextOf(choice).ulysses;
  config.model.sequence = ContextOf(choice).sequence;
  layout.data = choice[kData] + 1;
  layout.zero = choice[kZero];
  layout.schedule = KindOf(choice).name;
  layout.chunks = KindOf(choice).least_chunks;
  layout.sequence_parallel = choice[kSequenceParallel] == 1;
  layout.recompute = kRecomputes[static_cast<std::size_t>(choice[kRecompute])];
  config.model.layers = layout.pipeline == 3 ? 6 : layout.virtual_stages() == 8 ? 8 : 4;
  config.batch.global = static_cast<std::int64_t>(choice[kMicroBatches] + 1) * layout.data * layout.micro_batch;
  return config;
}

namespace {

bool IsValid(const RunConfig& config) {
  try {
    Validate(config, 0);
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

RunConfig RandomConfig(std::uint64_t seed) {
  Choice choice{};
  for (int attempt = 0;; ++attempt) {
    for (int factor = 0; factor < kFactors; ++factor) {
      const auto f = static_cast<std::size_t>(factor);
      choice[f] = Draw(seed * 1000 + static_cast<std::uint64_t>(attempt), fmt::format("factor {}", factor).c_str(),
                       FactorSizes()[f]);
    }
    if (Possible(choice)) {
      break;
    }
  }
  RunConfig config = ConfigOf(choice);
  ParallelLayout& layout = config.layout;
  const std::int64_t micro_batches = config.batch.global / layout.data;
  layout.micro_batch = 1 + Draw(seed, "micro batch", 2);
  config.batch.global = micro_batches * layout.data * layout.micro_batch;
  config.model.dropout = Draw(seed, "dropout", 3) == 0 ? 0.2 : 0.0;
  config.model.attention_dropout = !TestsUseGpu() && Draw(seed, "attention dropout", 4) == 0 ? 0.1 : 0.0;
  config.model.embedding_norm_choice =
      Draw(seed, "embedding norm", 4) == 0 ? EmbeddingNormChoice::kYes : EmbeddingNormChoice::kAutomatic;
  config.model = Completed(config.model, true);
  config.model.tie_embeddings = Draw(seed, "tie", 2) == 0;
  config.model.vocabulary = 70 + Draw(seed, "vocabulary", 40);
  if (config.model.family == "llama" && Draw(seed, "grouped", 2) == 0) {
    const int heads = layout.tensor == 3 ? 6 : 4;
    const int head_ranks = layout.context_kind == ContextKind::kUlysses ? layout.context : std::max(layout.ulysses, 1);
    const bool whole = heads % (layout.tensor * head_ranks) == 0;
    config.model.kv_heads = whole ? heads : 12;
  }
  config.data.document_masks = Draw(seed, "documents", 3) == 0;
  config.train.z_loss = Draw(seed, "z", 3) == 0 ? 1e-3 : 0.0;
  config.train.head_chunk = Draw(seed, "head", 2) == 0 ? 5 : 0;
  if (Draw(seed, "partition", 2) == 0) {
    layout.partition = Draw(seed, "weigh", 2) == 0 ? "balanced" : "cost";
  }
  if (layout.recompute != Recompute::kNone && Draw(seed, "layers", 2) == 0) {
    layout.recompute_layers = 1;
  }
  const int optimizer = Draw(seed, "optimizer", 5);
  config.optimizer.kind = optimizer == 0   ? OptimizerKind::kMuon
                          : optimizer == 1 ? OptimizerKind::kSgd
                                           : OptimizerKind::kAdamW;
  layout.offload = static_cast<Offload>(Draw(seed, "offload", 3));
  layout.offload_activations = Draw(seed, "offload activations", 3) == 0;
  if (ZeroShards(layout.zero).parameters && Draw(seed, "whole", 2) == 0) {
    layout.whole_below = Draw(seed, "whole below", 2) == 0 ? 49 : 3000;
  }
  return config;
}

RunConfig RandomRecipe(std::uint64_t seed) {
  RunConfig config = RandomConfig(seed);
  config.train.steps = 3;
  const auto add = [&](const char* feature, int one_in, const auto& change) {
    RunConfig changed = config;
    change(changed);
    if (Draw(seed, feature, one_in) == 0 && IsValid(changed)) {
      config = changed;
    }
  };
  add("plain", 3, [](RunConfig& c) {
    // Only the CPU's plain attention handles keys that other ranks hold.
    const bool own_keys = c.layout.context == 1 || c.layout.context_kind == ContextKind::kUlysses;
    c.train.attention = own_keys || !TestsUseGpu() ? AttentionEngine::kPlain : c.train.attention;
  });
  // Adafactor divides the gradient of a bias of keys, which is rounding alone, by its own size.
  add("adafactor", 5, [](RunConfig& c) {
    c.optimizer.kind = c.model.family == "llama" ? OptimizerKind::kAdafactor : OptimizerKind::kSgd;
  });
  add("groups", 3, [](RunConfig& c) {
    c.optimizer.tables.rate = 0.5;
    c.optimizer.vectors.weight_decay = 0.01;
  });
  add("powersgd", 4, [](RunConfig& c) { c.optimizer.powersgd_rank = 1000; });
  add("hybrid", 2, [](RunConfig& c) {
    const int replicas = c.layout.replicas();
    c.layout.shard_ranks = replicas % 2 == 0 ? replicas / 2 : 1;
  });
  add("ramp", 3, [](RunConfig& c) {
    c.batch.ramp_start = c.batch.ramp_increment = c.batch.global / 2;
    c.batch.ramp_samples = c.batch.global / 2;
  });
  add("clip", 3, [](RunConfig& c) { c.optimizer.clip = 0.05; });
  return config;
}

std::string NameOf(const Choice& choice) {
  const RunConfig config = ConfigOf(choice);
  const ParallelLayout& layout = config.layout;
  std::string context = Name(layout.context_kind);
  std::replace(context.begin(), context.end(), '+', '_');  // of a test's name
  return fmt::format("{}_tp{}_pp{}_dp{}_zero{}_{}_{}_{}_m{}_cp{}{}", config.model.family, layout.tensor,
                     layout.pipeline, layout.data, layout.zero, layout.schedule,
                     layout.sequence_parallel ? "sp" : "plain", Name(layout.recompute), choice[kMicroBatches] + 1,
                     layout.context, layout.context > 1 ? "_" + context : "");
}

}  // namespace trireme::parity
