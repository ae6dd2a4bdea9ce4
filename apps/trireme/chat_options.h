// What `chat` and `generate --chat` share: the chat template and the system's message.
#pragma once

#include <string>

#include "data/chat/chat_template.h"
#include "infer/model_files.h"

namespace CLI {
class App;
}

namespace trireme {

struct ChatOptions {
  std::string template_file;
  std::string system;

  void AddOptions(CLI::App& app);
  // The template of --template, or the one that goes with the model's tokenizer (`tokenizer` when given).
  ChatTemplate Open(const ModelFiles& files, const std::string& tokenizer) const;
};

}  // namespace trireme
