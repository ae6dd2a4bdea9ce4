#include "data/prepare/batch_encoder.h"
#include "fuzz/fuzz_input.h"

// Conversations for `data prepare --format chat`, a JSON document a line.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer("bytes");
  static const ChatTemplate chat(
      "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.role == 'assistant' %}{{ '.' }}{% endif %}"
      "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}",
      nlohmann::ordered_json::object(), "input");
  return Tolerate([&] {
    const TextBatch batch{.text = std::string(FuzzInput(data, size).Rest()), .format = TextFormat::kChat};
    EncodeBatch(batch, "input", *tokenizer, {.json_field = "messages", .chat = &chat});
  });
}
