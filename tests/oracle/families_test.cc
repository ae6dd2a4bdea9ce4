// Every family against transformers: the same weights in Hugging Face's form, logits, greedy tokens and files. The
// fixtures are those of make_families.py and make_formulas.py.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json_text.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "infer/compare_logits.h"
#include "infer/model_files.h"
#include "oracle/family_fixture.h"
#include "scratch_directory.h"

namespace trireme::oracle {
namespace {

using nlohmann::json;

class Family : public testing::TestWithParam<std::string> {
 protected:
  Family() : model_(Models().at(GetParam())), values_(ValuesOf(model_)) {
    WriteDirectory(folder_ / "theirs", model_, values_, config());
  }
  std::string config() const { return model_.at("config").get<std::string>(); }
  TokenList tokens() const { return model_.at("tokens").get<TokenList>(); }
  // The difference that these tensors or this configuration make.
  double DifferenceWith(const Tensors& values, const std::string& config) {
    WriteDirectory(folder_ / "changed", model_, values, config);
    return DifferenceFrom(model_, LogitsOf(folder_ / "changed", tokens(), 1));
  }

  const json& model_;
  Tensors values_;
  ScratchDirectory folder_;
};
INSTANTIATE_TEST_SUITE_P(Transformers, Family, testing::ValuesIn(ModelNames()),
                         [](const auto& one) { return one.param; });

TEST_P(Family, WritesTheFileThatTransformersWrites) {
  EXPECT_EQ(Crc32(SafetensorsOf(model_, values_)), model_.at("crc32").get<std::uint32_t>());
}

TEST_P(Family, HasTheLogitsOfTransformers) {
  for (const int ranks : {1, 2}) {
    if (OpenModelFiles(folder_ / "theirs").model.kv_heads % ranks == 0) {
      EXPECT_LT(DifferenceFrom(model_, LogitsOf(folder_ / "theirs", tokens(), ranks)), kTolerance) << ranks;
    }
  }
}

// Stages of the trainer's pipeline, each cut over two ranks.
TEST_P(Family, HasTheLogitsOfTransformersInTwoStagesOfTwoRanks) {
  if (OpenModelFiles(folder_ / "theirs").model.kv_heads % 2 == 0) {
    EXPECT_LT(DifferenceFrom(model_, StagedLogitsOf(folder_ / "theirs", tokens())), kTolerance);
  }
}

TEST_P(Family, GeneratesTheTokensOfTransformers) {
  const TokenList expected = model_.at("greedy").get<TokenList>();
  EXPECT_EQ(GreedyTokens(folder_ / "theirs", tokens(), static_cast<std::int64_t>(expected.size())), expected);
}

TEST_P(Family, FilesComeBackByteForByteAndComputeTheSame) {
  ImportHuggingFace(folder_ / "theirs", folder_ / "ours");
  ExportHuggingFace(folder_ / "ours", folder_ / "back");
  for (const char* file : {"/config.json", "/model.safetensors"}) {
    EXPECT_EQ(ReadBytes(folder_ / "theirs" + file), ReadBytes(folder_ / "back" + file)) << file;
  }
  EXPECT_EQ(CompareLogits(folder_ / "ours", folder_ / "back", 16, 3).largest_difference, 0);
}

// A configuration that this program writes itself means the same model.
TEST_P(Family, ItsOwnConfigurationSaysTheSame) {
  const ModelConfig parsed = ParseHuggingFaceConfig(config(), "config.json");
  const std::string written = FormatHuggingFaceConfig(parsed, "fp32");
  EXPECT_EQ(ParseHuggingFaceConfig(written, "written"), parsed);
  EXPECT_LT(DifferenceWith(values_, written), kTolerance);
}

// What must not pass: rows of a matrix in another order, a bias that is lost, another base of rotary positions.
TEST_P(Family, PlantedMistakesShow) {
  for (const auto& [name, values] : values_) {
    const json& shape = model_.at("tensors").at(name);
    Tensors changed = values_;
    if (name.ends_with(".bias")) {
      if (name.find("layers.0.") == std::string::npos && name.find("h.0.") == std::string::npos) {
        continue;
      }
      std::fill(changed[name].begin(), changed[name].end(), 0.0F);
    } else if (shape.size() == 2 && name.find(".1.") != std::string::npos) {
      std::rotate(changed[name].begin(), changed[name].begin() + shape[1].get<std::ptrdiff_t>(), changed[name].end());
    } else {
      continue;
    }
    if (name.ends_with("k_proj.bias")) {
      continue;  // shifts all scores of a query alike where positions are not turned
    }
    EXPECT_GT(DifferenceWith(changed, config()), 10 * kTolerance) << name;
  }
  json root = ParseJson(config());
  if (root.contains("rope_parameters")) {
    json& rope = root["rope_parameters"];
    json& base = (rope.contains("full_attention") ? rope["full_attention"] : rope)["rope_theta"];
    base = 1.5 * base.get<double>();
    EXPECT_GT(DifferenceWith(values_, JsonText(root)), 10 * kTolerance) << "rotary base";
  }
}

}  // namespace
}  // namespace trireme::oracle
