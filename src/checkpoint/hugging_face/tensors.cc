#include "checkpoint/hugging_face/tensors.h"

#include <algorithm>

#include "base/error.h"
#include "model/parameter_places.h"

namespace trireme {
namespace {

// Appends tensors; a row of -1 is a parameter that the model does not have.
class Lister {
 public:
  explicit Lister(const ParameterTable& table) : table_(table) {}

  void Whole(const std::string& name, int row, TensorOrder order = TensorOrder::kRows) {
    if (row < 0) {
      return;
    }
    const Shape& shape = table_.rows()[static_cast<std::size_t>(row)].shape;
    std::vector<std::int64_t> extents = {shape[0]};
    if (shape.rank() == 2) {
      extents.push_back(shape[1]);
    }
    if (order == TensorOrder::kTransposed) {
      std::reverse(extents.begin(), extents.end());
    }
    tensors_.push_back({.name = name, .shape = extents, .row = row, .order = order});
  }

  // One tensor for each segment of a cut parameter.
  void Segments(const std::vector<std::string>& names, int row) {
    const Parameter& parameter = table_.rows()[static_cast<std::size_t>(row)];
    std::int64_t first = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::int64_t rows = parameter.split.segments[i];
      tensors_.push_back({.name = names[i], .shape = {rows, parameter.shape[1]}, .row = row, .first_row = first});
      first += rows;
    }
  }

  std::vector<HuggingFaceTensor> Take() { return std::move(tensors_); }

 private:
  const ParameterTable& table_;
  std::vector<HuggingFaceTensor> tensors_;
};

void ListGpt2(const ParameterTable& table, Lister& list) {
  const std::string prefix = "transformer.";
  const EmbeddingParameters embedding = PlacesOfEmbedding(table);
  list.Whole(prefix + "wte.weight", embedding.token);
  list.Whole(prefix + "wpe.weight", embedding.position);
  for (std::int64_t layer = 0; layer < table.config().layers; ++layer) {
    const auto block = [&](std::string_view name) { return table.InBlock(layer, name); };
    const std::string at = fmt::format("{}h.{}.", prefix, layer);
    list.Whole(at + "ln_1.weight", block("attention.norm.gain"));
    list.Whole(at + "ln_1.bias", block("attention.norm.bias"));
    list.Whole(at + "attn.c_attn.weight", block("attention.qkv.weight"), TensorOrder::kTransposed);
    list.Whole(at + "attn.c_attn.bias", block("attention.qkv.bias"));
    list.Whole(at + "attn.c_proj.weight", block("attention.out.weight"), TensorOrder::kTransposed);
    list.Whole(at + "attn.c_proj.bias", block("attention.out.bias"));
    list.Whole(at + "ln_2.weight", block("mlp.norm.gain"));
    list.Whole(at + "ln_2.bias", block("mlp.norm.bias"));
    list.Whole(at + "mlp.c_fc.weight", block("mlp.in.weight"), TensorOrder::kTransposed);
    list.Whole(at + "mlp.c_fc.bias", block("mlp.in.bias"));
    list.Whole(at + "mlp.c_proj.weight", block("mlp.out.weight"), TensorOrder::kTransposed);
    list.Whole(at + "mlp.c_proj.bias", block("mlp.out.bias"));
  }
  const HeadParameters head = PlacesOfHead(table);
  list.Whole(prefix + "ln_f.weight", head.norm_gain);
  list.Whole(prefix + "ln_f.bias", head.norm_bias);
}

void ListBloom(const ParameterTable& table, Lister& list) {
  const std::string prefix = "transformer.";
  const EmbeddingParameters embedding = PlacesOfEmbedding(table);
  list.Whole(prefix + "word_embeddings.weight", embedding.token);
  list.Whole(prefix + "word_embeddings_layernorm.weight", embedding.norm_gain);
  list.Whole(prefix + "word_embeddings_layernorm.bias", embedding.norm_bias);
  for (std::int64_t layer = 0; layer < table.config().layers; ++layer) {
    const auto block = [&](std::string_view name) { return table.InBlock(layer, name); };
    const std::string at = fmt::format("{}h.{}.", prefix, layer);
    list.Whole(at + "input_layernorm.weight", block("attention.norm.gain"));
    list.Whole(at + "input_layernorm.bias", block("attention.norm.bias"));
    list.Whole(at + "self_attention.query_key_value.weight", block("attention.qkv.weight"), TensorOrder::kInterleaved);
    list.Whole(at + "self_attention.query_key_value.bias", block("attention.qkv.bias"), TensorOrder::kInterleaved);
    list.Whole(at + "self_attention.dense.weight", block("attention.out.weight"));
    list.Whole(at + "self_attention.dense.bias", block("attention.out.bias"));
    list.Whole(at + "post_attention_layernorm.weight", block("mlp.norm.gain"));
    list.Whole(at + "post_attention_layernorm.bias", block("mlp.norm.bias"));
    list.Whole(at + "mlp.dense_h_to_4h.weight", block("mlp.in.weight"));
    list.Whole(at + "mlp.dense_h_to_4h.bias", block("mlp.in.bias"));
    list.Whole(at + "mlp.dense_4h_to_h.weight", block("mlp.out.weight"));
    list.Whole(at + "mlp.dense_4h_to_h.bias", block("mlp.out.bias"));
  }
  const HeadParameters head = PlacesOfHead(table);
  list.Whole(prefix + "ln_f.weight", head.norm_gain);
  list.Whole(prefix + "ln_f.bias", head.norm_bias);
}

void ListLlama(const ParameterTable& table, Lister& list) {
  list.Whole("model.embed_tokens.weight", PlacesOfEmbedding(table).token);
  for (std::int64_t layer = 0; layer < table.config().layers; ++layer) {
    const auto block = [&](std::string_view name) { return table.InBlock(layer, name); };
    const std::string at = fmt::format("model.layers.{}.", layer);
    const std::string attention = at + "self_attn.";
    list.Segments({attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"},
                  block("attention.qkv.weight"));
    list.Whole(attention + "o_proj.weight", block("attention.out.weight"));
    list.Segments({at + "mlp.gate_proj.weight", at + "mlp.up_proj.weight"}, block("mlp.in.weight"));
    list.Whole(at + "mlp.down_proj.weight", block("mlp.out.weight"));
    list.Whole(at + "input_layernorm.weight", block("attention.norm.gain"));
    list.Whole(at + "post_attention_layernorm.weight", block("mlp.norm.gain"));
  }
  list.Whole("model.norm.weight", PlacesOfHead(table).norm_gain);
}

// Calls use(theirs, ours, length) for each stretch of elements that both sides keep together.
template <typename Use>
void Walk(const ModelConfig& model, const HuggingFaceTensor& about, Use use) {
  const std::int64_t columns = about.shape.size() == 2 ? about.shape[1] : 1;
  if (about.order == TensorOrder::kRows) {
    use(0, about.first_row * columns, about.count());
  } else if (about.order == TensorOrder::kTransposed) {
    const std::int64_t inputs = about.shape[0];
    for (std::int64_t input = 0; input < inputs; ++input) {
      for (std::int64_t output = 0; output < columns; ++output) {
        use(input * columns + output, output * inputs + input, 1);
      }
    }
  } else {
    const std::int64_t size = model.head_size();
    for (std::int64_t head = 0; head < model.heads; ++head) {
      for (std::int64_t which = 0; which < 3; ++which) {
        use((head * 3 + which) * size * columns, (which * model.heads + head) * size * columns, size * columns);
      }
    }
  }
}

}  // namespace

std::int64_t HuggingFaceTensor::count() const { return shape.size() == 2 ? shape[0] * shape[1] : shape[0]; }

std::vector<HuggingFaceTensor> HuggingFaceTensors(const ParameterTable& table) {
  const ModelConfig& model = table.config();
  Lister list(table);
  if (model.family == "gpt2") {
    ListGpt2(table, list);
  } else if (model.family == "bloom") {
    Require(model.kv_heads == model.heads, "model.kv_heads = {}: BLOOM has as many as heads, {}", model.kv_heads,
            model.heads);
    ListBloom(table, list);
  } else {
    Require(model.family == "llama", "the family '{}' has no Hugging Face form here", model.family);
    ListLlama(table, list);
  }
  if (!model.tie_embeddings) {
    list.Whole("lm_head.weight", PlacesOfHead(table).weight);
  }
  return list.Take();
}

void ToHuggingFace(const ModelConfig& model, const HuggingFaceTensor& about, std::span<const float> parameter,
                   std::span<float> tensor) {
  Walk(model, about, [&](std::int64_t theirs, std::int64_t ours, std::int64_t length) {
    std::copy_n(parameter.data() + ours, length, tensor.data() + theirs);
  });
}

void FromHuggingFace(const ModelConfig& model, const HuggingFaceTensor& about, std::span<const float> tensor,
                     std::span<float> parameter) {
  Walk(model, about, [&](std::int64_t theirs, std::int64_t ours, std::int64_t length) {
    std::copy_n(tensor.data() + theirs, length, parameter.data() + ours);
  });
}

}  // namespace trireme
