#include "apps/trireme/chat_options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "data/files/json_file.h"

namespace trireme {

void ChatOptions::AddOptions(CLI::App& app) {
  app.add_option("--system", system, "Message of the system that opens the conversation");
  app.add_option("--template", template_file, "Chat template (Jinja) to use instead of the tokenizer's");
}

ChatTemplate ChatOptions::Open(const ModelFiles& files, const std::string& tokenizer) const {
  constexpr std::int64_t kMostBytes = 1 << 20;
  const std::string place = tokenizer.empty() ? files.tokenizer : tokenizer;
  const std::string source = template_file.empty() ? "" : ReadBoundedFile(template_file, kMostBytes);
  Require(!source.empty() || !place.empty(),
          "no tokenizer with a chat template goes with this model: give one with --template, or use 'generate'");
  return source.empty() ? ChatTemplate::Load(place) : ChatTemplate::Load(place, source);
}

}  // namespace trireme
