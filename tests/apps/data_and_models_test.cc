#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/program.h"
#include "base/json_text.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string SampleText() {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += "the quick brown fox number " + std::to_string(i) + " jumps over the lazy dog\n";
  }
  return text;
}

nlohmann::json Parsed(const Outcome& outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return ParseJsonOrDiscard(outcome.out);
}

TEST(Inference, UnusableInputIsToldBeforeAnythingIsWritten) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  ASSERT_EQ(place.Run({"train", "recipe.toml", "--run", "run", "--set", "model.vocabulary=256", "--steps", "1"}).code,
            0);
  place.Write("ids.txt", "1 2 3\n4 5 6 7\n");
  place.Write("macro.jinja", "{% macro x() %}{% endmacro %}");
  const std::vector<std::vector<std::string>> lines = {
      {"evaluate", "run", "--tokens", "ids.txt", "--logits", "out.npy"},
      {"evaluate", "run", "--logits", "nowhere/out.npy"},
      {"evaluate", "run", "--logits", "out.npy", "--pipeline", "0"},
      {"evaluate", "run", "--logits", "out.npy", "--pipeline", "40"},
      {"generate", "run", "--device", "tpu"},
      {"generate", "run", "--ranks", "0"},
      {"generate", "run", "--threads", "-1"},
      {"generate", "run", "--seed", "-1"},
      {"generate", "run", "--min-p", "2"},
      {"generate", "run", "--logprobs"},
      {"generate", "run", "--stop", ""},
      {"generate", "run", "--system", "be brief"},
      {"generate", "run", "--chat"},
      {"chat", "run"},
      {"chat", "run", "--template", "nowhere.jinja"},
      {"chat", "run", "--template", "macro.jinja"},
      {"checkpoint", "export", "run", "out.npy", "--format", "onnx"},
      {"checkpoint", "export", "run", "out.npy", "--format", "gguf", "--type", "q4_k"},
      {"checkpoint", "export", "run", "out.npy", "--format", "gguf", "--check"},
  };
  for (const auto& line : lines) {
    const Outcome outcome = place.Run(line);
    EXPECT_EQ(outcome.code, 2) << testing::PrintToString(line) << outcome.err;
    EXPECT_EQ(outcome.messages(), 1U) << outcome.err;
    EXPECT_FALSE(place.Has("out.npy"));
  }
  place.Write("dos.txt", "a\r\nb\r\n");
  const Outcome made = place.Run({"generate", "run", "--prompts", "dos.txt", "--tokens", "1", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(ParseJson(Lines(made.out).at(1)).at("prompt"), "b");
}

TEST(Data, FromTextToAModelThatWritesTokens) {
  const Workplace place;
  place.Write("corpus.txt", SampleText());
  ASSERT_EQ(Parsed(place.Run({"data", "train-tokenizer", "corpus.txt", "--vocabulary", "300", "--output",
                              "tokenizer.json", "--json"}))
                .at("vocabulary"),
            300);
  const std::vector<std::string> again = {"data", "train-tokenizer", "corpus.txt",    "--vocabulary",
                                          "300",  "--output",        "tokenizer.json"};
  const Outcome kept = place.Run(again);
  EXPECT_EQ(kept.code, 2);
  EXPECT_THAT(kept.err, HasSubstr("'tokenizer.json' exists: choose another --output, or replace it with --overwrite"));
  std::vector<std::string> replaced = again;
  replaced.emplace_back("--overwrite");
  EXPECT_EQ(place.Run(replaced).code, 0);
  const Outcome encoded = place.Run({"data", "encode", "the lazy fox", "--tokenizer", "tokenizer.json"});
  ASSERT_EQ(encoded.code, 0) << encoded.err;
  std::vector<std::string> decode = {"data", "decode"};
  std::istringstream ids(encoded.out);
  for (std::string id; ids >> id;) {
    decode.push_back(id);
  }
  decode.insert(decode.end(), {"--tokenizer", "tokenizer.json"});
  EXPECT_EQ(place.Run(decode).out, "the lazy fox\n");

  const auto prepared = Parsed(place.Run({"data", "prepare", "corpus.txt", "--format", "lines", "--tokenizer",
                                          "tokenizer.json", "--output", "corpus", "--json"}));
  EXPECT_EQ(prepared.at("documents"), 200);
  const auto inspected = Parsed(place.Run({"data", "inspect", "corpus", "--vocabulary", "300", "--json"}));
  EXPECT_EQ(inspected.at("tokens"), prepared.at("tokens"));
  EXPECT_EQ(place.Run({"data", "split", "corpus", "--weights", "80,20", "--output", "part"}).code, 0);
  const auto merged =
      Parsed(place.Run({"data", "merge", "part-train", "part-validation", "--output", "whole", "--json"}));
  EXPECT_EQ(merged.at("tokens"), prepared.at("tokens"));
  EXPECT_EQ(place.Read("whole.bin"), place.Read("corpus.bin"));

  place.Write("recipe.toml", TinyRecipe());
  const Outcome trained = place.Run(
      {"train", "recipe.toml", "--run", "run", "--set", "model.vocabulary=300", "--set", "data.source=corpus.bin"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  // The tokenizer travels with the dataset, the run and what is made of it.
  EXPECT_EQ(place.Read("corpus.tokenizer/tokenizer.json"), place.Read("tokenizer.json"));
  EXPECT_EQ(place.Read("run/tokenizer.json"), place.Read("tokenizer.json"));
  std::filesystem::remove_all(place / "corpus.tokenizer");
  std::filesystem::rename(place / "tokenizer.json", place / "kept.json");
  const auto made = Parsed(place.Run({"generate", "run", "--prompt", "the quick", "--tokens", "3", "--json"}));
  // Fewer when the model ends its text.
  EXPECT_THAT(made.at("tokens").size(), testing::AllOf(testing::Ge(1U), testing::Le(3U)));
  // Every byte of the corpus but those of the first token is predicted once.
  const auto scored = Parsed(place.Run({"evaluate", "run", "--data", "corpus.bin", "--samples", "0", "--json"}));
  const auto bytes = scored.at("bytes").get<double>();
  EXPECT_GT(bytes, 0.98 * static_cast<double>(SampleText().size() - 200));
  EXPECT_LE(bytes, static_cast<double>(SampleText().size() - 200)) << "ends of documents and of lines are no text";
  EXPECT_GT(scored.at("bits_per_byte").get<double>(), 0);
  ASSERT_EQ(place.Run({"checkpoint", "export", "run", "exported"}).code, 0);
  EXPECT_EQ(place.Read("exported/tokenizer.json"), place.Read("kept.json"));
  ASSERT_EQ(place.Run({"checkpoint", "import", "exported", "again/checkpoints"}).code, 0);
  EXPECT_EQ(Parsed(place.Run({"generate", "again", "--prompt", "the quick", "--tokens", "3", "--json"})), made);
}

TEST(Data, ConversationsTrainOnTheirAnswers) {
  const Workplace place;
  place.Write("corpus.txt", SampleText());
  std::string talks;
  for (int i = 0; i < 60; ++i) {
    talks += JsonText(nlohmann::json{{"messages",
                                      {{{"role", "user"}, {"content", "what number is it"}},
                                       {{"role", "assistant"}, {"content", "the fox number " + std::to_string(i)}}}}}) +
             "\n";
  }
  place.Write("talks.jsonl", talks);
  ASSERT_EQ(place
                .Run({"data", "train-tokenizer", "corpus.txt", "--vocabulary", "300", "--special", "<|endoftext|>",
                      "--special", "<|turn|>", "--output", "tokenizer.json"})
                .code,
            0);
  const std::vector<std::string> prepare = {"data",        "prepare",        "talks.jsonl", "--format", "chat",
                                            "--tokenizer", "tokenizer.json", "--output",    "talks",    "--json"};
  EXPECT_THAT(place.Run(prepare).err, HasSubstr("has no chat template"));
  place.Write("chat_template.jinja",
              "{% for m in messages %}<|turn|>{{ m.role }}\n{{ m.content }}<|endoftext|>{% endfor %}"
              "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}");
  EXPECT_EQ(Parsed(place.Run(prepare)).at("documents"), 60);
  place.Write("recipe.toml", TinyRecipe());
  const std::vector<std::string> train = {"train", "recipe.toml",           "--run", "run",
                                          "--set", "model.vocabulary=300",  "--set", "model.sequence=48",
                                          "--set", "data.source=talks.bin", "--set", "data.answers_only=true"};
  const Outcome trained = place.Run(train);
  ASSERT_EQ(trained.code, 0) << trained.err;
  // Loss of the run's own validation part: the answers alone are counted.
  const auto scored = Parsed(place.Run({"evaluate", "run", "--json"}));
  const auto whole = Parsed(place.Run({"data", "inspect", "talks", "--json"})).at("tokens").get<double>();
  EXPECT_GT(scored.at("tokens").get<double>(), 0);
  EXPECT_LT(scored.at("tokens").get<double>(), 0.05 * whole * 0.8);
  // The tokenizer of the run has the template: the model talks by it.
  const Outcome talk =
      place.Run({"chat", "run", "--prompts", "corpus.txt", "--tokens", "2", "--temperature", "0", "--json"});
  EXPECT_EQ(talk.code, 0) << talk.err;
  EXPECT_EQ(Lines(talk.out).size(), 200U);
}

class TrainedModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = std::make_unique<Workplace>();
    place_->Write("recipe.toml", TinyRecipe());
    ASSERT_EQ(place_->Run({"train", "recipe.toml", "--run", "run"}).code, 0);
  }
  static void TearDownTestSuite() { place_.reset(); }

  static std::unique_ptr<Workplace> place_;
};
std::unique_ptr<Workplace> TrainedModel::place_;

TEST_F(TrainedModel, GeneratesTheSameOnAnyNumberOfRanks) {
  const std::vector<std::string> line = {"generate", "run", "--prompt", "ab", "--tokens", "8",
                                         "--seed",   "5",   "--top-k",  "50", "--top-p",  "0.95"};
  const Outcome one = place_->Run(line);
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, testing::StartsWith("ab"));
  EXPECT_EQ(one.out.size(), 2U + 8U + 1U);
  for (const char* ranks : {"2", "4"}) {
    std::vector<std::string> more = line;
    more.insert(more.end(), {"--ranks", ranks});
    EXPECT_EQ(place_->Run(more).out, one.out) << ranks;
  }
}

TEST_F(TrainedModel, MoreTokensThanTheModelHasRoomForAreCappedWithANote) {
  const Outcome made = place_->Run({"generate", "run", "--prompt", "ab", "--tokens", "5000", "--temperature", "0"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, testing::ContainsRegex("--tokens 5000: [0-9]+ are made, as many as the model's sequence of"));
}

TEST_F(TrainedModel, ABatchFromAFileGivesALineAPrompt) {
  place_->Write("prompts.txt", "one\ntwo and more\n\n");
  const Outcome outcome =
      place_->Run({"generate", "run", "--prompts", "prompts.txt", "--tokens", "4", "--temperature", "0", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(Lines(outcome.out).size(), 3U);
  EXPECT_EQ(ParseJson(Lines(outcome.out)[1]).at("prompt"), "two and more");
}

TEST_F(TrainedModel, ATalkContinuesTheWholeConversation) {
  place_->Write("short.jinja",
                "{% for m in messages %}{{ m.role[0] + m.content }}{% endfor %}{{ 'a' if add_generation_prompt }}");
  place_->Write("questions.txt", "x\n\n/help\ny\n/rest\nz\n/reset\nx\n/quit\nnever\n");
  const std::vector<std::string> line = {"chat",          "run",         "--prompts", "questions.txt",
                                         "--template",    "short.jinja", "--tokens",  "3",
                                         "--temperature", "0",           "--json"};
  const Outcome talk = place_->Run(line);
  ASSERT_EQ(talk.code, 0) << talk.err;
  ASSERT_EQ(Lines(talk.out).size(), 4U) << talk.out;
  EXPECT_THAT(talk.err, HasSubstr("/reset  forget the conversation"));
  EXPECT_THAT(talk.err, HasSubstr("/rest is no command: /help lists them"));
  std::vector<nlohmann::json> answers;
  for (const std::string& answer : Lines(talk.out)) {
    answers.push_back(ParseJson(answer));
  }
  const auto generated = [&](std::vector<std::int32_t> tokens) {
    // Bytes of any value go through a file of token ids; a model of bytes continues them.
    std::string text(tokens.begin(), tokens.end());
    place_->Write("prompt.txt", text + "\n");
    return Parsed(place_->Run(
                      {"generate", "run", "--prompts", "prompt.txt", "--tokens", "3", "--temperature", "0", "--json"}))
        .at("tokens");
  };
  std::vector<std::int32_t> said = {'u', 'x', 'a'};
  EXPECT_EQ(answers[0].at("tokens"), generated(said));
  EXPECT_EQ(answers[3], answers[0]) << "/reset forgets";
  EXPECT_EQ(Parsed(place_->Run({"generate", "run", "--chat", "--template", "short.jinja", "--prompt", "x", "--tokens",
                                "3", "--temperature", "0", "--json"}))
                .at("tokens"),
            answers[0].at("tokens"));
  std::vector<std::string> ranks = line;
  ranks.insert(ranks.end(), {"--ranks", "2"});
  EXPECT_EQ(place_->Run(ranks).out, talk.out);
}

TEST_F(TrainedModel, AGgufFileIsWritten) {
  const auto made =
      Parsed(place_->Run({"checkpoint", "export", "run", "m.gguf", "--format", "gguf", "--type", "q8_0", "--json"}));
  EXPECT_EQ(made.at("architecture"), "gpt2");
  EXPECT_EQ(place_->Read("m.gguf").substr(0, 4), "GGUF");
  EXPECT_EQ(place_->Read("m.gguf").size(), made.at("bytes"));
}

TEST_F(TrainedModel, AHuggingFaceDirectoryGeneratesWhatTheRunDoes) {
  ASSERT_EQ(place_->Run({"checkpoint", "export", "run", "exported"}).code, 0);
  const Outcome checked = place_->Run({"checkpoint", "export", "run", "checked", "--check"});
  EXPECT_EQ(checked.code, 0);
  EXPECT_THAT(checked.out, testing::HasSubstr("largest difference 0,"));
  const Outcome rounded =
      place_->Run({"checkpoint", "export", "run", "rounded", "--dtype", "bf16", "--check", "--json"});
  EXPECT_EQ(rounded.code, 1) << "bf16 is further away than the tolerance of fp32";
  EXPECT_EQ(ParseJson(rounded.out).at("check").at("same"), false);
  EXPECT_EQ(
      place_->Run({"checkpoint", "export", "run", "near", "--dtype", "bf16", "--check", "--tolerance", "0.05"}).code,
      0);
  EXPECT_EQ(place_->Run({"checkpoint", "export", "run", "exported"}).code, 2) << "it is there already";
  const std::vector<std::string> line = {"--prompt", "ab", "--tokens", "8", "--tokenizer", "bytes"};
  std::vector<std::string> from_run = {"generate", "run"};
  std::vector<std::string> from_export = {"generate", "exported"};
  from_run.insert(from_run.end(), line.begin(), line.end());
  from_export.insert(from_export.end(), line.begin(), line.end());
  const Outcome own = place_->Run(from_run);
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(place_->Run(from_export).out, own.out);
  ASSERT_EQ(place_->Run({"checkpoint", "import", "exported", "imported"}).code, 0);
  ASSERT_EQ(place_->Run({"checkpoint", "convert", "run", "weights", "--weights-only"}).code, 0);
  const auto tensors = [&](const char* path) {
    return Parsed(place_->Run({"checkpoint", "inspect", path, "--json"})).at("tensors");
  };
  EXPECT_EQ(tensors("imported"), tensors("weights"));
}

TEST_F(TrainedModel, ARecipeGoesOnFromAnExportedModel) {
  ASSERT_EQ(place_->Run({"checkpoint", "export", "run", "downloaded", "--shard-gigabytes", "0.00005"}).code, 0);
  ASSERT_TRUE(place_->Has("downloaded/model.safetensors.index.json"));
  place_->Write("tuned.toml", R"(model.from = "downloaded"
layout = { tensor = 2, pipeline = 2 }
batch.global = 4
train = { steps = 2, device = "cpu" }
validation = { every = 1, samples = 8 }
optimizer.learning_rate = 0
)");
  const Outcome shown = place_->Run({"train", "tuned.toml", "--dry-run"});
  EXPECT_THAT(shown.out, testing::ContainsRegex("model.layers += +2 +# model.from"));
  const Outcome trained = place_->Run({"train", "tuned.toml", "--run", "tuned"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out + trained.err, HasSubstr("goes on from the weights of 'downloaded'"));
  // A learning rate of 0 leaves the weights as they were.
  const auto before = Parsed(place_->Run({"checkpoint", "inspect", "run", "--json"})).at("tensors");
  const auto after = Parsed(place_->Run({"checkpoint", "inspect", "tuned", "--json"})).at("tensors");
  const auto masters = [](const nlohmann::json& tensors) {
    std::map<std::string, std::string> digests;
    for (const auto& tensor : tensors) {
      if (tensor.at("kind") == "master") {
        digests[tensor.at("name")] = JsonText(tensor);
      }
    }
    return digests;
  };
  EXPECT_EQ(masters(before), masters(after));
  EXPECT_FALSE(masters(after).empty());

  const auto refused = [&](const std::vector<std::string>& more, const std::string& words) {
    std::vector<std::string> line = {"train", "tuned.toml", "--run", "none"};
    line.insert(line.end(), more.begin(), more.end());
    const Outcome outcome = place_->Run(line);
    EXPECT_EQ(outcome.code, 2) << words;
    EXPECT_EQ(outcome.messages(), 1U) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(words));
    EXPECT_FALSE(place_->Has("none")) << "nothing is written";
  };
  refused({"--set", "model.from=nowhere"}, "'nowhere' is no folder");
  refused({"--set", "model.layers=4"}, "model.layers = 4 (--set), but the model of model.from = 'downloaded' has 2");
  refused({"--set", "model.preset=gpt2-124m"}, "keep one");
  for (const auto& entry : std::filesystem::directory_iterator(*place_ / "downloaded")) {
    if (entry.path().filename().string().starts_with("model-00001-of-")) {
      std::filesystem::remove(entry.path());
    }
  }
  refused({}, "downloaded/model-00001-of-");
}

TEST_F(TrainedModel, WritesLogitsOfTokenLists) {
  place_->Write("ids.txt", "1 2 3 4 250\n9 8 7 6 5\n");
  const auto whole = Parsed(place_->Run({"evaluate", "run", "--tokens", "ids.txt", "--logits", "one.npy", "--json"}));
  ASSERT_EQ(whole.at("tokens"), 8);
  ASSERT_EQ(place_->Run({"evaluate", "run", "--tokens", "ids.txt", "--logits", "two.npy", "--ranks", "2"}).code, 0);
  const std::string bytes = place_->Read("one.npy");
  EXPECT_THAT(bytes, HasSubstr("'shape': (2, 4, 256)"));
  ASSERT_EQ(bytes.size(), 128U + 2 * 4 * 256 * sizeof(float));
  const std::string other = place_->Read("two.npy");
  ASSERT_EQ(other.size(), bytes.size());
  std::vector<float> one(2 * 4 * 256);
  std::vector<float> two(one.size());
  std::memcpy(one.data(), bytes.data() + 128, one.size() * sizeof(float));
  std::memcpy(two.data(), other.data() + 128, two.size() * sizeof(float));
  EXPECT_THAT(two, testing::Pointwise(testing::FloatNear(1e-5F), one));
  const auto staged = Parsed(place_->Run(
      {"evaluate", "run", "--tokens", "ids.txt", "--logits", "four.npy", "--ranks", "2", "--pipeline", "2", "--json"}));
  EXPECT_NEAR(staged.at("loss").get<double>(), whole.at("loss").get<double>(), 1e-5);
  EXPECT_EQ(staged.at("bytes"), whole.at("bytes"));
  const std::string four = place_->Read("four.npy");
  ASSERT_EQ(four.substr(0, 128), bytes.substr(0, 128));
  ASSERT_EQ(four.size(), bytes.size());
  std::memcpy(two.data(), four.data() + 128, two.size() * sizeof(float));
  EXPECT_THAT(two, testing::Pointwise(testing::FloatNear(1e-5F), one));
  EXPECT_NE(one.front(), one.back());
  for (const char* lines : {"1 2 3\n4 5\n", "1\n", "1 256\n", "1 x\n", ""}) {
    place_->Write("ids.txt", lines);
    EXPECT_NE(place_->Run({"evaluate", "run", "--tokens", "ids.txt", "--logits", "x.npy"}).code, 0) << lines;
  }
}

TEST_F(TrainedModel, EvaluatesDataTextAndQuestions) {
  const auto own = Parsed(place_->Run({"evaluate", "run", "--samples", "8", "--json"}));
  // The run's last validation was of the same samples and the same weights.
  const auto last = ParseJson(Lines(place_->Read("run/metrics.jsonl")).back());
  EXPECT_NEAR(own.at("loss").get<double>(), last.at("validation_loss").get<double>(), 1e-4);
  EXPECT_EQ(own.at("bits_per_byte").get<double>() > 0, true);

  place_->Write("text.txt", "a text of its own");
  EXPECT_EQ(Parsed(place_->Run({"evaluate", "run", "--text", "text.txt", "--ranks", "2", "--json"})).at("tokens"), 16);
  place_->Write("questions.jsonl", R"({"query": "one and", "choices": ["two", "three"], "gold": 0})");
  const auto answers = Parsed(place_->Run({"evaluate", "run", "--choices", "questions.jsonl", "--json"}));
  EXPECT_EQ(answers.at("questions"), 1);
  place_->Write("bad.jsonl", R"({"query": "one and", "choices": ["two"], "gold": 0})");
  const Outcome bad = place_->Run({"evaluate", "run", "--choices", "bad.jsonl"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.jsonl line 1"));
}

TEST_F(TrainedModel, RefusesWhatItCannotDoWithOneMessage) {
  const std::vector<std::vector<std::string>> lines = {
      {"generate", "run", "--prompt", "ab", "--ranks", "3"},
      {"generate", "run", "--prompt", std::string(100, 'a'), "--tokens", "1"},
      {"generate", "run", "--prompt", "ab", "--temperature", "-1"},
      {"generate", "run", "--prompt", "ab", "--top-p", "2"},
      {"generate", "run", "--prompt", "ab", "--dtype", "fp7"},
      {"evaluate", "run", "--sequence", "64"},
      {"evaluate", "run", "--data", "nowhere.bin"},
  };
  for (const auto& line : lines) {
    const Outcome outcome = place_->Run(line);
    EXPECT_EQ(outcome.code, 2) << testing::PrintToString(line);
    EXPECT_EQ(outcome.messages(), 1U) << outcome.err;
  }
}

TEST_F(TrainedModel, VerifyFindsAFlippedBit) {
  EXPECT_EQ(place_->Run({"checkpoint", "verify", "run"}).code, 0);
  const std::string copy = *place_ / "damaged";
  std::filesystem::copy(*place_ / "run/checkpoints", copy, std::filesystem::copy_options::recursive);
  std::string shard;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(copy)) {
    if (entry.path().extension() == ".safetensors") {
      shard = std::filesystem::relative(entry.path(), *place_ / "").string();
    }
  }
  ASSERT_FALSE(shard.empty());
  std::string bytes = place_->Read(shard);
  bytes[bytes.size() - 9] = static_cast<char>(bytes[bytes.size() - 9] ^ 4);
  place_->Write(shard, bytes);
  const Outcome outcome = place_->Run({"checkpoint", "verify", "damaged"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr(std::filesystem::path(shard).filename().string()));
}

}  // namespace
}  // namespace trireme
