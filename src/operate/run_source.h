// The samples of a run, as its recipe's data keys say.
#pragma once

#include <memory>
#include <string>

#include "data/samples/sample_source.h"
#include "run/run_config.h"

namespace trireme {

// `split`: train, validation or test. An Error when a file is missing or unfit; `check_tokens` as SourceOptions has it.
std::unique_ptr<SampleSource> OpenRunSource(const RunConfig& config, const std::string& split,
                                            bool check_tokens = false);

}  // namespace trireme
