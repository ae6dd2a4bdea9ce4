// Families with experts against a plain program of what transformers computes, written from its documented formulas:
// transformers itself was not at hand when this was made. Weights follow from the names of tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/random_normal.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "checkpoint/hugging_face/safetensors.h"
#include "message_of.h"
#include "oracle/family_fixture.h"
#include "scratch_directory.h"

namespace trireme::oracle {
namespace {

using nlohmann::json;
using Row = std::vector<double>;

struct Matrix {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
using Named = std::map<std::string, Matrix>;

// A small model of a type: 3 layers, hidden 16, 4 heads of 4 and 2 of keys, 5 experts of `ffn`, 2 for each token.
struct ExpertModel {
  std::string type;
  std::int64_t ffn = 16;  // as wide as the model: an exchange of extents does not show by itself
  bool renormalize = true;
  bool shared = false;
  bool head_norms = false;
  bool all_norms = false;
  bool qkv_bias = false;
  std::int64_t dense_layers = 0;
};

constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kHidden = 16;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kKeyHeads = 2;
constexpr std::int64_t kHead = 4;
constexpr std::int64_t kExperts = 5;
constexpr std::int64_t kChosen = 2;
constexpr std::int64_t kDense = 24;
constexpr std::int64_t kShared = 12;
constexpr std::int64_t kVocabulary = 37;
constexpr double kEpsilon = 1e-5;

std::vector<ExpertModel> ExpertModels() {
  return {{.type = "mixtral"},
          {.type = "mixtral", .ffn = 8},
          {.type = "olmoe", .renormalize = false, .all_norms = true},
          {.type = "qwen3_moe", .head_norms = true, .dense_layers = 1},
          {.type = "qwen3_moe", .ffn = 8, .renormalize = false, .head_norms = true},
          {.type = "qwen2_moe", .renormalize = false, .shared = true, .qkv_bias = true, .dense_layers = 1}};
}

json ConfigOf(const ExpertModel& one) {
  json root = {{"model_type", one.type},
               {"num_hidden_layers", kLayers},
               {"hidden_size", kHidden},
               {"num_attention_heads", kHeads},
               {"num_key_value_heads", kKeyHeads},
               {"intermediate_size", one.type == "mixtral" || one.type == "olmoe" ? one.ffn : kDense},
               {"vocab_size", kVocabulary},
               {"max_position_embeddings", 32},
               {"rms_norm_eps", kEpsilon},
               {"rope_theta", 10000.0},
               {"hidden_act", "silu"},
               {"num_experts_per_tok", kChosen},
               {"tie_word_embeddings", false},
               {"router_aux_loss_coef", 0.001}};
  root[one.type == "mixtral" ? "num_local_experts" : "num_experts"] = kExperts;
  if (one.type != "mixtral") {
    root["norm_topk_prob"] = one.renormalize;
  }
  if (one.type.starts_with("qwen")) {
    root["moe_intermediate_size"] = one.ffn;
    root["decoder_sparse_step"] = 1;
    root["mlp_only_layers"] = json::array();
    for (std::int64_t layer = 0; layer < one.dense_layers; ++layer) {
      root["mlp_only_layers"].push_back(layer);
    }
  }
  if (one.shared) {
    root["shared_expert_intermediate_size"] = kShared;
  }
  return root;
}

// Names and shapes as transformers writes them.
Named TensorsOf(const ExpertModel& one) {
  Named all;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    Matrix& matrix = all[name];
    matrix.shape = shape;
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) {
      count *= extent;
    }
    const bool gain = name.ends_with("norm.weight");
    const std::uint64_t key = RandomKey(3, name);
    for (std::int64_t i = 0; i < count; ++i) {
      const float drawn = RandomNormal(key, static_cast<std::uint64_t>(i));
      matrix.values.push_back(gain ? 1 + 0.1F * drawn : 0.25F * drawn);
    }
  };
  const auto gated = [&](const std::string& at, std::int64_t ffn, const char* gate, const char* up, const char* down) {
    add(at + gate + ".weight", {ffn, kHidden});
    add(at + up + ".weight", {ffn, kHidden});
    add(at + down + ".weight", {kHidden, ffn});
  };
  add("model.embed_tokens.weight", {kVocabulary, kHidden});
  add("lm_head.weight", {kVocabulary, kHidden});
  add("model.norm.weight", {kHidden});
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    add(at + "input_layernorm.weight", {kHidden});
    add(at + "post_attention_layernorm.weight", {kHidden});
    for (const auto& [name, heads] : {std::pair{"q", kHeads}, std::pair{"k", kKeyHeads}, std::pair{"v", kKeyHeads}}) {
      add(at + "self_attn." + name + "_proj.weight", {heads * kHead, kHidden});
      if (one.qkv_bias) {
        add(at + "self_attn." + name + "_proj.bias", {heads * kHead});
      }
    }
    add(at + "self_attn.o_proj.weight", {kHidden, kHeads * kHead});
    if (one.head_norms || one.all_norms) {
      add(at + "self_attn.q_norm.weight", {one.all_norms ? kHeads * kHead : kHead});
      add(at + "self_attn.k_norm.weight", {one.all_norms ? kKeyHeads * kHead : kHead});
    }
    if (layer < one.dense_layers) {
      gated(at + "mlp.", kDense, "gate_proj", "up_proj", "down_proj");
      continue;
    }
    const bool mixtral = one.type == "mixtral";
    const std::string part = at + (mixtral ? "block_sparse_moe." : "mlp.");
    add(part + "gate.weight", {kExperts, kHidden});
    for (std::int64_t e = 0; e < kExperts; ++e) {
      const std::string expert = part + "experts." + std::to_string(e) + ".";
      mixtral ? gated(expert, one.ffn, "w1", "w3", "w2") : gated(expert, one.ffn, "gate_proj", "up_proj", "down_proj");
    }
    if (one.shared) {
      gated(part + "shared_expert.", kShared, "gate_proj", "up_proj", "down_proj");
      add(part + "shared_expert_gate.weight", {1, kHidden});
    }
  }
  return all;
}

// The matrices in the two tensors of all experts that transformers holds in memory.
Named Fused(const ExpertModel& one, const Named& tensors) {
  Named all;
  for (const auto& [name, matrix] : tensors) {
    const auto experts = name.find(".experts.");
    if (experts == std::string::npos) {
      std::string plain = name;
      if (const auto at = plain.find("block_sparse_moe."); at != std::string::npos) {
        plain.replace(at, 16, "mlp");
      }
      all[plain] = matrix;
    }
  }
  const bool mixtral = one.type == "mixtral";
  for (std::int64_t layer = one.dense_layers; layer < kLayers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    const std::string part = at + (mixtral ? "block_sparse_moe." : "mlp.") + "experts.";
    Matrix& in = all[at + "mlp.experts.gate_up_proj"];
    Matrix& out = all[at + "mlp.experts.down_proj"];
    in.shape = {kExperts, 2 * one.ffn, kHidden};
    out.shape = {kExperts, kHidden, one.ffn};
    for (std::int64_t e = 0; e < kExperts; ++e) {
      const auto of = [&](const char* theirs, const char* usual) -> const std::vector<float>& {
        return tensors.at(part + std::to_string(e) + "." + (mixtral ? theirs : usual) + ".weight").values;
      };
      for (const auto* values : {&of("w1", "gate_proj"), &of("w3", "up_proj")}) {
        in.values.insert(in.values.end(), values->begin(), values->end());
      }
      const std::vector<float>& down = of("w2", "down_proj");
      out.values.insert(out.values.end(), down.begin(), down.end());
    }
  }
  return all;
}

void Write(const std::string& path, const json& config, const Named& tensors) {
  std::filesystem::create_directories(path);
  std::ofstream(path + "/config.json") << config.dump(1);
  std::vector<SafetensorsEntry> entries;
  std::string data;
  for (const auto& [name, matrix] : tensors) {
    const auto begin = static_cast<std::int64_t>(data.size());
    data.append(reinterpret_cast<const char*>(matrix.values.data()), matrix.values.size() * sizeof(float));
    entries.push_back({.name = name,
                       .dtype = "F32",
                       .shape = matrix.shape,
                       .begin = begin,
                       .end = static_cast<std::int64_t>(data.size())});
  }
  std::ofstream(path + "/model.safetensors", std::ios::binary)
      << FormatSafetensorsHeader({{"format", "pt"}}, entries) << data;
}

// The forward pass in double, token by token.
class Reference {
 public:
  Reference(const ExpertModel& one, const Named& tensors) : model_(one), tensors_(tensors) {}

  std::vector<float> Logits(const TokenList& tokens) {
    std::vector<Row> x;
    for (const std::int32_t token : tokens) {
      x.push_back(RowOf("model.embed_tokens.weight", token));
    }
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      const std::string at = "model.layers." + std::to_string(layer) + ".";
      const std::vector<Row> attended = Attention(at + "self_attn.", Norms(x, at + "input_layernorm.weight"));
      for (std::size_t t = 0; t < x.size(); ++t) {
        Add(x[t], attended[t], 1);
      }
      const std::vector<Row> normed = Norms(x, at + "post_attention_layernorm.weight");
      for (std::size_t t = 0; t < x.size(); ++t) {
        Add(x[t], layer < model_.dense_layers ? Mlp(at + "mlp.", normed[t]) : Experts(at, normed[t]), 1);
      }
    }
    std::vector<float> logits;
    for (const Row& row : Norms(x, "model.norm.weight")) {
      for (const double logit : Product("lm_head.weight", row)) {
        logits.push_back(static_cast<float>(logit));
      }
    }
    return logits;
  }

 private:
  static double Silu(double z) { return z / (1 + std::exp(-z)); }
  static void Add(Row& to, const Row& from, double factor) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] += factor * from[i];
    }
  }
  Row RowOf(const std::string& name, std::int64_t row) const {
    const Matrix& matrix = tensors_.at(name);
    const auto first = matrix.values.begin() + row * matrix.shape.back();
    return {first, first + matrix.shape.back()};
  }
  Row Product(const std::string& name, const Row& x) const {
    Row out;
    for (std::int64_t row = 0; row < tensors_.at(name).shape[0]; ++row) {
      const Row weights = RowOf(name, row);
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum += weights[i] * x[i];
      }
      out.push_back(sum);
    }
    return out;
  }
  Row Norm(const Row& x, const std::string& gain) const {
    double square = 0;
    for (const double value : x) {
      square += value * value;
    }
    const double scale = 1 / std::sqrt(square / static_cast<double>(x.size()) + kEpsilon);
    Row out;
    for (std::size_t i = 0; i < x.size(); ++i) {
      out.push_back(x[i] * scale * static_cast<double>(tensors_.at(gain).values[i]));
    }
    return out;
  }
  std::vector<Row> Norms(const std::vector<Row>& x, const std::string& gain) const {
    std::vector<Row> out;
    for (const Row& row : x) {
      out.push_back(Norm(row, gain));
    }
    return out;
  }
  // Query, key or value heads of a token, turned by its position.
  std::vector<Row> Heads(const std::string& at, const char* kind, const Row& x, std::size_t position) const {
    Row all = Product(at + kind + "_proj.weight", x);
    if (model_.qkv_bias) {
      const std::vector<float>& bias = tensors_.at(at + kind + "_proj.bias").values;
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] += static_cast<double>(bias[i]);
      }
    }
    const bool turned = *kind != 'v';
    const std::string gain = at + kind + "_norm.weight";
    if (turned && model_.all_norms) {
      all = Norm(all, gain);
    }
    std::vector<Row> heads;
    for (std::size_t first = 0; first < all.size(); first += kHead) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      Row head(begin, begin + kHead);
      if (turned && model_.head_norms) {
        head = Norm(head, gain);
      }
      for (std::size_t i = 0; turned && i < kHead / 2; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(kHead));
        const double low = head[i];
        const double high = head[i + kHead / 2];
        head[i] = low * std::cos(angle) - high * std::sin(angle);
        head[i + kHead / 2] = high * std::cos(angle) + low * std::sin(angle);
      }
      heads.push_back(head);
    }
    return heads;
  }
  std::vector<Row> Attention(const std::string& at, const std::vector<Row>& x) const {
    std::vector<std::vector<Row>> queries;
    std::vector<std::vector<Row>> keys;
    std::vector<std::vector<Row>> values;
    for (std::size_t t = 0; t < x.size(); ++t) {
      queries.push_back(Heads(at, "q", x[t], t));
      keys.push_back(Heads(at, "k", x[t], t));
      values.push_back(Heads(at, "v", x[t], t));
    }
    std::vector<Row> out;
    for (std::size_t t = 0; t < x.size(); ++t) {
      Row all;
      for (std::size_t head = 0; head < kHeads; ++head) {
        const std::size_t shared = head / (kHeads / kKeyHeads);
        Row weights;
        double sum = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (std::size_t i = 0; i < kHead; ++i) {
            score += queries[t][head][i] * keys[s][shared][i];
          }
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(kHead))));
          sum += weights.back();
        }
        Row mixed(kHead, 0.0);
        for (std::size_t s = 0; s <= t; ++s) {
          Add(mixed, values[s][shared], weights[s] / sum);
        }
        all.insert(all.end(), mixed.begin(), mixed.end());
      }
      out.push_back(Product(at + "o_proj.weight", all));
    }
    return out;
  }
  Row Gated(const std::string& gate, const std::string& up, const std::string& down, const Row& x) const {
    Row active = Product(up, x);
    const Row gates = Product(gate, x);
    for (std::size_t i = 0; i < active.size(); ++i) {
      active[i] *= Silu(gates[i]);
    }
    return Product(down, active);
  }
  Row Mlp(const std::string& at, const Row& x) const {
    return Gated(at + "gate_proj.weight", at + "up_proj.weight", at + "down_proj.weight", x);
  }
  // A softmax over all experts, the best k of it, divided by their sum where the family does so.
  Row Experts(const std::string& layer, const Row& x) const {
    const bool mixtral = model_.type == "mixtral";
    const std::string at = layer + (mixtral ? "block_sparse_moe." : "mlp.");
    Row scores = Product(at + "gate.weight", x);
    double sum = 0;
    for (double& score : scores) {
      score = std::exp(score);
      sum += score;
    }
    std::vector<std::size_t> order(scores.size());
    for (std::size_t e = 0; e < order.size(); ++e) {
      order[e] = e;
      scores[e] /= sum;
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    EXPECT_GT(scores[order[kChosen - 1]] - scores[order[kChosen]], 1e-4) << "nearly a tie decides nothing";
    double chosen = 0;
    for (std::size_t j = 0; j < kChosen; ++j) {
      chosen += scores[order[j]];
    }
    Row out(kHidden, 0.0);
    for (std::size_t j = 0; j < kChosen; ++j) {
      const std::string expert = at + "experts." + std::to_string(order[j]) + ".";
      Add(out, mixtral ? Gated(expert + "w1.weight", expert + "w3.weight", expert + "w2.weight", x) : Mlp(expert, x),
          scores[order[j]] / (model_.renormalize ? chosen : 1));
    }
    if (model_.shared) {
      const double gate = Product(at + "shared_expert_gate.weight", x)[0];
      Add(out, Mlp(at + "shared_expert.", x), 1 / (1 + std::exp(-gate)));
    }
    return out;
  }

  const ExpertModel& model_;
  const Named& tensors_;
};

double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

class ExpertFiles : public testing::TestWithParam<ExpertModel> {
 protected:
  const TokenList tokens_ = {3, 14, 15, 9, 26, 5, 35, 8};
  Named tensors_ = TensorsOf(GetParam());
  ScratchDirectory folder_;
};
INSTANTIATE_TEST_SUITE_P(Families, ExpertFiles, testing::ValuesIn(ExpertModels()), [](const auto& one) {
  return one.param.type + "_" + std::to_string(one.param.ffn) + (one.param.renormalize ? "" : "_plain");
});

TEST_P(ExpertFiles, EveryMatrixLiesWhereItsNameSays) {
  Write(folder_ / "theirs", ConfigOf(GetParam()), tensors_);
  const std::vector<float> expected = Reference(GetParam(), tensors_).Logits(tokens_);
  for (const int ranks : {1, 2}) {
    EXPECT_LT(Difference(LogitsOf(folder_ / "theirs", tokens_, ranks), expected), kTolerance) << ranks;
  }
  EXPECT_LT(Difference(StagedLogitsOf(folder_ / "theirs", tokens_), expected), kTolerance);
}

TEST_P(ExpertFiles, FilesComeBackByteForByteFromBothForms) {
  Write(folder_ / "each", ConfigOf(GetParam()), tensors_);
  Write(folder_ / "fused", ConfigOf(GetParam()), Fused(GetParam(), tensors_));
  for (const std::string form : {"each", "fused"}) {
    ImportHuggingFace(folder_ / form, folder_ / ("ours_" + form));
    ExportHuggingFace(folder_ / ("ours_" + form), folder_ / ("back_" + form), {});
    EXPECT_EQ(ReadBytes(folder_ / ("back_" + form) + "/model.safetensors"),
              ReadBytes(folder_ / "each" + "/model.safetensors"))
        << form;
  }
}

TEST_P(ExpertFiles, ItsOwnConfigurationSaysTheSame) {
  const ModelConfig parsed = ParseHuggingFaceConfig(ConfigOf(GetParam()).dump(), "config.json");
  EXPECT_EQ(ParseHuggingFaceConfig(FormatHuggingFaceConfig(parsed, "fp32"), "written"), parsed);
}

TEST(ExpertConfigs, WhatIsNotComputedIsNamed) {
  json olmoe = ConfigOf({.type = "olmoe"});
  olmoe["clip_qkv"] = 8.0;
  EXPECT_THAT(test::MessageOf([&] { ParseHuggingFaceConfig(olmoe.dump(), "c"); }), testing::HasSubstr("clip_qkv"));
  json qwen = ConfigOf({.type = "qwen3_moe"});
  qwen["mlp_only_layers"] = {1};
  EXPECT_THAT(test::MessageOf([&] { ParseHuggingFaceConfig(qwen.dump(), "c"); }),
              testing::HasSubstr("mlp_only_layers"));
  const std::vector<std::string> unused = UnusedConfigKeys(ConfigOf({.type = "mixtral"}).dump(), "c");
  EXPECT_EQ(unused, std::vector<std::string>{"router_aux_loss_coef"});
}

TEST(ExpertConfigs, WhatAFileCannotSayIsRefused) {
  ModelConfig model = ParseHuggingFaceConfig(ConfigOf({.type = "mixtral"}).dump(), "c");
  model.experts.renormalize = false;
  EXPECT_THAT(test::MessageOf([&] { FormatHuggingFaceConfig(model, "fp32"); }), testing::HasSubstr("renormalize"));
  model.experts.renormalize = true;
  model.experts.score = RouterScore::kSigmoid;
  EXPECT_THAT(test::MessageOf([&] { FormatHuggingFaceConfig(model, "fp32"); }), testing::HasSubstr("softmax"));
}

// Granite's files have Mixtral's mathematics under names of their own, and both matrices of all experts in a tensor
// each.
class GraniteFiles : public testing::Test {
 protected:
  static json Config() {
    json root = ConfigOf({.type = "mixtral"});
    root["model_type"] = "granitemoe";
    root["attention_multiplier"] = 0.5;  // of heads of 4: as everywhere
    return root;
  }
  static Named Renamed(const Named& tensors) {
    Named theirs;
    for (const auto& [name, matrix] : Fused({.type = "mixtral"}, tensors)) {
      std::string plain = name;
      const auto rename = [&](const std::string& from, const std::string& to) {
        if (const auto at = plain.find(from); at != std::string::npos) {
          plain.replace(at, from.size(), to);
        }
      };
      rename("mlp.gate.weight", "block_sparse_moe.router.layer.weight");
      rename("mlp.experts.gate_up_proj", "block_sparse_moe.input_linear.weight");
      rename("mlp.experts.down_proj", "block_sparse_moe.output_linear.weight");
      theirs[plain] = matrix;
    }
    return theirs;
  }
  ScratchDirectory folder_;
};

TEST_F(GraniteFiles, HaveMixtralsLogitsAndComeBack) {
  const TokenList tokens = {3, 14, 15, 9, 26, 5, 35, 8};
  const Named tensors = TensorsOf({.type = "mixtral"});
  Write(folder_ / "theirs", Config(), Renamed(tensors));
  const std::vector<float> expected = Reference({.type = "mixtral"}, tensors).Logits(tokens);
  for (const int ranks : {1, 2}) {
    EXPECT_LT(Difference(LogitsOf(folder_ / "theirs", tokens, ranks), expected), kTolerance) << ranks;
  }
  ImportHuggingFace(folder_ / "theirs", folder_ / "ours");
  ExportHuggingFace(folder_ / "ours", folder_ / "back", {});
  EXPECT_EQ(ReadBytes(folder_ / "back/model.safetensors"), ReadBytes(folder_ / "theirs/model.safetensors"));
}

TEST_F(GraniteFiles, MultipliersAreReadAndComeBack) {
  json root = Config();
  root["embedding_multiplier"] = 12.0;
  root["residual_multiplier"] = 0.22;
  root["logits_scaling"] = 6.0;
  root["attention_multiplier"] = 0.015625;
  const ModelConfig parsed = ParseHuggingFaceConfig(root.dump(), "c");
  EXPECT_EQ(parsed.embedding_multiplier, 12);
  EXPECT_EQ(parsed.residual_multiplier, 0.22);
  EXPECT_EQ(parsed.logits_scaling, 6);
  EXPECT_EQ(parsed.attention_multiplier, 0.015625);
  EXPECT_EQ(ParseHuggingFaceConfig(FormatHuggingFaceConfig(parsed, "fp32"), "written"), parsed);
}

}  // namespace
}  // namespace trireme::oracle
