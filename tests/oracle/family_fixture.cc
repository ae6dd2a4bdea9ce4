#include "oracle/family_fixture.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/json_text.h"
#include "checkpoint/hugging_face/safetensors.h"
#include "infer/model_files.h"
#include "infer/staged_evaluation.h"
#include "oracle/fixture.h"
#include "scratch_directory.h"

namespace trireme::oracle {

using nlohmann::json;

const json& Models() {
  static const json models = [] {
    json all = ParseJson(ReadBytes(TRIREME_SOURCE_DIR "/tests/oracle/families_fixture.json")).at("models");
    all.update(ParseJson(ReadBytes(TRIREME_SOURCE_DIR "/tests/oracle/formulas_fixture.json")).at("models"));
    return all;
  }();
  return models;
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const auto& [name, model] : Models().items()) {
    names.push_back(name);
  }
  return names;
}

Tensors ValuesOf(const json& model) {
  const std::string type = ParseJson(model.at("config").get<std::string>()).at("model_type");
  const bool around_zero = type == "gemma2" || type == "gemma3_text" || type == "nemotron";
  Tensors tensors;
  for (const auto& [name, shape] : model.at("tensors").items()) {
    std::int64_t count = 1;
    for (const json& extent : shape) {
      count *= extent.get<std::int64_t>();
    }
    // Values go by names in memory: transformers calls every output lm_head there.
    const std::string in_memory = name == "embed_out.weight" ? "lm_head.weight" : name;
    const float base = shape.size() == 1 && name.ends_with(".weight") && !around_zero ? 1.0F : 0.0F;
    std::vector<float>& values = tensors[name];
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(base + (static_cast<float>(Number(in_memory, i) % 257) - 128.0F) / 512.0F);
    }
  }
  return tensors;
}

std::string SafetensorsOf(const json& model, const Tensors& tensors) {
  std::vector<SafetensorsEntry> entries;
  std::string data;
  for (const auto& [name, values] : tensors) {  // by name, as the library writes them
    const auto begin = static_cast<std::int64_t>(data.size());
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    entries.push_back({.name = name,
                       .dtype = "F32",
                       .shape = model.at("tensors").at(name).get<std::vector<std::int64_t>>(),
                       .begin = begin,
                       .end = static_cast<std::int64_t>(data.size())});
  }
  return FormatSafetensorsHeader({{"format", "pt"}}, entries) + data;
}

std::uint32_t Crc32(const std::string& bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
    }
  }
  return ~crc;
}

void WriteDirectory(const std::string& path, const json& model, const Tensors& tensors, const std::string& config) {
  std::filesystem::create_directories(path);
  WriteBytes(path + "/config.json", config);
  WriteBytes(path + "/model.safetensors", SafetensorsOf(model, tensors));
}

std::vector<float> LogitsOf(const std::string& path, const TokenList& tokens, int ranks) {
  const ModelFiles files = OpenModelFiles(path);
  const auto rows = static_cast<std::int64_t>(tokens.size());
  std::vector<float> logits;
  RunThreadRanks(ranks, {.kind = "cpu"}, [&](RankContext& context) {
    InferenceModel model(files.model, files.weights, context, {.batch = rows, .rows = rows});
    model.RunWhole(1, tokens);
    TokenList all(tokens.size());
    std::iota(all.begin(), all.end(), 0);
    const std::vector<float> found = model.Logits(all);
    if (context.world.rank() == 0) {
      logits = found;
    }
  });
  return logits;
}

std::vector<float> StagedLogitsOf(const std::string& path, const TokenList& tokens) {
  const ModelFiles files = OpenModelFiles(path);
  const RunConfig run =
      RunOfStages(files, {.tensor = 2, .pipeline = 2, .length = static_cast<std::int64_t>(tokens.size())});
  Sample sample{.tokens = tokens, .weights = {}, .document_starts = {}};
  sample.tokens.push_back(0);
  const ScratchDirectory folder;
  const LogitRequest request{.count = 1, .get = [&](std::int64_t) { return sample; }, .path = folder / "logits.npy"};
  RunThreadRanks(run.layout.ranks(), {.kind = "cpu", .threads = 1},
                 [&](RankContext& context) { EvaluateInStages(run, files.weights, context, request, nullptr); });
  constexpr std::size_t kHeader = 128;
  const std::string bytes = ReadBytes(request.path);
  std::vector<float> logits((bytes.size() - kHeader) / sizeof(float));
  std::memcpy(logits.data(), bytes.data() + kHeader, logits.size() * sizeof(float));
  return logits;
}

double DifferenceFrom(const json& model, const std::vector<float>& logits) {
  double largest = 0;
  std::size_t at = 0;
  for (const json& row : model.at("logits")) {
    for (const json& logit : row) {
      largest = std::max(largest, std::abs(logit.get<double>() - static_cast<double>(logits.at(at++))));
    }
  }
  return largest;
}

TokenList GreedyTokens(const std::string& path, const TokenList& tokens, std::int64_t count) {
  const ModelFiles files = OpenModelFiles(path);
  const std::vector<TokenList> prompts = {tokens};
  const InferenceOptions options = PlanGeneration(files.model, {.prompts = prompts}, count);
  TokenList next;
  RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
    InferenceModel model(files.model, files.weights, context, options);
    next = Generate(model, prompts, {.tokens = count, .sampling = {.temperature = 0}}).at(0);
  });
  return next;
}

}  // namespace trireme::oracle
