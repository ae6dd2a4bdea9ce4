#include "checkpoint/hugging_face/hugging_face.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/hugging_face/files.h"
#include "checkpoint/hugging_face/safetensors.h"
#include "checkpoint/hugging_face/tensors.h"
#include "checkpoint/saved_world.h"

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class HuggingFace : public testing::TestWithParam<std::string> {
 protected:
  HuggingFace() : table_(TinyModel(GetParam())) { SaveWorld(folder_ / "run", table_, {}, 4); }
  ParameterTable table_;
  TestFolder folder_;
};

std::string RefusalOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> FilesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_P(HuggingFace, WeightsComeBackBitForBit) {
  ExportHuggingFace(folder_ / "run", folder_ / "out");
  ImportHuggingFace(folder_ / "out", folder_ / "back");
  const CheckpointReader reader(folder_ / "back/step-000000");
  ASSERT_EQ(reader.tensors().size(), table_.rows().size());
  EXPECT_EQ(reader.manifest().state.model, table_.config());
  for (const StoredTensor& tensor : reader.tensors()) {
    std::vector<float> values(static_cast<std::size_t>(tensor.about.shape.count()));
    reader.Read(tensor, 0, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float expected = ValueAt(tensor.about.name, kMasterKind, static_cast<std::int64_t>(i), 4);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(expected))
          << tensor.about.name << " " << i;
    }
  }
}

TEST_P(HuggingFace, FilesComeBackByteForByte) {
  for (const std::int64_t shard_bytes : {std::int64_t{1} << 40, std::int64_t{30'000}}) {
    const std::string tag = std::to_string(shard_bytes);
    const ExportOptions options{.shard_bytes = shard_bytes};
    ExportHuggingFace(folder_ / "run", folder_ / ("a" + tag), options);
    ImportHuggingFace(folder_ / ("a" + tag), folder_ / ("b" + tag));
    ExportHuggingFace(folder_ / ("b" + tag), folder_ / ("c" + tag), options);
    const auto names = FilesIn(folder_ / ("a" + tag));
    EXPECT_EQ(names, FilesIn(folder_ / ("c" + tag)));
    EXPECT_EQ(names.size(), shard_bytes > 100'000 ? 2U : names.size());
    EXPECT_GE(names.size(), shard_bytes > 100'000 ? 2U : 5U);
    for (const std::string& name : names) {
      EXPECT_EQ(ReadBytes(folder_ / ("a" + tag + "/" + name)), ReadBytes(folder_ / ("c" + tag + "/" + name))) << name;
    }
  }
}

TEST_P(HuggingFace, EveryLayoutExportsTheSameFiles) {
  ExportHuggingFace(folder_ / "run", folder_ / "one");
  ParallelLayout layout;
  layout.tensor = 2;
  layout.pipeline = 2;
  layout.data = 2;
  SaveWorld(folder_ / "many", table_, layout, 4);
  ExportHuggingFace(folder_ / "many", folder_ / "two");
  EXPECT_EQ(ReadBytes(folder_ / "one/model.safetensors"), ReadBytes(folder_ / "two/model.safetensors"));
}

TEST_P(HuggingFace, HubFilesWithoutThePrefixAreRead) {
  ExportHuggingFace(folder_ / "run", folder_ / "out");
  const InputFile file(folder_ / "out/model.safetensors");
  SafetensorsHeader header = ReadSafetensorsHeader(file);
  std::string data = ReadBytes(folder_ / "out/model.safetensors").substr(static_cast<std::size_t>(header.data_start));
  for (SafetensorsEntry& entry : header.entries) {
    if (entry.name.starts_with("transformer.")) {
      entry.name = entry.name.substr(12);
    }
  }
  // The causal buffers that old files carry.
  const auto end = static_cast<std::int64_t>(data.size());
  header.entries.push_back(
      {.name = "h.0.attn.bias", .dtype = "U8", .shape = {1, 1, 2, 2}, .begin = end, .end = end + 4});
  WriteBytes(folder_ / "out/model.safetensors", FormatSafetensorsHeader({}, header.entries) + data + "abcd");
  ImportHuggingFace(folder_ / "out", folder_ / "back");
  ExportHuggingFace(folder_ / "run", folder_ / "again");
  ExportHuggingFace(folder_ / "back", folder_ / "third");
  EXPECT_EQ(ReadBytes(folder_ / "again/model.safetensors"), ReadBytes(folder_ / "third/model.safetensors"));
}

TEST_P(HuggingFace, ACacheOfLinksIsRead) {
  ExportHuggingFace(folder_ / "run", folder_ / "blobs");
  std::filesystem::create_directories(folder_ / "snapshot");
  for (const std::string& name : FilesIn(folder_ / "blobs")) {
    std::filesystem::create_symlink("../blobs/" + name, folder_ / ("snapshot/" + name));
  }
  EXPECT_EQ(ImportHuggingFace(folder_ / "snapshot", folder_ / "back").status, 0);
}

TEST_P(HuggingFace, MissingForeignAndMisshapenTensorsAreNamed) {
  ExportHuggingFace(folder_ / "run", folder_ / "out");
  const std::string path = folder_ / "out/model.safetensors";
  const InputFile file(path);
  const SafetensorsHeader header = ReadSafetensorsHeader(file);
  const std::string data = ReadBytes(path).substr(static_cast<std::size_t>(header.data_start));
  auto foreign = header.entries;
  foreign[1].name = "surprise";
  WriteBytes(path, FormatSafetensorsHeader({}, foreign) + data);
  EXPECT_THAT(RefusalOf([&] { ImportHuggingFace(folder_ / "out", folder_ / "x"); }), HasSubstr(header.entries[1].name));
  auto extra = header.entries;
  const auto end = static_cast<std::int64_t>(data.size());
  extra.push_back({.name = "surprise", .dtype = "F32", .shape = {1}, .begin = end, .end = end + 4});
  WriteBytes(path, FormatSafetensorsHeader({}, extra) + data + "abcd");
  EXPECT_THAT(RefusalOf([&] { ImportHuggingFace(folder_ / "out", folder_ / "x"); }), HasSubstr("surprise"));
  auto misshapen = header.entries;
  misshapen[0].shape.push_back(1);
  WriteBytes(path, FormatSafetensorsHeader({}, misshapen) + data);
  EXPECT_THAT(RefusalOf([&] { ImportHuggingFace(folder_ / "out", folder_ / "x"); }), HasSubstr("shape"));
  EXPECT_TRUE(ListCheckpoints(folder_ / "x").empty());
}

INSTANTIATE_TEST_SUITE_P(Families, HuggingFace, testing::Values("gpt2", "bloom", "llama"),
                         [](const auto& each) { return each.param; });

// Element (i, j, …) of a tensor of the export.
class Exported {
 public:
  explicit Exported(const std::string& family) : table_(TinyModel(family)) {
    SaveWorld(folder_ / "run", table_, {}, 4);
    ExportHuggingFace(folder_ / "run", folder_ / "out");
    files_ = std::make_unique<HuggingFaceFiles>(folder_ / "out");
  }
  float At(const std::string& name, std::int64_t i, std::int64_t j = 0) const {
    const auto& shape = files_->Find(name)->shape;
    return files_->Read(name)[static_cast<std::size_t>(i * (shape.size() == 2 ? shape[1] : 1) + j)];
  }
  float Ours(const std::string& name, std::int64_t i, std::int64_t j = 0) const {
    const Shape& shape = table_.rows()[static_cast<std::size_t>(table_.Find(name))].shape;
    return ValueAt(name, kMasterKind, i * (shape.rank() == 2 ? shape[1] : 1) + j, 4);
  }
  const HuggingFaceFiles& files() const { return *files_; }
  const ModelConfig& model() const { return table_.config(); }

 private:
  ParameterTable table_;
  TestFolder folder_;
  std::unique_ptr<HuggingFaceFiles> files_;
};

TEST(HuggingFaceOrder, Gpt2StoresItsMatricesTransposed) {
  const Exported out("gpt2");
  EXPECT_EQ(out.files().Find("transformer.h.1.attn.c_attn.weight")->shape, (std::vector<std::int64_t>{32, 96}));
  EXPECT_EQ(out.At("transformer.h.1.attn.c_attn.weight", 5, 70), out.Ours("block.1.attention.qkv.weight", 70, 5));
  EXPECT_EQ(out.At("transformer.h.3.mlp.c_proj.weight", 100, 3), out.Ours("block.3.mlp.out.weight", 3, 100));
  EXPECT_EQ(out.At("transformer.h.0.mlp.c_fc.bias", 9), out.Ours("block.0.mlp.in.bias", 9));
  EXPECT_EQ(out.At("transformer.wpe.weight", 3, 4), out.Ours("embedding.position", 3, 4));
  EXPECT_EQ(out.files().Find("lm_head.weight"), nullptr) << "a tied output is left out";
}

TEST(HuggingFaceOrder, BloomInterleavesQueryKeyAndValueByHead) {
  const Exported out("bloom");
  const std::int64_t size = out.model().head_size();
  for (std::int64_t head = 0; head < out.model().heads; ++head) {
    for (std::int64_t which = 0; which < 3; ++which) {
      const std::int64_t theirs = (head * 3 + which) * size + 2;
      const std::int64_t ours = which * out.model().hidden + head * size + 2;
      EXPECT_EQ(out.At("transformer.h.2.self_attention.query_key_value.weight", theirs, 11),
                out.Ours("block.2.attention.qkv.weight", ours, 11));
      EXPECT_EQ(out.At("transformer.h.2.self_attention.query_key_value.bias", theirs),
                out.Ours("block.2.attention.qkv.bias", ours));
    }
  }
  EXPECT_EQ(out.At("transformer.word_embeddings_layernorm.bias", 6), out.Ours("embedding.norm.bias", 6));
}

TEST(HuggingFaceOrder, LlamaKeepsQueryKeyValueGateAndUpApart) {
  const Exported out("llama");
  const std::int64_t keys = out.model().kv_heads * out.model().head_size();
  EXPECT_EQ(out.files().Find("model.layers.0.self_attn.k_proj.weight")->shape[0], keys);
  EXPECT_EQ(out.At("model.layers.0.self_attn.q_proj.weight", 3, 1), out.Ours("block.0.attention.qkv.weight", 3, 1));
  EXPECT_EQ(out.At("model.layers.0.self_attn.k_proj.weight", 3, 1),
            out.Ours("block.0.attention.qkv.weight", out.model().hidden + 3, 1));
  EXPECT_EQ(out.At("model.layers.0.self_attn.v_proj.weight", 3, 1),
            out.Ours("block.0.attention.qkv.weight", out.model().hidden + keys + 3, 1));
  EXPECT_EQ(out.At("model.layers.3.mlp.up_proj.weight", 2, 1),
            out.Ours("block.3.mlp.in.weight", out.model().ffn + 2, 1));
  EXPECT_EQ(out.At("lm_head.weight", 60, 31), out.Ours("head.weight", 60, 31));
}

TEST(HuggingFaceDType, HalvesAndBFloatsAreReadExactly) {
  const TestFolder folder;
  const std::uint16_t half[] = {0x3c00, 0xc000, 0x0001, 0x8000, 0x7bff, 0x7c00};
  std::string bytes(sizeof half, '\0');
  std::memcpy(bytes.data(), half, sizeof half);
  WriteBytes(folder / "model.safetensors",
             FormatSafetensorsHeader({}, {{.name = "a", .dtype = "F16", .shape = {6}, .begin = 0, .end = 12},
                                          {.name = "b", .dtype = "BF16", .shape = {1}, .begin = 12, .end = 14},
                                          {.name = "c", .dtype = "I64", .shape = {0}, .begin = 14, .end = 14}}) +
                 bytes + std::string("\x80\x3f", 2));
  const HuggingFaceFiles files(folder.path());
  EXPECT_THAT(files.Read("a"), testing::ElementsAre(1.0F, -2.0F, 0x1p-24F, -0.0F, 65504.0F, INFINITY));
  EXPECT_THAT(files.Read("b"), testing::ElementsAre(1.0F));
  EXPECT_THROW(files.Read("c"), Error);
}

TEST(HuggingFaceDType, AnExportInBFloatRoundsEachValue) {
  const ParameterTable table(TinyModel("llama"));
  const TestFolder folder;
  SaveWorld(folder / "run", table, {}, 4);
  ExportHuggingFace(folder / "run", folder / "out", {.dtype = "bf16"});
  const HuggingFaceFiles files(folder / "out");
  EXPECT_EQ(files.Find("model.norm.weight")->dtype, "BF16");
  EXPECT_EQ(files.Read("model.norm.weight")[3],
            static_cast<float>(BFloat16(ValueAt("head.norm.gain", kMasterKind, 3, 4))));
  EXPECT_EQ(ParseJson(ReadBytes(folder / "out/config.json"))["torch_dtype"], "bfloat16");
  EXPECT_THROW(ExportHuggingFace(folder / "run", folder / "x", {.dtype = "fp8"}), Error);
}

TEST(HuggingFaceFilesOfIndex, LyingIndicesAreRefused) {
  const TestFolder folder;
  const auto one =
      FormatSafetensorsHeader({}, {{.name = "a", .dtype = "U8", .shape = {1}, .begin = 0, .end = 1}}) + "x";
  WriteBytes(folder / "m1.safetensors", one);
  WriteBytes(folder / "m2.safetensors", one);
  const auto refuse = [&](const json& index) {
    WriteBytes(folder / "model.safetensors.index.json", JsonText(index));
    EXPECT_THROW(HuggingFaceFiles(folder.path()), Error) << JsonText(index);
  };
  refuse({{"weight_map", {{"a", "m1.safetensors"}, {"b", "m1.safetensors"}}}});
  refuse({{"weight_map", {{"a", "m1.safetensors"}, {"b", "m2.safetensors"}}}});
  refuse({{"weight_map", {{"a", "../m1.safetensors"}}}});
  refuse({{"weight_map", {{"a", "none.safetensors"}}}});
  refuse({{"weight_map", {{"a", 1}}}});
  refuse({{"weight_map", json::object()}});
  refuse({{"metadata", json::object()}});
  refuse(json::array());
  WriteBytes(folder / "model.safetensors.index.json", R"({"weight_map":{"a":"m1.safetensors"}})");
  EXPECT_NO_THROW(HuggingFaceFiles(folder.path()));
}

TEST(HuggingFaceConfig, ReadsWhatTheHubHas) {
  const ModelConfig gpt2 = ParseHuggingFaceConfig(
      R"({"model_type":"gpt2","n_layer":12,"n_embd":768,"n_head":12,"n_positions":1024,"vocab_size":50257,
          "activation_function":"gelu_new","layer_norm_epsilon":1e-05,"n_inner":null})",
      "x");
  EXPECT_EQ(gpt2.ffn, 3072);
  EXPECT_TRUE(gpt2.tie_embeddings);
  EXPECT_EQ(ParameterCount(gpt2), 124'439'808);
  const ModelConfig bloom = ParseHuggingFaceConfig(
      R"({"model_type":"bloom","n_layer":24,"n_embed":1024,"num_attention_heads":16,"vocab_size":250880})", "x");
  EXPECT_EQ(bloom.hidden, 1024);
  EXPECT_EQ(bloom.position, PositionChoice::kAlibi);
  const ModelConfig llama = ParseHuggingFaceConfig(
      R"({"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,
          "num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256,"rms_norm_eps":1e-05,
          "rope_theta":500000.0,"rope_scaling":null,"max_position_embeddings":8192,"tie_word_embeddings":false})",
      "x");
  EXPECT_EQ(llama.kv_heads, 8);
  EXPECT_EQ(llama.rope_theta, 500000);
  EXPECT_EQ(ParameterCount(llama), 8'030'261'248);
}

TEST(HuggingFaceConfig, ReadsOldAndNewFormsOfRotaryPositionsAndWindows) {
  const json base = {
      {"num_hidden_layers", 4}, {"hidden_size", 64}, {"num_attention_heads", 4}, {"intermediate_size", 96},
      {"vocab_size", 100},      {"head_dim", 16},    {"num_key_value_heads", 4}, {"max_position_embeddings", 64}};
  const auto parse = [&](const json& more) {
    json root = base;
    root.update(more);
    return ParseHuggingFaceConfig(JsonText(root), "x");
  };
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 32}};
  json parameters = scaling;
  parameters["rope_theta"] = 7.0;
  EXPECT_EQ(parse({{"model_type", "llama"}, {"rope_theta", 7.0}, {"rope_scaling", scaling}}),
            parse({{"model_type", "llama"}, {"rope_parameters", parameters}}));
  const ModelConfig old_gemma =
      parse({{"model_type", "gemma3_text"}, {"sliding_window", 8}, {"sliding_window_pattern", 2}, {"rope_theta", 9.0}});
  EXPECT_EQ(old_gemma,
            parse({{"model_type", "gemma3_text"},
                   {"sliding_window", 8},
                   {"layer_types", {"sliding_attention", "full_attention", "sliding_attention", "full_attention"}},
                   {"rope_parameters",
                    {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 9.0}}},
                     {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}}}}}));
  EXPECT_EQ(old_gemma.WindowOf(0), 8);
  EXPECT_EQ(old_gemma.WindowOf(1), 0);
  EXPECT_EQ(parse({{"model_type", "qwen2"}, {"sliding_window", 8}, {"use_sliding_window", false}}).window, 0);
  EXPECT_THAT(
      RefusalOf([&] {
        parse({{"model_type", "mistral"},
               {"sliding_window", 8},
               {"layer_types", {"full_attention", "sliding_attention", "sliding_attention", "full_attention"}}});
      }),
      HasSubstr("layer_types"));
}

TEST(HuggingFaceConfig, SaysWhichKeysItDoesNotUse) {
  const json root = {{"model_type", "llama"},    {"num_hidden_layers", 2},  {"hidden_size", 64},
                     {"num_attention_heads", 4}, {"intermediate_size", 96}, {"vocab_size", 100},
                     {"bos_token_id", 1},        {"surprise", true}};
  EXPECT_THAT(UnusedConfigKeys(JsonText(root), "x"), testing::ElementsAre("surprise"));
}

TEST(HuggingFaceConfig, RefusesWhatItWouldComputeWrongly) {
  const json llama = {{"model_type", "llama"},    {"num_hidden_layers", 2},  {"hidden_size", 64},
                      {"num_attention_heads", 4}, {"intermediate_size", 96}, {"vocab_size", 100}};
  EXPECT_NO_THROW(ParseHuggingFaceConfig(JsonText(llama), "x"));
  const auto refuse = [&](const char* key, const json& value) {
    json changed = llama;
    changed[key] = value;
    EXPECT_THAT(RefusalOf([&] { ParseHuggingFaceConfig(JsonText(changed), "x"); }), HasSubstr(key));
  };
  refuse("rope_scaling", {{"rope_type", "dynamic"}, {"factor", 8.0}});
  const auto refuse_longrope = [&](const json& rope, const char* words) {
    json changed = llama;
    changed["rope_parameters"] = {{"rope_type", "longrope"}, {"original_max_position_embeddings", 16}};
    changed["rope_parameters"].update(rope);
    EXPECT_THAT(RefusalOf([&] { ParseHuggingFaceConfig(JsonText(changed), "x"); }), HasSubstr(words));
  };
  const json eight = {1, 1, 1, 1, 1, 1, 1, 2.5};
  refuse_longrope(json::object(), "short_factor");
  refuse_longrope({{"short_factor", eight}}, "long_factor");
  refuse_longrope({{"short_factor", eight}, {"long_factor", {1, 2}}}, "rope_long_factors has 2 factors");
  refuse_longrope({{"short_factor", eight}, {"long_factor", eight}, {"attention_factor", -3.0}}, "attention_factor");
  refuse_longrope({{"short_factor", {0, 1, 1, 1, 1, 1, 1, 1}}, {"long_factor", eight}}, "no number above 0");
  refuse("hidden_act", "relu2");
  refuse("hidden_act", "softmax");
  refuse("hidden_size", "64");
  refuse("hidden_size", -64);
  refuse("model_type", "mamba");
  const json gpt2 = {{"model_type", "gpt2"}, {"n_layer", 2}, {"n_embd", 64}, {"n_head", 4}};
  for (const auto& [key, value] :
       std::map<std::string, json>{{"activation_function", "tanh"}, {"add_cross_attention", true}}) {
    json changed = gpt2;
    changed[key] = value;
    EXPECT_THROW(ParseHuggingFaceConfig(JsonText(changed), "x"), Error) << key;
  }
  EXPECT_THROW(ParseHuggingFaceConfig("[]", "x"), Error);
  EXPECT_THROW(ParseHuggingFaceConfig("", "x"), Error);
}

TEST(HuggingFaceConfig, ComesBackFromItsOwnText) {
  for (const char* family : {"gpt2", "bloom", "llama"}) {
    const ModelConfig model = TinyModel(family);
    EXPECT_EQ(ParseHuggingFaceConfig(FormatHuggingFaceConfig(model, "fp32"), "x"), model) << family;
  }
  ModelConfig wide = TinyModel("bloom");
  wide.ffn = 100;
  EXPECT_THROW(FormatHuggingFaceConfig(wide, "fp32"), Error);
  ModelConfig normed = TinyModel("gpt2");
  normed.embedding_norm_choice = EmbeddingNormChoice::kYes;
  EXPECT_THROW(FormatHuggingFaceConfig(Completed(normed, true), "fp32"), Error);
}

TEST(HuggingFaceImport, PickledWeightsAreNotRead) {
  const TestFolder folder;
  WriteBytes(folder / "config.json", FormatHuggingFaceConfig(TinyModel("gpt2"), "fp32"));
  WriteBytes(folder / "pytorch_model.bin", "pickle");
  EXPECT_THAT(RefusalOf([&] { ImportHuggingFace(folder.path(), folder / "out"); }), HasSubstr("pickled"));
}

}  // namespace
}  // namespace trireme
