#include "data/dataset/dataset_tools.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "data/dataset/indexed_dataset.h"
#include "data/dataset/indexed_dataset_writer.h"
#include "data/samples/data_split.h"
#include "data/tokenizer/tokenizer_folder.h"

namespace trireme {
namespace {

constexpr std::int64_t kChunkTokens = 1 << 18;

void ScanTokens(const IndexedDataset& dataset, std::int64_t vocabulary, DatasetSummary& summary) {
  std::vector<std::int32_t> buffer(static_cast<std::size_t>(std::min(kChunkTokens, dataset.tokens())));
  std::int32_t smallest = std::numeric_limits<std::int32_t>::max();
  std::int32_t largest = std::numeric_limits<std::int32_t>::min();
  for (std::int64_t first = 0; first < dataset.tokens(); first += kChunkTokens) {
    const auto chunk =
        std::span(buffer).first(static_cast<std::size_t>(std::min(kChunkTokens, dataset.tokens() - first)));
    dataset.Read(first, chunk);
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      smallest = std::min(smallest, chunk[i]);
      largest = std::max(largest, chunk[i]);
      Require(vocabulary == 0 || (chunk[i] >= 0 && chunk[i] < vocabulary),
              "token {} at position {} of '{}' is outside the vocabulary of {}", chunk[i],
              first + static_cast<std::int64_t>(i), dataset.path(), vocabulary);
    }
  }
  if (dataset.tokens() > 0) {
    summary.smallest_token = smallest;
    summary.largest_token = largest;
  }
}

void CopyDocuments(const IndexedDataset& from, std::int64_t first, std::int64_t last, IndexedDatasetWriter& to) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t document = first; document < last; ++document) {
    const std::int64_t end = from.DocumentSequence(document + 1);
    for (std::int64_t sequence = from.DocumentSequence(document); sequence < end; ++sequence) {
      const std::int64_t start = from.SequenceStart(sequence);
      const std::int64_t length = from.SequenceStart(sequence + 1) - start;
      Require(length >= 0, "'{}' changed while it was being read", from.path());
      tokens.resize(static_cast<std::size_t>(length));
      from.Read(start, tokens);
      to.AddSequence(tokens);
    }
    to.EndDocument();
  }
}

void RequireFree(const std::string& prefix, bool overwrite) {
  Require(overwrite || !std::filesystem::exists(prefix + ".idx"),
          "'{}.idx' exists: choose another --output, or replace it with --overwrite", prefix);
}

void KeepTokenizer(const std::string& folder, const std::string& prefix) {
  if (!folder.empty() && std::filesystem::is_directory(folder)) {
    CopyTokenizer(folder, TokenizerFolderOf(prefix));
  }
}

}  // namespace

DatasetSummary InspectDataset(const std::string& path, std::int64_t vocabulary) {
  const IndexedDataset dataset(path);
  DatasetSummary summary{.path = dataset.path(),
                         .kind = dataset.kind(),
                         .tokens = dataset.tokens(),
                         .sequences = dataset.sequences(),
                         .documents = dataset.documents(),
                         .has_modes = dataset.has_modes()};
  summary.shortest_document = dataset.documents() > 0 ? std::numeric_limits<std::int64_t>::max() : 0;
  std::int64_t start = 0;
  for (std::int64_t document = 0; document < dataset.documents(); ++document) {
    const std::int64_t end = dataset.SequenceStart(dataset.DocumentSequence(document + 1));
    summary.shortest_document = std::min(summary.shortest_document, end - start);
    summary.longest_document = std::max(summary.longest_document, end - start);
    summary.empty_documents += end == start ? 1 : 0;
    start = end;
  }
  ScanTokens(dataset, vocabulary, summary);
  return summary;
}

void MergeDatasets(const std::vector<std::string>& inputs, const DatasetOutput& output) {
  Require(!inputs.empty(), "nothing to merge into '{}'", output.prefix);
  const TokenKind kind = IndexedDataset(inputs.front()).kind();
  std::string tokenizer;  // of the first input that has one
  for (const std::string& input : inputs) {
    Require(DatasetPrefix(input) != output.prefix, "'{}' is both an input and the output", output.prefix);
    const IndexedDataset dataset(input);
    Require(dataset.kind() == kind, "'{}' stores {} tokens, '{}' {}: datasets of one kind merge", dataset.path(),
            Name(dataset.kind()), inputs.front(), Name(kind));
    if (const std::string own = TokenizerFolderOf(DatasetPrefix(input)); !FindTokenizer(own).empty()) {
      Require(tokenizer.empty() || SameTokenizer(own, tokenizer),
              "'{}' and '{}' differ: datasets of one tokenizer merge", tokenizer, own);
      tokenizer = tokenizer.empty() ? own : tokenizer;
    }
  }
  RequireFree(output.prefix, output.overwrite);
  IndexedDatasetWriter writer(output.prefix, kind);
  for (const std::string& input : inputs) {
    const IndexedDataset dataset(input);
    CopyDocuments(dataset, 0, dataset.documents(), writer);
  }
  KeepTokenizer(tokenizer, output.prefix);
  writer.Finish();
}

std::array<std::int64_t, 3> SplitDataset(const std::string& input, const std::string& weights_text,
                                         const DatasetOutput& output) {
  const IndexedDataset dataset(input);
  const auto weights = ParseSplitWeights(weights_text);
  const double total = weights[0] + weights[1] + weights[2];
  std::array<std::int64_t, 4> cuts = {0, 0, 0, dataset.documents()};  // in documents
  for (std::size_t cut = 1; cut <= 2; ++cut) {
    const double share = (cut == 1 ? weights[0] : weights[0] + weights[1]) / total;
    const auto position = static_cast<std::int64_t>(std::llround(share * static_cast<double>(dataset.tokens())));
    cuts[cut] = position >= dataset.tokens() ? dataset.documents() : dataset.FindDocument(position);
  }
  constexpr std::array<const char*, 3> kSuffixes = {"-train", "-validation", "-test"};
  for (const char* suffix : kSuffixes) {
    RequireFree(output.prefix + suffix, output.overwrite);
  }
  std::array<std::int64_t, 3> tokens{};
  for (std::size_t part = 0; part < 3; ++part) {
    if (weights[part] > 0) {
      const std::string prefix = output.prefix + kSuffixes[part];
      IndexedDatasetWriter writer(prefix, dataset.kind());
      CopyDocuments(dataset, cuts[part], cuts[part + 1], writer);
      tokens[part] = writer.state().tokens;
      KeepTokenizer(TokenizerFolderOf(DatasetPrefix(input)), prefix);
      writer.Finish();
    }
  }
  return tokens;
}

}  // namespace trireme
