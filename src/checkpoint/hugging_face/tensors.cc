#include "checkpoint/hugging_face/tensors.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "checkpoint/hugging_face/families.h"

namespace trireme {
namespace {

// Calls use(theirs, ours, length) for each stretch of elements that both sides keep together.
template <typename Use>
void Walk(const ModelConfig& model, const HuggingFaceTensor& about, Use use) {
  const std::int64_t columns = about.columns();
  switch (about.order) {
    case TensorOrder::kRows:
      use(0, about.first_row * columns, about.count());
      break;
    case TensorOrder::kTransposed: {
      const std::int64_t inputs = about.shape[0];
      for (std::int64_t input = 0; input < inputs; ++input) {
        for (std::int64_t output = 0; output < columns; ++output) {
          use(input * columns + output, output * inputs + input, 1);
        }
      }
      break;
    }
    case TensorOrder::kInterleaved: {
      const std::int64_t size = model.head_size();
      for (std::int64_t head = 0; head < model.heads; ++head) {
        for (std::int64_t which = 0; which < 3; ++which) {
          use((head * 3 + which) * size * columns, (which * model.heads + head) * size * columns, size * columns);
        }
      }
      break;
    }
  }
}

}  // namespace

std::int64_t HuggingFaceTensor::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<HuggingFaceTensor> HuggingFaceTensors(const ParameterTable& table, ExpertTensors experts) {
  const ModelConfig& model = table.config();
  const HuggingFaceFamily& family = HuggingFaceFamilyOf(model);
  TensorList list(table, experts);
  family.list(table, list);
  if (!model.tie_embeddings) {
    list.Whole(family.output, table.Find("head.weight"));
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
