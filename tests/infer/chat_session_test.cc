#include "infer/chat_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

const char* const kTurns =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|stop|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

std::string Text(const std::vector<std::int32_t>& tokens) { return {tokens.begin(), tokens.end()}; }

TEST(ChatSession, TheOldestExchangesAreForgotten) {
  const auto tokenizer = LoadTokenizer("bytes");
  const ChatTemplate chat(kTurns, {}, "test");
  ChatSession session(*tokenizer, chat, "S");
  const std::string system = "<|system|>S<|stop|>";
  EXPECT_EQ(Text(session.Ask("one", 200)), system + "<|user|>one<|stop|><|assistant|>");
  session.Answer("1");
  EXPECT_EQ(Text(session.Ask("two", 200)),
            system + "<|user|>one<|stop|><|assistant|>1<|stop|><|user|>two<|stop|><|assistant|>");
  session.Answer("2");
  EXPECT_EQ(session.forgotten(), 0);
  EXPECT_EQ(Text(session.Ask("three", 100)),
            system + "<|user|>two<|stop|><|assistant|>2<|stop|><|user|>three<|stop|><|assistant|>");
  EXPECT_EQ(session.forgotten(), 1);
  session.Answer("3");
  EXPECT_THROW(session.Ask(std::string(90, 'x'), 100), Error) << "a message that is too long by itself";
  session.Reset();
  EXPECT_EQ(Text(session.Ask("one", 200)), system + "<|user|>one<|stop|><|assistant|>");
}

TEST(ChatSession, AnAnswerEndsWithTheTemplatesToken) {
  const ScratchDirectory folder;
  WriteBytes(folder / "tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "added_tokens": [{"id": 2, "content": "<|endoftext|>", "special": true},
                     {"id": 3, "content": "<|stop|>", "special": true}]})");
  const auto tokenizer = LoadTokenizer(folder / "tokenizer.json");
  EXPECT_EQ(AnswerEnds(*tokenizer, ChatTemplate(kTurns, {}, "test")), (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(AnswerEnds(*tokenizer, ChatTemplate("{{ messages[0].content }}", {}, "test")),
            (std::vector<std::int32_t>{2}));
}

}  // namespace
}  // namespace trireme
