#include "checkpoint/hugging_face/rotary_keys.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/rotary.h"

namespace trireme {
namespace {

using nlohmann::json;

// Scores are scaled by a rule of `model`'s factor; files that say another number mean another model.
void RequireMagnitude(const ConfigKeys& scaling, double rule) {
  const double wanted = scaling.Number("attention_factor", rule);
  Require(std::abs(wanted - rule) < 1e-6, "'{}': 'attention_factor' = {}; this program computes the kind's own, {}",
          scaling.origin(), wanted, rule);
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
  RequireMagnitude(scaling, LongRopeMagnitude(model.rope_factor, static_cast<double>(model.rope_original)));
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
    scaling.RequireAbsent("mscale");
    scaling.RequireAbsent("mscale_all_dim");
    scaling.RequireFlag("truncate", true);
    RequireMagnitude(scaling, 0.1 * std::log(model.rope_factor) + 1);
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
  root["rope_scaling"] = scaling;
}

void ParseWindows(const ConfigKeys& keys, ModelConfig& model) {
  const std::int64_t window = keys.Count("sliding_window", std::int64_t{0});
  const std::vector<std::string> types = keys.Texts("layer_types");
  if (types.empty()) {
    model.window = window;
    return;
  }
  Require(static_cast<std::int64_t>(types.size()) == model.layers, "'{}': 'layer_types' has {} entries for {} layers",
          keys.origin(), types.size(), model.layers);
  std::int64_t first_full = 0;
  while (first_full < model.layers && types[static_cast<std::size_t>(first_full)] != "full_attention") {
    ++first_full;
  }
  if (first_full == 0 && types == std::vector<std::string>(types.size(), "full_attention")) {
    return;
  }
  model.window = window;
  model.window_period = first_full < model.layers ? first_full + 1 : model.window_period;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string& type = types[static_cast<std::size_t>(layer)];
    const bool full = model.window_period > 0 && (layer + 1) % model.window_period == 0;
    Require(type == (full ? "full_attention" : "sliding_attention"),
            "'{}': 'layer_types' gives layer {} '{}'; this program computes windows with one layer of full attention "
            "after every so many",
            keys.origin(), layer, type);
  }
}

}  // namespace trireme
