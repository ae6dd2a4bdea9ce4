#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/format/bounded_json.h"
#include "checkpoint/hugging_face/families.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "data/files/json_file.h"

namespace trireme {
namespace {

using nlohmann::json;

// Keys that say nothing about what a model computes.
bool IsAbout(const std::string& key) {
  static const std::set<std::string> known = {
      "_name_or_path", "architectures", "auto_map",     "bos_token_id", "cache_implementation", "dtype",
      "eos_token_id",  "model_type",    "pad_token_id", "torch_dtype",  "transformers_version", "use_cache",
      "pretraining_tp"};
  return known.contains(key);
}

struct ParsedConfig {
  ModelConfig model;
  std::vector<std::string> unread;
};

ParsedConfig ParseWhole(const std::string& text, const std::string& origin) {
  const json root = ParseBoundedJson(text, origin, {.depth = 64, .values = 100'000, .unique_keys = true});
  const ConfigKeys keys(root, origin);
  const ModelConfig model = HuggingFaceFamilyOf(TextOf(root, "model_type", origin), origin).parse(keys);
  ParsedConfig parsed;
  for (const std::string& key : keys.Unread()) {
    if (!IsAbout(key)) {
      parsed.unread.push_back(key);
    }
  }
  try {
    parsed.model = Completed(model, true);
  } catch (const Error& error) {
    Fail("'{}': {}", origin, error.what());
  }
  return parsed;
}

}  // namespace

ModelConfig ParseHuggingFaceConfig(const std::string& text, const std::string& origin) {
  return ParseWhole(text, origin).model;
}

std::vector<std::string> UnusedConfigKeys(const std::string& text, const std::string& origin) {
  return ParseWhole(text, origin).unread;
}

ModelConfig ReadHuggingFaceConfig(const std::string& directory) {
  const std::string path = directory + "/config.json";
  return ParseHuggingFaceConfig(ReadBoundedFile(path, kLargestHuggingFaceConfig), path);
}

std::string FormatHuggingFaceConfig(const ModelConfig& model, const std::string& dtype) {
  const HuggingFaceFamily& family = HuggingFaceFamilyOf(model);
  ModelConfig usual = model;
  usual.embedding_norm_choice = EmbeddingNormChoice::kAutomatic;
  Require(
      Completed(usual, true).embedding_norm == model.embedding_norm,
      "model.embedding_norm = '{}': Hugging Face's {} has {} norm behind the embedding, so that this model cannot be "
      "exported to it",
      Name(model.embedding_norm_choice), family.model_type, model.embedding_norm ? "no" : "a");
  json root = family.format(model);
  root["model_type"] = family.model_type;
  root["tie_word_embeddings"] = model.tie_embeddings;
  root["torch_dtype"] = dtype == "bf16" ? "bfloat16" : "float32";
  root["use_cache"] = true;
  return JsonText(root, {.indent = 2}) + "\n";
}

}  // namespace trireme
