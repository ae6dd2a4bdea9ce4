#include "checkpoint/gguf/gguf.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <variant>

#include "base/dtype.h"
#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/gguf/gguf_model.h"
#include "checkpoint/gguf/gguf_tokenizer.h"
#include "checkpoint/gguf/gguf_values.h"
#include "checkpoint/saved_world.h"
#include "family_features.h"

namespace trireme {
namespace {

using testing::HasSubstr;

template <typename Call>
std::string ErrorOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

float FromHalf(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1 + fraction / 1024.0, exponent - 15);
  return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
}

// A reader of its own, from the format's description: nothing of the writer is used.
struct ReadTensor {
  std::vector<std::uint64_t> dims;  // innermost first
  std::uint32_t type = 0;
  std::vector<float> values;
};

using Texts = std::vector<std::string>;
using Numbers = std::vector<double>;
using Value = std::variant<std::string, double, Texts, Numbers>;

class GgufFile {
 public:
  explicit GgufFile(const std::string& path) : bytes_(ReadBytes(path)) {
    EXPECT_EQ(bytes_.substr(0, 4), "GGUF");
    at_ = 4;
    EXPECT_EQ(Take<std::uint32_t>(), 3U);
    const auto tensors = Take<std::uint64_t>();
    const auto keys = Take<std::uint64_t>();
    for (std::uint64_t i = 0; i < keys; ++i) {
      const std::string key = TakeText();
      EXPECT_TRUE(keys_.emplace(key, TakeValue(Take<std::uint32_t>())).second) << key << " is there twice";
    }
    struct Place {
      std::string name;
      std::uint64_t offset;
    };
    std::vector<Place> places;
    for (std::uint64_t i = 0; i < tensors; ++i) {
      const std::string name = TakeText();
      ReadTensor tensor;
      for (auto left = Take<std::uint32_t>(); left > 0; --left) {
        tensor.dims.push_back(Take<std::uint64_t>());
      }
      tensor.type = Take<std::uint32_t>();
      places.push_back({name, Take<std::uint64_t>()});
      EXPECT_TRUE(tensors_.emplace(name, tensor).second) << name << " is there twice";
    }
    const std::size_t data = (at_ + 31) / 32 * 32;
    for (const Place& place : places) {
      EXPECT_EQ(place.offset % 32, 0U) << place.name;
      at_ = data + place.offset;
      TakeData(tensors_.at(place.name));
    }
    EXPECT_EQ((at_ + 31) / 32 * 32, bytes_.size());
  }

  const std::string& Text(const std::string& key) const { return std::get<std::string>(keys_.at(key)); }
  double Number(const std::string& key) const { return std::get<double>(keys_.at(key)); }
  const Texts& TextList(const std::string& key) const { return std::get<Texts>(keys_.at(key)); }
  const Numbers& NumberList(const std::string& key) const { return std::get<Numbers>(keys_.at(key)); }
  bool Has(const std::string& key) const { return keys_.contains(key); }
  const std::map<std::string, ReadTensor>& tensors() const { return tensors_; }
  const ReadTensor& operator[](const std::string& name) const { return tensors_.at(name); }

 private:
  template <typename T>
  T Take() {
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::string TakeText() {
    const auto length = Take<std::uint64_t>();
    at_ += length;
    return bytes_.substr(at_ - length, length);
  }
  double TakeNumber(std::uint32_t type) {
    switch (type) {
      case 4:
        return Take<std::uint32_t>();
      case 5:
        return Take<std::int32_t>();
      case 6:
        return Take<float>();
      default:
        EXPECT_EQ(type, 7U);
        return Take<std::uint8_t>();
    }
  }
  Value TakeValue(std::uint32_t type) {
    if (type == 8) {
      return TakeText();
    }
    if (type != 9) {
      return TakeNumber(type);
    }
    const auto inner = Take<std::uint32_t>();
    const auto count = Take<std::uint64_t>();
    Texts texts;
    Numbers numbers;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (inner == 8) {
        texts.push_back(TakeText());
      } else {
        numbers.push_back(TakeNumber(inner));
      }
    }
    return inner == 8 ? Value(texts) : Value(numbers);
  }
  void TakeData(ReadTensor& tensor) {
    std::uint64_t count = 1;
    for (const std::uint64_t dim : tensor.dims) {
      count *= dim;
    }
    float scale = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      switch (tensor.type) {
        case 0:
          tensor.values.push_back(Take<float>());
          break;
        case 1:
          tensor.values.push_back(FromHalf(Take<std::uint16_t>()));
          break;
        case 30:
          tensor.values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(Take<std::uint16_t>()) << 16));
          break;
        default:
          EXPECT_EQ(tensor.type, 8U);
          scale = i % 32 == 0 ? FromHalf(Take<std::uint16_t>()) : scale;
          tensor.values.push_back(scale * Take<std::int8_t>());
      }
    }
  }

  std::string bytes_;
  std::size_t at_ = 0;
  std::map<std::string, Value> keys_;
  std::map<std::string, ReadTensor> tensors_;
};

// Small values; those of saved_world.h have any bits.
float SmallValue(const std::string& name, std::int64_t index) {
  const float value = ValueAt(name, kMasterKind, index, 4);
  return std::isfinite(value) ? std::remainder(value, 1.0F) : 0;
}

// A Hugging Face directory would do as well: a checkpoint keeps the test to one format.
class Gguf : public testing::TestWithParam<std::string> {
 protected:
  GgufFile Export(const ModelConfig& model, const GgufOptions& options) {
    const ParameterTable table(model);
    SaveWorld(folder_ / "run", table, {}, 4);
    ExportGguf(folder_ / "run", folder_ / "model.gguf", options);
    return GgufFile(folder_ / "model.gguf");
  }
  TestFolder folder_;
};

ModelConfig RunnableModel(const std::string& family) {
  ModelConfig model = TinyModel(family);
  model.attention_cap = family == "gemma2" ? 50 : 0;
  model.logit_cap = family == "gemma2" ? 30 : 0;
  return model;
}

std::vector<float> ValuesOf(const Parameter& parameter) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < parameter.shape.count(); ++i) {
    values.push_back(ValueAt(parameter.name, kMasterKind, i, 4));
  }
  return values;
}

bool SameBits(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

TEST_P(Gguf, HoldsEveryValueOfTheModel) {
  const ModelConfig model = RunnableModel(GetParam());
  const GgufFile file = Export(model, {.type = "f32"});
  const ParameterTable table(model);
  const std::string at = file.Text("general.architecture") + ".";
  EXPECT_EQ(file.Number(at + "block_count"), 4);
  EXPECT_EQ(file.Number(at + "embedding_length"), 32);
  EXPECT_EQ(file.Number(at + "attention.head_count_kv"), model.kv_heads);
  EXPECT_EQ(file.Text("tokenizer.ggml.model"), "none");
  std::int64_t values = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    EXPECT_EQ(tensor.type, 0U) << name;
    values += static_cast<std::int64_t>(tensor.values.size());
  }
  const bool copied = model.tie_embeddings && file.tensors().contains("output.weight");
  EXPECT_EQ(values, ParameterCount(model) + (copied ? 61 * 32 : 0));
  const std::vector<float> tokens = ValuesOf(table.rows()[static_cast<std::size_t>(table.token_table())]);
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), file["token_embd.weight"].values.begin(), SameBits));
  EXPECT_EQ(file["token_embd.weight"].dims, (std::vector<std::uint64_t>{32, 61}));
  const Parameter& down = table.rows()[static_cast<std::size_t>(table.InBlock(3, "mlp.out.weight"))];
  EXPECT_TRUE(std::equal(file["blk.3.ffn_down.weight"].values.begin(), file["blk.3.ffn_down.weight"].values.end(),
                         ValuesOf(down).begin(), SameBits));
}

INSTANTIATE_TEST_SUITE_P(Families, Gguf,
                         testing::ValuesIn(FamilyNames({"opt", "olmoe", "smollm3", "olmo3", "granite"})),
                         [](const auto& family) { return family.param; });

TEST_F(Gguf, LlamaHasRotaryPairsSideBySide) {
  const ModelConfig model = RunnableModel("llama");  // heads of 8, 4 of queries and 2 of keys
  const GgufFile file = Export(model, {.type = "f32"});
  const ParameterTable table(model);
  const std::vector<float> ours =
      ValuesOf(table.rows()[static_cast<std::size_t>(table.InBlock(1, "attention.qkv.weight"))]);
  const auto row = [](const std::vector<float>& values, int number) {
    return std::vector<float>(values.begin() + number * 32, values.begin() + (number + 1) * 32);
  };
  const std::vector<float>& queries = file["blk.1.attn_q.weight"].values;
  const std::vector<float>& keys = file["blk.1.attn_k.weight"].values;
  const std::vector<int> order = {0, 4, 1, 5, 2, 6, 3, 7};
  for (int head = 0; head < 4; ++head) {
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(row(queries, head * 8 + i), row(ours, head * 8 + order[static_cast<std::size_t>(i)]));
    }
  }
  EXPECT_EQ(row(keys, 9), row(ours, 32 + 8 + 4));
  EXPECT_EQ(row(file["blk.1.attn_v.weight"].values, 3), row(ours, 32 + 16 + 3));
}

TEST_F(Gguf, GainsAreWhole) {
  const ModelConfig model = RunnableModel("gemma3");
  const GgufFile file = Export(model, {.type = "f32"});
  const float ours = ValueAt("head.norm.gain", kMasterKind, 5, 4);
  EXPECT_EQ(file["output_norm.weight"].values[5], ours + 1);
}

TEST_F(Gguf, Llama3ScalingIsATensorOfDivisors) {
  ModelConfig model = RunnableModel("llama");
  model.rope_scaling = RopeScaling::kLlama3;
  model.rope_factor = 8;
  model.rope_original = 16;
  const GgufFile file = Export(model, {.type = "f16"});
  const std::vector<float>& divisors = file["rope_freqs.weight"].values;
  ASSERT_EQ(divisors.size(), 4U);
  EXPECT_FLOAT_EQ(divisors[3], 8);
  EXPECT_EQ(file["rope_freqs.weight"].type, 0U);
  EXPECT_EQ(file["blk.0.attn_q.weight"].type, 1U);
  EXPECT_EQ(file["blk.0.attn_norm.weight"].type, 0U);
}

TEST_F(Gguf, LongRopeIsTwoTensorsOfDivisors) {
  ModelConfig model = RunnableModel("phi3");
  model.rope_scaling = RopeScaling::kLongRope;
  model.rope_factor = 4;
  model.rope_original = 16;
  model.rope_short_factors = "1, 1.25, 1.5, 1.75";
  model.rope_long_factors = "1, 2, 3, 4";
  const GgufFile file = Export(model, {.type = "f16"});
  using testing::FloatEq;
  EXPECT_THAT(file["rope_factors_short.weight"].values,
              testing::ElementsAre(FloatEq(1), FloatEq(1.25), FloatEq(1.5), FloatEq(1.75)));
  EXPECT_THAT(file["rope_factors_long.weight"].values,
              testing::ElementsAre(FloatEq(1), FloatEq(2), FloatEq(3), FloatEq(4)));
  EXPECT_EQ(file.Number("phi3.rope.scaling.original_context_length"), 16);
  EXPECT_NEAR(file.Number("phi3.rope.scaling.attn_factor"), std::sqrt(1.5), 1e-6);
  model.family = "qwen2";
  EXPECT_THAT(ErrorOf([&] { GgufArchitectureOf(model); }), HasSubstr("longrope"));
}

TEST_F(Gguf, BytesAreATokenizer) {
  ModelConfig model = RunnableModel("gpt2");
  model.vocabulary = 256;
  const GgufFile file = Export(model, {.type = "bf16"});
  EXPECT_EQ(file.Text("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(file.Text("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(file.TextList("tokenizer.ggml.tokens").at(' '), "Ġ");
  EXPECT_EQ(file.TextList("tokenizer.ggml.tokens").at('A'), "A");
  EXPECT_TRUE(file.TextList("tokenizer.ggml.merges").empty());
  EXPECT_EQ(file.Number("tokenizer.ggml.eos_token_id"), 0);
}

// A few tokens: letters, a merge, one special token and one that users added; no token has id 4.
std::string SmallTokenizerJson() {
  nlohmann::json vocabulary;
  nlohmann::json merges = nlohmann::json::array();
  vocabulary["a"] = 0;
  vocabulary["b"] = 1;
  vocabulary["ab"] = 2;
  merges.push_back("a b");
  const nlohmann::json root = {
      {"added_tokens",
       {{{"id", 3}, {"content", "<|end|>"}, {"special", true}}, {{"id", 5}, {"content", "word"}, {"special", false}}}},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}};
  return JsonText(root);
}

TEST_F(Gguf, UnigramsAreThoseOfT5AndHaveNoBytes) {
  TokenTable table{.sentence_pieces = true, .unigrams = true};
  table.tokens = {{.text = "<unk>", .kind = TokenRole::kUnknown}, {.text = "▁the", .score = -2.5F}};
  table.character_map = "map";
  table.normalizes = true;
  table.end = 0;
  GgufHeader header;
  EXPECT_EQ(AddGgufTokenizer(table, 2, header), "") << "llama.cpp normalises by the same map";
  const std::string bytes = header.Format();
  EXPECT_THAT(bytes, HasSubstr("t5"));
  EXPECT_THAT(bytes, HasSubstr("tokenizer.ggml.precompiled_charsmap"));
  EXPECT_THAT(bytes, HasSubstr(std::string("\x03\0\0\0\0\0\0\0map", 11)));
  table.tokens.push_back({.text = "<0x41>", .kind = TokenRole::kByte});
  GgufHeader other;
  EXPECT_THAT(ErrorOf([&] { AddGgufTokenizer(table, 3, other); }), HasSubstr("byte_fallback"));
}

TEST_F(Gguf, TokenizerAndTemplateTravel) {
  std::filesystem::create_directories(folder_ / "tokenizer");
  WriteBytes(folder_ / "tokenizer/tokenizer.json", SmallTokenizerJson());
  WriteBytes(folder_ / "tokenizer/tokenizer_config.json",
             R"({"eos_token": {"content": "<|end|>"}, "chat_template": "{{ messages }}"})");
  const GgufFile file = Export(RunnableModel("qwen2"), {.type = "f32", .tokenizer = folder_ / "tokenizer"});
  const Texts& tokens = file.TextList("tokenizer.ggml.tokens");
  ASSERT_EQ(tokens.size(), 61U);
  EXPECT_EQ(Texts(tokens.begin(), tokens.begin() + 6), (Texts{"a", "b", "ab", "<|end|>", "[PAD4]", "word"}));
  const Numbers& kinds = file.NumberList("tokenizer.ggml.token_type");
  EXPECT_EQ(Numbers(kinds.begin(), kinds.begin() + 6), (Numbers{1, 1, 1, 3, 5, 4}));
  EXPECT_EQ(file.TextList("tokenizer.ggml.merges"), (Texts{"a b"}));
  EXPECT_EQ(file.Number("tokenizer.ggml.eos_token_id"), 3);
  EXPECT_EQ(file.Number("tokenizer.ggml.add_bos_token"), 0);
  EXPECT_EQ(file.Text("tokenizer.chat_template"), "{{ messages }}");
}

TEST_F(Gguf, TheNameDoesNotMakeLlamaCppTakeItForPhi3) {
  const GgufFile file = [&] {
    SaveWorld(folder_ / "run", ParameterTable(RunnableModel("phi3")), {}, 4);
    ExportGguf(folder_ / "run", folder_ / "My-Phi3.gguf", {.type = "f32"});
    return GgufFile(folder_ / "My-Phi3.gguf");
  }();
  EXPECT_EQ(file.Text("general.architecture"), "phi3");
  EXPECT_EQ(file.Text("general.name"), "My-phi_3");
}

TEST_F(Gguf, WindowsThatLlamaCppLacksLimitTheContext) {
  ModelConfig model = RunnableModel("mistral");
  model.window = 5;
  const GgufFile file = Export(model, {.type = "f32"});
  EXPECT_EQ(file.Text("general.architecture"), "llama");
  EXPECT_EQ(file.Number("llama.context_length"), 5);
}

TEST_F(Gguf, WhatLlamaCppDoesNotComputeIsRefused) {
  const auto refusal = [](ModelConfig model) { return ErrorOf([&] { GgufArchitectureOf(model); }); };
  EXPECT_THAT(refusal(TinyModel("opt")), HasSubstr("no GGUF file is written for the family 'opt'"));
  EXPECT_THAT(refusal(TinyModel("gemma2")), HasSubstr("attention_cap"));
  ModelConfig model = RunnableModel("gemma3");
  model.query_scalar = 9;
  EXPECT_THAT(refusal(model), HasSubstr("query_scalar = 9"));
  model = RunnableModel("qwen2");
  model.head_dim = 16;
  EXPECT_THAT(refusal(model), HasSubstr("hidden / heads = 8"));
  model = RunnableModel("qwen3");
  model.rope_scaling = RopeScaling::kLlama3;
  EXPECT_THAT(refusal(model), HasSubstr("for Llama alone"));
  EXPECT_THAT(ErrorOf([&] { ParseGgufType("q4_k"); }), HasSubstr("f32, f16, bf16 or q8_0"));
  SaveWorld(folder_ / "run", ParameterTable(RunnableModel("llama")), {}, 4);
  WriteBytes(folder_ / "taken.gguf", "mine");
  EXPECT_THAT(ErrorOf([&] { ExportGguf(folder_ / "run", folder_ / "taken.gguf"); }), HasSubstr("exists already"));
  EXPECT_EQ(ReadBytes(folder_ / "taken.gguf"), "mine");
}

TEST(GgufValues, BlocksOfEightBitsAreWithinHalfAStep) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < 96; ++i) {
    values.push_back(i < 64 ? SmallValue("x", i) : 0);
  }
  const std::vector<std::byte> bytes = EncodeGguf(GgufType::kQ8, values);
  ASSERT_EQ(bytes.size(), 3U * 34);
  for (std::size_t block = 0; block < 3; ++block) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + block * 34, 2);
    const float scale = FromHalf(half);
    for (std::size_t i = 0; i < 32; ++i) {
      const float back = scale * static_cast<float>(static_cast<std::int8_t>(bytes[block * 34 + 2 + i]));
      EXPECT_NEAR(back, values[block * 32 + i], scale * 0.6F);
    }
  }
}

// Experts of llama.cpp: gate, up and down of all experts in a tensor each.
ModelConfig GgufSparse(const std::string& family) {
  ModelConfig model{
      .family = family, .layers = 2, .hidden = 16, .heads = 4, .ffn = 24, .vocabulary = 48, .sequence = 16};
  model.experts = {.count = 3, .chosen = 2, .ffn = 16, .renormalize = family == "mixtral" || family == "qwen3_moe"};
  if (family == "qwen2_moe") {
    model.experts.shared_ffn = 8;
    model.experts.shared_gate = true;
  }
  return Completed(model);
}

TEST(GgufExperts, MatricesOfAllExpertsAreStacked) {
  for (const auto& [family, name] : {std::pair{"mixtral", "llama"}, std::pair{"olmoe", "olmoe"},
                                     std::pair{"qwen2_moe", "qwen2moe"}, std::pair{"qwen3_moe", "qwen3moe"}}) {
    SCOPED_TRACE(family);
    const ParameterTable table(GgufSparse(family));
    const GgufArchitecture& architecture = GgufArchitectureOf(table.config());
    EXPECT_STREQ(architecture.name, name);
    std::map<std::string, GgufTensor> tensors;
    for (const GgufTensor& tensor : GgufTensors(table, architecture)) {
      tensors.emplace(tensor.name, tensor);
    }
    // Every number of the parameter is its place: hidden = ffn, so that a swap shows in values alone.
    std::vector<float> in(3 * 32 * 16);
    std::iota(in.begin(), in.end(), 0.0F);
    const GgufTensor& gate = tensors.at("blk.1.ffn_gate_exps.weight");
    EXPECT_THAT(gate.shape, testing::ElementsAre(3, 16, 16));
    EXPECT_EQ(table.rows()[static_cast<std::size_t>(gate.row)].name, "block.1.experts.in.weight");
    EXPECT_EQ(GgufValues(gate, in)[16 * 16], 32 * 16) << "the second expert's gate";
    EXPECT_EQ(GgufValues(tensors.at("blk.1.ffn_up_exps.weight"), in)[0], 16 * 16);
    EXPECT_EQ(GgufValues(tensors.at("blk.1.ffn_up_exps.weight"), in).back(), 3 * 32 * 16 - 1);
    EXPECT_EQ(tensors.at("blk.0.ffn_gate_inp.weight").TypeIn(GgufType::kQ8), GgufType::kF32);
    EXPECT_EQ(tensors.count("blk.0.ffn_up_shexp.weight"), std::string(family) == "qwen2_moe" ? 1U : 0U);
    EXPECT_FALSE(tensors.contains("blk.0.ffn_up.weight"));
  }
}

TEST(GgufExperts, WhatLlamaCppComputesOtherwiseIsRefused) {
  const auto refusal = [](const std::string& family, const std::function<void(ExpertsConfig&)>& change) {
    ModelConfig model = GgufSparse(family);
    change(model.experts);
    return ErrorOf([&] { GgufArchitectureOf(model); });
  };
  for (const char* family : {"mixtral", "olmoe", "qwen2_moe", "qwen3_moe"}) {
    EXPECT_EQ(refusal(family, [](ExpertsConfig&) {}), "");
    EXPECT_THAT(refusal(family, [](ExpertsConfig& e) { e.renormalize = !e.renormalize; }), HasSubstr("renormalize"));
    EXPECT_THAT(refusal(family, [](ExpertsConfig& e) { e.score = RouterScore::kSigmoid; }), HasSubstr("softmax"));
    EXPECT_THAT(refusal(family, [](ExpertsConfig& e) { e.dense_layers = 1; }), HasSubstr("dense_layers"));
    EXPECT_THAT(refusal(family, [](ExpertsConfig& e) { e.shared_gate = !e.shared_gate; }), HasSubstr("shared"));
  }
}

}  // namespace
}  // namespace trireme
