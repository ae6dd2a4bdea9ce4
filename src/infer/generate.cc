#include "infer/generate.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"

namespace trireme {
namespace {

constexpr std::int64_t kPromptRows = 512;  // tokens of prompts that go through the model at once

std::int64_t Longest(std::span<const TokenList> prompts) {
  std::size_t longest = 0;
  for (const TokenList& prompt : prompts) {
    longest = std::max(longest, prompt.size());
  }
  return static_cast<std::int64_t>(longest);
}

// Prompts [first, first + count) on their way through the model, one a row of its batch.
class Batch {
 public:
  Batch(InferenceModel& model, const GenerateOptions& options, std::span<const TokenList> prompts, std::size_t first)
      : model_(model), options_(options), prompts_(prompts), first_(first), new_tokens_(prompts.size()) {
    lengths_.assign(static_cast<std::size_t>(model.options().batch), 0);
    done_.assign(lengths_.size(), true);
    next_.assign(lengths_.size(), 0);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      lengths_[i] = static_cast<std::int32_t>(prompts[i].size());
      done_[i] = options.tokens == 0;
    }
  }

  std::vector<TokenList> Run(const TokenCallback& callback) {
    ReadPrompts(callback);
    while (!AllDone()) {
      std::vector<std::int32_t> rows;
      std::vector<std::int32_t> starts = lengths_;
      for (std::size_t i = 0; i < done_.size(); ++i) {
        if (done_[i]) {
          starts[i] = static_cast<std::int32_t>(model_.options().capacity);  // padding
        } else {
          rows.push_back(static_cast<std::int32_t>(i));
        }
      }
      model_.RunCached(next_, starts);
      const std::vector<float> logits = model_.Logits(rows);
      for (std::size_t row = 0; row < rows.size(); ++row) {
        const auto i = static_cast<std::size_t>(rows[row]);
        ++lengths_[i];
        Choose(i, Row(logits, row), callback);
      }
    }
    return std::move(new_tokens_);
  }

 private:
  // Prompts are padded at their ends; what the padding leaves in the cache is overwritten by the tokens that follow.
  void ReadPrompts(const TokenCallback& callback) {
    const std::int64_t piece = model_.options().rows / model_.options().batch;
    const std::int64_t longest = Longest(prompts_);
    for (std::int64_t start = 0; start < longest; start += piece) {
      const std::int64_t count = std::min(piece, longest - start);
      std::vector<std::int32_t> tokens(lengths_.size() * static_cast<std::size_t>(count), 0);
      std::vector<std::int32_t> ends;
      std::vector<std::size_t> ending;
      for (std::size_t i = 0; i < prompts_.size(); ++i) {
        const auto length = static_cast<std::int64_t>(prompts_[i].size());
        const std::int64_t own = std::clamp<std::int64_t>(length - start, 0, count);
        std::copy_n(prompts_[i].begin() + std::min(start, length), own,
                    tokens.begin() + static_cast<std::int64_t>(i) * count);
        if (length - 1 >= start && length - 1 < start + count && !done_[i]) {
          ends.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(i) * count + length - 1 - start));
          ending.push_back(i);
        }
      }
      model_.RunCached(tokens, std::vector<std::int32_t>(lengths_.size(), static_cast<std::int32_t>(start)));
      if (!ends.empty()) {
        const std::vector<float> logits = model_.Logits(ends);
        for (std::size_t row = 0; row < ending.size(); ++row) {
          Choose(ending[row], Row(logits, row), callback);
        }
      }
    }
  }

  std::span<const float> Row(const std::vector<float>& logits, std::size_t row) const {
    const auto vocabulary = static_cast<std::size_t>(model_.model().vocabulary);
    const auto known = options_.vocabulary > 0 ? static_cast<std::size_t>(options_.vocabulary) : vocabulary;
    return std::span(logits).subspan(row * vocabulary, std::min(known, vocabulary));
  }

  void Choose(std::size_t i, std::span<const float> logits, const TokenCallback& callback) {
    TokenList& own = new_tokens_[i];
    const std::uint64_t key = CombineKeys(RandomKey(options_.seed, "generate"), first_ + i);
    const std::int32_t token = SampleToken(logits, options_.sampling, RandomUniform(key, own.size()));
    if (std::find(options_.stop.begin(), options_.stop.end(), token) != options_.stop.end()) {
      done_[i] = true;
      return;
    }
    own.push_back(token);
    next_[i] = token;
    done_[i] = static_cast<std::int64_t>(own.size()) >= options_.tokens || (options_.ends && options_.ends(own));
    if (callback) {
      callback({.prompt = first_ + i, .token = token, .log_probability = LogProbability(logits, token)});
    }
  }

  bool AllDone() const {
    return std::all_of(done_.begin(), done_.end(), [](bool done) { return done; });
  }

  InferenceModel& model_;
  const GenerateOptions& options_;
  std::span<const TokenList> prompts_;
  std::size_t first_;
  std::vector<TokenList> new_tokens_;
  std::vector<std::int32_t> lengths_;  // tokens in the cache, by row
  std::vector<std::int32_t> next_;
  std::vector<bool> done_;
};

}  // namespace

TokenList EncodePrompt(const Tokenizer& tokenizer, const std::string& text) {
  TokenList tokens = tokenizer.prefix();
  tokenizer.Encode(text, tokens);
  if (tokens.empty()) {
    const auto end = tokenizer.end_of_text();
    tokens = end ? TokenList{*end} : tokenizer.Encode("\n");
  }
  return tokens;
}

InferenceOptions PlanGeneration(const ModelConfig& model, const GenerationNeed& need, std::int64_t& tokens) {
  Require(!need.prompts.empty(), "there is no prompt to continue");
  const std::int64_t longest = Longest(need.prompts);
  const bool learned = model.position == PositionChoice::kLearned;
  const std::int64_t room = model.sequence - longest;
  if (tokens == 0 || learned) {
    Require(room > 0, "a prompt of {} tokens fills the model's sequence of {}: give a shorter one{}", longest,
            model.sequence, learned ? "" : ", or say with --tokens how many to add");
    tokens = tokens == 0 ? room : std::min(tokens, room);
  }
  const std::int64_t batch = std::clamp<std::int64_t>(static_cast<std::int64_t>(need.prompts.size()), 1, need.batch);
  return {.dtype = need.dtype,
          .batch = batch,
          .rows = batch * std::clamp<std::int64_t>(kPromptRows / batch, 1, longest),
          .capacity = longest + tokens};
}

std::vector<TokenList> Generate(InferenceModel& model, std::span<const TokenList> prompts,
                                const GenerateOptions& options, const TokenCallback& callback) {
  RequireSensible(options.sampling);
  std::vector<TokenList> all;
  const auto batch = static_cast<std::size_t>(model.options().batch);
  for (std::size_t first = 0; first < prompts.size(); first += batch) {
    const auto own = prompts.subspan(first, std::min(batch, prompts.size() - first));
    Require(Longest(own) + options.tokens <= model.options().capacity, "{} + {} tokens do not fit into a cache of {}",
            Longest(own), options.tokens, model.options().capacity);
    for (TokenList& tokens : Batch(model, options, own, first).Run(callback)) {
      all.push_back(std::move(tokens));
    }
  }
  return all;
}

}  // namespace trireme
