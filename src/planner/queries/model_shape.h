// The shape of a model from a Hugging Face config.json, for planning. Reads more families than training does: what
// planning does not depend on (scaled rotary positions, sliding windows, epsilons) is ignored; what it would price
// wrongly (experts, heads of another size) is an Error.
#pragma once

#include <string>

#include "model/model_config.h"

namespace trireme {

// `origin` names the text in errors. The result is completed.
ModelConfig ParseModelShape(const std::string& json, const std::string& origin);

}  // namespace trireme
