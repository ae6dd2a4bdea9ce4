#include "data/chat/chat_template.h"

#include "fuzz/fuzz_input.h"

// A chat template, rendered for a conversation with and without the start of an answer.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] {
    ChatTemplate chat(std::string(FuzzInput(data, size).Rest()), {{"bos_token", "<s>"}, {"eos_token", "</s>"}},
                      "input");
    chat.set_now(0);
    const nlohmann::ordered_json messages =
        ToJson({{"system", "Be brief."}, {"user", " naïve? "}, {"assistant", "Yes."}, {"user", "x"}});
    Tolerate([&] { chat.RenderAnswers(messages); });
    chat.Render(messages, true);
  });
}
