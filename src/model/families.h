// The families that families.cc registers, each made in the file of its name.
#pragma once

#include "model/model_config.h"

namespace trireme {

ModelFamily Gpt2Family();
ModelFamily BloomFamily();
ModelFamily LlamaFamily();
ModelFamily Qwen3Family();

}  // namespace trireme
