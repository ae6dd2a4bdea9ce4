#include "data/chat/chat_template.h"

#include <map>

#include "base/error.h"
#include "data/chat/jinja_render.h"
#include "data/chat/jinja_tree.h"
#include "data/tokenizer/tokenizer_config.h"

namespace trireme {

using OrderedJson = nlohmann::ordered_json;

struct ChatTemplate::Tree {
  jinja::Block block;
};

namespace {

OrderedJson SpecialTokens(const TokenizerConfig& config) {
  OrderedJson special = OrderedJson::object();
  const auto add = [&](const char* name, const std::string& content) {
    if (!content.empty()) {
      special[name] = content;
    }
  };
  add("bos_token", config.beginning);
  add("eos_token", config.end);
  add("unk_token", config.unknown);
  add("pad_token", config.padding);
  return special;
}

}  // namespace

ChatTemplate ChatTemplate::Load(const std::string& path) {
  const TokenizerConfig config = ReadTokenizerConfig(path);
  Require(!config.chat_template.empty(),
          "'{}' has no chat template: neither chat_template.jinja nor tokenizer_config.json holds one", path);
  return {config.chat_template, SpecialTokens(config), path};
}

ChatTemplate ChatTemplate::Load(const std::string& path, const std::string& source) {
  const TokenizerConfig config = path.empty() ? TokenizerConfig() : ReadTokenizerConfig(path);
  return {source, SpecialTokens(config), path.empty() ? "--template" : path};
}

ChatTemplate::ChatTemplate(const std::string& source, OrderedJson special, std::string origin)
    : special_(std::move(special)), origin_(std::move(origin)), now_(std::time(nullptr)) {
  tree_ = std::make_unique<Tree>(Tree{jinja::ParseTemplate(source, origin_)});
}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

ChatText ChatTemplate::Render(const OrderedJson& messages, bool add_generation_prompt) const {
  std::map<std::string, OrderedJson> variables = {{"messages", messages},
                                                  {"add_generation_prompt", add_generation_prompt}};
  // transformers passes these always.
  variables["tools"] = nullptr;
  variables["documents"] = nullptr;
  for (const auto& [name, value] : special_.items()) {
    variables[name] = value;
  }
  jinja::Rendered rendered = jinja::Render(tree_->block, std::move(variables), now_, origin_);
  return {.text = std::move(rendered.text), .answers = std::move(rendered.generated)};
}

ChatText ChatTemplate::RenderAnswers(const OrderedJson& messages) const {
  ChatText whole = Render(messages, false);
  if (!whole.answers.empty()) {
    return whole;
  }
  OrderedJson before = OrderedJson::array();
  for (const OrderedJson& message : messages) {
    if (message.value("role", "") == "assistant") {
      const std::string asked = Render(before, true).text;
      before.push_back(message);
      const std::string answered = Render(before, false).text;
      Require(answered.starts_with(asked) && whole.text.starts_with(answered),
              "the chat template of '{}' rewrites what precedes an answer, so that answers have no place of their own: "
              "mark them with {{% generation %}} in the template",
              origin_);
      whole.answers.emplace_back(asked.size(), answered.size());
    } else {
      before.push_back(message);
    }
  }
  return whole;
}

OrderedJson ToJson(const std::vector<ChatMessage>& messages) {
  OrderedJson list = OrderedJson::array();
  for (const ChatMessage& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  return list;
}

}  // namespace trireme
