#include "infer/evaluation_samples.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "data/files/json_file.h"
#include "infer/evaluate.h"

namespace trireme {
namespace {

constexpr std::int64_t kLargestText = std::int64_t{1} << 30;

// The run's data by its recorded paths, which hold in any working folder; as the recipe says where they are gone.
std::string SourceOfRun(const ModelFiles& files) {
  if (files.recorded_source.empty()) {
    return files.data_source;
  }
  std::error_code status;
  for (const WeightedSource& part : ParseSources(files.recorded_source)) {
    const std::string path = part.source.starts_with("bytes:") ? part.source.substr(6) : part.source;
    if (path != "synthetic" && !std::filesystem::exists(path, status)) {
      return files.data_source;
    }
  }
  return files.recorded_source;
}

std::unique_ptr<SampleSource> OpenData(const ModelFiles& files, const EvaluationRequest& request) {
  const std::string source = request.data.empty() ? SourceOfRun(files) : request.data;
  Require(!source.empty(), "what to evaluate on is not known: give --data, --text or --choices");
  return OpenSource({.source = source,
                     .sequence = request.length,
                     .seed = static_cast<std::uint64_t>(files.seed),
                     .vocabulary = files.model.vocabulary,
                     .split = request.split.empty() ? "validation" : request.split,
                     // Another dataset is not cut as the run's own was, unless a part of it is asked for.
                     .split_weights = request.data.empty() || !request.split.empty() ? files.data_split : "",
                     .document_masks = files.document_masks,
                     .answers_only = files.answers_only,
                     .padding_masks = files.padding_masks,
                     .best_fit = files.best_fit && source != "synthetic"});
}

}  // namespace

EvaluationSamples OpenEvaluation(const ModelFiles& files, const EvaluationRequest& request) {
  EvaluationSamples found;
  const auto limited = [&](std::int64_t all) { return request.samples > 0 ? std::min(request.samples, all) : all; };
  if (!request.text.empty()) {
    found.tokenizer = LoadModelTokenizer(files, request.tokenizer);
    const auto windows = std::make_shared<TextWindows>(
        found.tokenizer->Encode(ReadBoundedFile(request.text, kLargestText)), request.length);
    found.count = limited(windows->count());
    found.get = [windows](std::int64_t index) { return windows->Get(index); };
  } else if (!request.tokens.empty()) {
    const auto lines = std::make_shared<std::vector<Sample>>(ReadTokenLines(request.tokens, files.model.vocabulary));
    for (const Sample& line : *lines) {
      Require(static_cast<std::int64_t>(line.tokens.size()) - 1 <= request.length,
              "'{}' holds a sample of {} tokens, longer than {} + 1: --sequence says how long one may be",
              request.tokens, line.tokens.size(), request.length);
    }
    found.count = limited(static_cast<std::int64_t>(lines->size()));
    found.get = [lines](std::int64_t index) { return (*lines)[static_cast<std::size_t>(index)]; };
  } else {
    const std::shared_ptr<SampleSource> source = OpenData(files, request);
    const std::int64_t all = source->samples();
    Require(request.samples > 0 || all > 0, "{} has no end: give --samples", source->description());
    found.count = all > 0 ? limited(all) : request.samples;
    found.get = [source](std::int64_t index) { return source->Get(index); };
  }
  const bool known = !request.tokenizer.empty() || !files.tokenizer.empty() || files.model.vocabulary == 256;
  if (found.tokenizer == nullptr && known) {
    found.tokenizer = LoadModelTokenizer(files, request.tokenizer);
  }
  return found;
}

}  // namespace trireme
