#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "data/dataset/indexed_dataset.h"
#include "data/samples/blend_source.h"
#include "data/samples/packed_source.h"
#include "data/samples/sample_source.h"
#include "data/samples/synthetic_source.h"
#include "data/samples/window_source.h"

namespace trireme {
namespace {

bool ParseWeight(const std::string& text, double& weight) {
  char* end = nullptr;
  weight = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() && !text.empty();
}

std::unique_ptr<SampleSource> OverStore(std::unique_ptr<TokenStore> store, const SourceOptions& options) {
  if (options.best_fit) {
    return std::make_unique<PackedSource>(std::move(store), options);
  }
  return std::make_unique<WindowSource>(std::move(store), options);
}

std::unique_ptr<SampleSource> OpenOne(const SourceOptions& options) {
  const std::string& source = options.source;
  if (source == "synthetic") {
    Require(!options.best_fit, "data.packing = 'best_fit' packs documents, and data.source = 'synthetic' has none");
    return std::make_unique<SyntheticSource>(options);
  }
  if (source.ends_with(".bin") && !source.starts_with("bytes:")) {
    auto store = OpenIndexedDataset(source);
    if (options.check_tokens && options.vocabulary > 0) {
      RequireVocabulary(*store, options.vocabulary);
    }
    return OverStore(std::move(store), options);
  }
  const std::string path = source.starts_with("bytes:") ? source.substr(6) : source;
  auto store = OpenByteStore(path);
  Require(options.vocabulary == 0 || options.vocabulary >= 256,
          "the bytes of '{}' need a vocabulary of at least 256, the model has {}", path, options.vocabulary);
  return OverStore(std::move(store), options);
}

}  // namespace

void RequireVocabulary(const TokenStore& store, std::int64_t vocabulary, std::int64_t most) {
  constexpr std::int64_t kBlock = 1 << 14;
  std::vector<std::int32_t> tokens;
  const std::int64_t blocks = (store.tokens() + kBlock - 1) / kBlock;
  const std::int64_t read = std::min(blocks, std::max<std::int64_t>(most / kBlock, 1));
  for (std::int64_t i = 0; i < read; ++i) {
    const std::int64_t first = i * blocks / read * kBlock;
    tokens.resize(static_cast<std::size_t>(std::min(kBlock, store.tokens() - first)));
    store.Read(first, tokens);
    const auto wrong = std::find_if(tokens.begin(), tokens.end(),
                                    [&](std::int32_t token) { return token < 0 || token >= vocabulary; });
    Require(
        wrong == tokens.end(),
        "token {} at position {} of '{}' is outside the vocabulary of {}: it was prepared with another tokenizer, or "
        "model.vocabulary is too small",
        wrong == tokens.end() ? 0 : *wrong, first + (wrong - tokens.begin()), store.path(), vocabulary);
  }
}

std::vector<std::int64_t> SampleSource::DocumentLengths(std::int64_t index) const {
  const Sample sample = Get(index);
  const auto tokens = static_cast<std::int64_t>(sample.tokens.size()) - 1;
  std::vector<std::int64_t> lengths;
  std::int64_t start = 0;
  for (const std::int32_t next : sample.document_starts) {
    if (next > start) {
      lengths.push_back(next - start);
      start = next;
    }
  }
  lengths.push_back(tokens - start);
  return lengths;
}

std::vector<WeightedSource> ParseSources(const std::string& source) {
  std::istringstream words(source);
  std::vector<std::string> list;
  for (std::string word; words >> word;) {
    list.push_back(word);
  }
  double weight = 0;
  if (list.size() < 2 || !ParseWeight(list[0], weight)) {
    return {{.weight = 1, .source = source}};
  }
  Require(list.size() % 2 == 0, "the weighted list '{}' does not alternate weights and sources", source);
  std::vector<WeightedSource> parts;
  for (std::size_t i = 0; i < list.size(); i += 2) {
    Require(ParseWeight(list[i], weight) && std::isfinite(weight) && weight > 0,
            "'{}' in the weighted list '{}' is not a positive weight", list[i], source);
    parts.push_back({.weight = weight, .source = list[i + 1]});
  }
  return parts;
}

std::string AbsoluteSource(const std::string& source) {
  const std::vector<WeightedSource> parts = ParseSources(source);
  std::string absolute;
  for (const WeightedSource& part : parts) {
    constexpr std::string_view kBytes = "bytes:";
    const bool bytes = part.source.starts_with(kBytes);
    const std::string path = bytes ? part.source.substr(kBytes.size()) : part.source;
    const std::string whole =
        path.empty() || path == "synthetic" ? path : std::filesystem::absolute(path).lexically_normal().string();
    // A list ends a word at a space, so that a path with one stays as it is there.
    const bool fits = parts.size() == 1 || whole.find_first_of(" \t\n") == std::string::npos;
    absolute += parts.size() == 1 ? "" : fmt::format("{}{} ", absolute.empty() ? "" : " ", part.weight);
    absolute += (bytes ? std::string(kBytes) : "") + (fits ? whole : path);
  }
  return absolute;
}

void RequireReadable(const TokenStore& store, const SourceOptions& options) {
  Require(options.sequence > 0, "sequence {} must be positive", options.sequence);
  Require(!options.answers_only || store.has_answers(),
          "data.answers_only: '{}' holds no conversations; make it with trireme data prepare --format chat",
          store.path());
}

std::unique_ptr<SampleSource> OpenSource(const SourceOptions& options) {
  Require(!options.source.empty(), "no data source: name a file, a weighted list of files, or 'synthetic'");
  const std::vector<WeightedSource> list = ParseSources(options.source);
  if (list.size() == 1) {
    SourceOptions one = options;
    one.source = list.front().source;
    return OpenOne(one);
  }
  std::vector<std::pair<double, std::unique_ptr<SampleSource>>> parts;
  for (std::size_t i = 0; i < list.size(); ++i) {
    SourceOptions part = options;
    part.source = list[i].source;
    // Two entries of one file under one seed would give the same samples side by side.
    part.seed = options.seed + i;
    parts.emplace_back(list[i].weight, OpenOne(part));
  }
  return std::make_unique<BlendSource>(std::move(parts), options.seed);
}

}  // namespace trireme
