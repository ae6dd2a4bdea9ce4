#include "operate/run_source.h"

namespace trireme {

std::unique_ptr<SampleSource> OpenRunSource(const RunConfig& config, const std::string& split, bool check_tokens) {
  return OpenSource({.source = config.data.source,
                     .sequence = config.model.sequence,
                     .seed = static_cast<std::uint64_t>(config.train.seed),
                     .vocabulary = config.model.vocabulary,
                     .split = split,
                     .split_weights = config.data.split,
                     .document_masks = config.data.document_masks,
                     .answers_only = config.data.answers_only,
                     .padding_masks = config.data.padding_masks,
                     .check_tokens = check_tokens,
                     .best_fit = config.data.packing == Packing::kBestFit});
}

}  // namespace trireme
