#include "checkpoint/hugging_face/rotary_keys.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/rotary.h"

namespace trireme {
namespace {

using nlohmann::json;

// What turned elements are multiplied by; `rule` follows from the model's factor.
void ParseMagnitude(const ConfigKeys& scaling, double rule, double otherwise, ModelConfig& model) {
  const double wanted = scaling.Number("attention_factor", otherwise);
  Require(std::isfinite(wanted) && wanted > 0, "'{}': 'attention_factor' = {} is not above 0", scaling.origin(),
          wanted);
  model.rope_magnitude = std::abs(wanted - rule) < 1e-6 ? 0 : wanted;
}

// DeepSeek's two scales of yarn's magnitude, which count together alone.
double YarnMagnitudeOf(const ConfigKeys& scaling, double factor) {
  const double scale = scaling.Number("mscale", 0);
  const double all = scaling.Number("mscale_all_dim", 0);
  return scale != 0 && all != 0 ? YarnMagnitude(factor, scale) / YarnMagnitude(factor, all) : YarnMagnitude(factor);
}

void ParseLongRope(const ConfigKeys& keys, const ConfigKeys& scaling, ModelConfig& model) {
  model.rope_scaling = RopeScaling::kLongRope;
  model.rope_original =
      scaling.Count("original_max_position_embeddings", keys.Count("original_max_position_embeddings", model.sequence));
  const double stretched = static_cast<double>(model.sequence) / static_cast<double>(model.rope_original);
  model.rope_factor = std::max(scaling.Number("factor", stretched), 1.0);
  model.rope_short_factors = FormatRopeFactors(scaling.Numbers("short_factor"));
  model.rope_long_factors = FormatRopeFactors(scaling.Numbers("long_factor"));
  scaling.RequireAbsent("short_mscale");
  scaling.RequireAbsent("long_mscale");
  const double rule = LongRopeMagnitude(model.rope_factor, static_cast<double>(model.rope_original));
  ParseMagnitude(scaling, rule, rule, model);
}

void ParseScaling(const ConfigKeys& keys, const ConfigKeys& scaling, const char* key, ModelConfig& model) {
  const std::string kind = scaling.Text("rope_type", scaling.Text("type", "default").c_str());
  if (kind == "default") {
    return;
  }
  if (kind == "longrope" || kind == "su") {  // its first name
    return ParseLongRope(keys, scaling, model);
  }
  Require(kind == "linear" || kind == "llama3" || kind == "yarn",
          "'{}': '{}' of type '{}' is not computed; known are default, linear, llama3, yarn and longrope",
          scaling.origin(), key, kind);
  model.rope_scaling = FromWord<RopeScaling>("rope_type", kind);
  model.rope_factor = scaling.Number("factor", 1);
  model.rope_original = scaling.Count("original_max_position_embeddings", model.sequence);
  if (kind == "llama3") {
    model.rope_low = scaling.Number("low_freq_factor", 1);
    model.rope_high = scaling.Number("high_freq_factor", 4);
  } else if (kind == "yarn") {
    model.rope_low = scaling.Number("beta_slow", 1);
    model.rope_high = scaling.Number("beta_fast", 32);
    scaling.RequireFlag("truncate", true);
    ParseMagnitude(scaling, YarnMagnitude(model.rope_factor), YarnMagnitudeOf(scaling, model.rope_factor), model);
  }
}

}  // namespace

void ParseRotary(const ConfigKeys& keys, ModelConfig& model, double default_theta) {
  model.rope_theta = keys.Number("rope_theta", default_theta);
  double part = keys.Number("partial_rotary_factor", keys.Number("rotary_pct", 0));
  const char* key = keys.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (keys.Has(key)) {
    const ConfigKeys outer = keys.Inner(key);
    const bool by_layer = outer.Has("full_attention");
    const ConfigKeys scaling = by_layer ? outer.Inner("full_attention") : outer;
    model.rope_theta = scaling.Number("rope_theta", model.rope_theta);
    part = scaling.Number("partial_rotary_factor", part);
    ParseScaling(keys, scaling, key, model);
    if (by_layer && outer.Has("sliding_attention")) {
      const ConfigKeys local = outer.Inner("sliding_attention");
      local.RequireText("rope_type", {"default"});
      model.local_rope_theta = local.Number("rope_theta", model.rope_theta);
    }
  }
  if (part > 0) {
    model.rotary_fraction = part;
  }
}

void FormatRotary(const ModelConfig& model, json& root) {
  root["rope_theta"] = model.rope_theta;
  if (model.rope_scaling == RopeScaling::kNone) {
    return;
  }
  json scaling = {{"rope_type", Name(model.rope_scaling)}, {"factor", model.rope_factor}};
  if (model.rope_scaling == RopeScaling::kLongRope) {
    scaling["short_factor"] = ParseRopeFactors("rope_short_factors", model.rope_short_factors);
    scaling["long_factor"] = ParseRopeFactors("rope_long_factors", model.rope_long_factors);
    scaling["original_max_position_embeddings"] = model.rope_original;
    root["original_max_position_embeddings"] = model.rope_original;
  }
  const bool yarn = model.rope_scaling == RopeScaling::kYarn;
  if (yarn || model.rope_scaling == RopeScaling::kLlama3) {
    scaling["original_max_position_embeddings"] = model.rope_original > 0 ? model.rope_original : model.sequence;
    scaling[yarn ? "beta_slow" : "low_freq_factor"] = model.rope_low > 0 ? model.rope_low : 1;
    scaling[yarn ? "beta_fast" : "high_freq_factor"] = model.rope_high > 0 ? model.rope_high : (yarn ? 32 : 4);
  }
  if (model.rope_magnitude > 0) {
    scaling["attention_factor"] = model.rope_magnitude;
  }
  root["rope_scaling"] = scaling;
}

void ParseWindows(const ConfigKeys& keys, ModelConfig& model) {
  const std::vector<LayerKind> kinds = ParseLayerKinds(keys, model);
  for (const LayerKind& kind : kinds) {
    Require(kind == kinds.front(), "'{}': 'layer_types' names several kinds; layers of the family '{}' are alike",
            keys.origin(), model.family);
  }
  model.window = kinds.empty() || kinds.front().sliding ? keys.Count("sliding_window", std::int64_t{0}) : 0;
}

std::vector<LayerKind> ParseLayerKinds(const ConfigKeys& keys, const ModelConfig& model) {
  std::vector<LayerKind> kinds;
  for (const std::string& type : keys.Texts("layer_types")) {
    Require(type == "full_attention" || type == "sliding_attention",
            "'{}': 'layer_types' has '{}'; this program computes full_attention and sliding_attention", keys.origin(),
            type);
    kinds.push_back({.sliding = type == "sliding_attention"});
  }
  Require(kinds.empty() || static_cast<std::int64_t>(kinds.size()) == model.layers,
          "'{}': 'layer_types' has {} entries for {} layers", keys.origin(), kinds.size(), model.layers);
  return kinds;
}

void RequireLayers(const ConfigKeys& keys, const ModelConfig& model) {
  constexpr std::int64_t kMostLayers = 10'000;
  Require(model.layers > 0 && model.layers <= kMostLayers, "'{}': 'num_hidden_layers' = {} is not between 1 and {}",
          keys.origin(), model.layers, kMostLayers);
}

namespace {

// Whether a family's defaults with these keys are these layers.
bool IsSaid(const std::vector<LayerKind>& kinds, ModelConfig model) {
  FindModelFamily(model.family).complete(model, true);
  model.layer_pattern = ParseLayerTypes(model.layer_types);
  for (std::size_t layer = 0; layer < kinds.size(); ++layer) {
    const AttentionKind found = model.AttentionOf(static_cast<std::int64_t>(layer));
    if (kinds[layer] != LayerKind{.sliding = found.window > 0, .positions = found.rotary}) {
      return false;
    }
  }
  return true;
}

}  // namespace

void SetLayers(const std::vector<LayerKind>& kinds, std::int64_t window, ModelConfig& model) {
  const auto first_full = std::find_if(kinds.begin(), kinds.end(), [](const LayerKind& kind) { return !kind.sliding; });
  const bool windows = std::any_of(kinds.begin(), kinds.end(), [](const LayerKind& kind) { return kind.sliding; });
  model.window = windows ? window : 0;
  if (IsSaid(kinds, model)) {
    return;
  }
  ModelConfig periodic = model;
  periodic.window_period = first_full == kinds.end() ? 0 : first_full - kinds.begin() + 1;
  if (windows && model.layer_types.empty() && IsSaid(kinds, periodic)) {
    model.window_period = periodic.window_period;
    return;
  }
  model.layer_types = FormatLayerTypes(kinds);
}

json LayerTypesJson(const ModelConfig& model) {
  json types = json::array();
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    types.push_back(model.WindowOf(layer) > 0 ? "sliding_attention" : "full_attention");
  }
  return types;
}

}  // namespace trireme
