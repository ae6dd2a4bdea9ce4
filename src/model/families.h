// The families that families.cc registers, each made in the file of its name.
#pragma once

#include "model/model_config.h"

namespace trireme {

ModelFamily Gpt2Family();
ModelFamily BloomFamily();
ModelFamily LlamaFamily();
ModelFamily MistralFamily();
ModelFamily Qwen2Family();
ModelFamily Qwen3Family();
ModelFamily Gemma2Family();
ModelFamily Gemma3Family();
ModelFamily Olmo2Family();
ModelFamily Olmo3Family();
ModelFamily OlmoeFamily();
ModelFamily Phi3Family();
ModelFamily NemotronFamily();
ModelFamily GptNeoXFamily();
ModelFamily OptFamily();
ModelFamily MptFamily();
ModelFamily SmolLm3Family();
ModelFamily GraniteFamily();

}  // namespace trireme
