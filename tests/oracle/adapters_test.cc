// LoRA adapters of every family in PEFT's form. The oracle knows PEFT's rule alone (W += alpha / r * B A, by the names
// of modules) and Hugging Face's files, whose weights families_test compares with transformers.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/gguf/gguf.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "checkpoint/read/weight_source.h"
#include "comm/rank_runner.h"
#include "infer/compare_logits.h"
#include "message_of.h"
#include "operate/training_loop.h"
#include "oracle/family_fixture.h"
#include "scratch_directory.h"

namespace trireme::oracle {
namespace {

using nlohmann::json;

struct NamedTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

std::map<std::string, NamedTensor> ReadTensors(const std::string& path) {
  const std::string bytes = ReadBytes(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const json header = ParseJson(bytes.substr(8, length));
  std::map<std::string, NamedTensor> tensors;
  for (const auto& [name, about] : header.items()) {
    if (name == "__metadata__") {
      continue;
    }
    NamedTensor& tensor = tensors[name];
    tensor.shape = about.at("shape").get<std::vector<std::int64_t>>();
    const auto begin = about.at("data_offsets")[0].get<std::size_t>();
    const auto end = about.at("data_offsets")[1].get<std::size_t>();
    tensor.values.resize((end - begin) / sizeof(float));
    std::memcpy(tensor.values.data(), bytes.data() + 8 + length + begin, end - begin);
  }
  return tensors;
}

// What PEFT's merge_and_unload gives. Counts the modules that it finds.
int Merge(const std::string& adapter, Tensors& weights) {
  const json config = ParseJson(ReadBytes(adapter + "/adapter_config.json"));
  const double scale = config.at("lora_alpha").get<double>() / config.at("r").get<double>();
  const bool transposed = config.at("fan_in_fan_out").get<bool>();
  const auto tensors = ReadTensors(adapter + "/adapter_model.safetensors");
  int modules = 0;
  for (auto& [name, weight] : weights) {
    const std::string module = name.substr(0, name.size() - 7);  // without .weight
    const auto a = tensors.find("base_model.model." + module + ".lora_A.weight");
    if (a == tensors.end()) {
      continue;
    }
    ++modules;
    const NamedTensor& b = tensors.at("base_model.model." + module + ".lora_B.weight");
    const std::int64_t rank = a->second.shape[0];
    const std::int64_t inputs = a->second.shape[1];
    const std::int64_t outputs = b.shape[0];
    EXPECT_EQ(rank, config.at("r").get<std::int64_t>());
    EXPECT_EQ(b.shape[1], rank);
    EXPECT_EQ(static_cast<std::int64_t>(weight.size()), inputs * outputs) << name;
    for (std::int64_t out = 0; out < outputs; ++out) {
      for (std::int64_t in = 0; in < inputs; ++in) {
        double sum = 0;
        for (std::int64_t k = 0; k < rank; ++k) {
          sum += static_cast<double>(b.values[static_cast<std::size_t>(out * rank + k)]) *
                 a->second.values[static_cast<std::size_t>(k * inputs + in)];
        }
        weight[static_cast<std::size_t>(transposed ? in * outputs + out : out * inputs + in)] +=
            static_cast<float>(scale * sum);
      }
    }
  }
  EXPECT_EQ(tensors.size(), 2U * static_cast<std::size_t>(modules)) << "a module that the model does not have";
  return modules;
}

// Modules that PEFT would adapt: those whose names end so.
int Targeted(const std::string& adapter, const Tensors& weights) {
  const auto targets =
      ParseJson(ReadBytes(adapter + "/adapter_config.json")).at("target_modules").get<std::vector<std::string>>();
  int modules = 0;
  for (const auto& [name, values] : weights) {
    for (const std::string& target : targets) {
      modules += name.ends_with("." + target + ".weight") ? 1 : 0;
    }
  }
  return modules;
}

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return largest;
}

class AdaptedFamily : public testing::TestWithParam<std::string> {
 protected:
  AdaptedFamily() : model_(Models().at(GetParam())), values_(ValuesOf(model_)) {
    WriteDirectory(folder_ / "base", model_, values_, model_.at("config").get<std::string>());
  }
  TokenList tokens() const { return model_.at("tokens").get<TokenList>(); }

  // A few steps from the base.
  void TrainAdapters(const std::string& targets, const ParallelLayout& layout) {
    RunConfig config;
    config.model_from = folder_ / "base";
    config.model = ReadModel(config.model_from);
    config.model.adapter = {.rank = 3, .alpha = 6, .targets = targets};
    config.layout = layout;
    config.batch.global = 4;
    config.optimizer.schedule = RateSchedule::kConstant;
    config.optimizer.learning_rate = 0.03;
    config.train.steps = 3;
    config.train.device = "cpu";
    Validate(config, config.layout.ranks());
    const auto source = OpenRunSource(config, "train");
    TrainingObserver watcher;
    RunThreadRanks(config.layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
      RunTraining(config, context, {.train = source.get()}, {.run_folder = folder_ / "run"}, &watcher);
    });
  }

  const json& model_;
  Tensors values_;
  ScratchDirectory folder_;
};
INSTANTIATE_TEST_SUITE_P(Transformers, AdaptedFamily, testing::ValuesIn(ModelNames()),
                         [](const auto& one) { return one.param; });

TEST_P(AdaptedFamily, ExportsAdaptersThatMergeToTheSameLogits) {
  const bool cut = ReadModel(folder_ / "base").kv_heads % 2 == 0;
  TrainAdapters("all", {.tensor = cut ? 2 : 1, .data = 2, .zero = 3});
  ExportAdapter(folder_ / "run", folder_ / "adapter");
  Tensors merged = values_;
  const int modules = Merge(folder_ / "adapter", merged);
  EXPECT_GT(modules, 0);
  EXPECT_EQ(Targeted(folder_ / "adapter", values_), modules);
  WriteDirectory(folder_ / "by_hand", model_, merged, model_.at("config").get<std::string>());

  const std::vector<float> trained = LogitsOf(folder_ / "run", tokens(), 1);
  EXPECT_LT(LargestDifference(LogitsOf(folder_ / "by_hand", tokens(), 1), trained), kTolerance);
  EXPECT_GT(LargestDifference(LogitsOf(folder_ / "base", tokens(), 1), trained), 100 * kTolerance);

  // The program's own merge; what has no adapter comes back as it was.
  ExportHuggingFace(folder_ / "run", folder_ / "merged", {.merge = true});
  const LogitComparison same = CompareLogits(folder_ / "run", folder_ / "merged", 16, 1);
  EXPECT_LT(same.largest_difference, kTolerance);
  const json config = ParseJson(ReadBytes(folder_ / "merged/config.json"));
  EXPECT_TRUE(!config.contains("query_pre_attn_scalar") || config["query_pre_attn_scalar"].is_number_integer())
      << "transformers refuses another";
  int changed = 0;
  for (const auto& [name, tensor] : ReadTensors(folder_ / "merged/model.safetensors")) {
    changed += tensor.values != values_.at(name) ? 1 : 0;
    EXPECT_LT(LargestDifference(tensor.values, merged.at(name)), 1e-6) << name;
  }
  EXPECT_EQ(changed, modules);
}

class SomeAdapters : public AdaptedFamily {};
INSTANTIATE_TEST_SUITE_P(Transformers, SomeAdapters, testing::Values("gpt2", "llama", "gpt_neox"),
                         [](const auto& one) { return one.param; });

TEST_P(SomeAdapters, OfOneProductAreNamedSoThatPeftFindsNoOther) {
  TrainAdapters("attention.out", {});
  ExportAdapter(folder_ / "run", folder_ / "adapter");
  Tensors merged = values_;
  EXPECT_EQ(Merge(folder_ / "adapter", merged), 2);
  EXPECT_EQ(Targeted(folder_ / "adapter", values_), 2);
}

TEST_P(SomeAdapters, AreNotLeftOutUnasked) {
  TrainAdapters("mlp.in", {});
  EXPECT_NE(test::MessageOf([&] { ExportHuggingFace(folder_ / "run", folder_ / "out"); }).find("--merge"),
            std::string::npos);
  EXPECT_NE(test::MessageOf([&] { ExportGguf(folder_ / "run", folder_ / "out.gguf"); }).find("--merge"),
            std::string::npos);
  ExportGguf(folder_ / "run", folder_ / "out.gguf", {.type = "f32", .merge = true});
  ImportHuggingFace(folder_ / "base", folder_ / "plain");
  EXPECT_NE(test::MessageOf([&] { ExportAdapter(folder_ / "plain", folder_ / "none"); }).find("no LoRA adapters"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme::oracle
