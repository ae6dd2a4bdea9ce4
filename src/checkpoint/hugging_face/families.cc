#include "checkpoint/hugging_face/families.h"

#include "base/error.h"

namespace trireme {
namespace {

std::vector<HuggingFaceFamily> AllFamilies() {
  std::vector<HuggingFaceFamily> families = {HuggingFaceGpt2(), HuggingFaceBloom(), HuggingFaceGptNeoX(),
                                             HuggingFaceOpt(), HuggingFaceMpt()};
  for (const auto& several : {HuggingFaceLlamaLike, HuggingFaceLlamaVariants, HuggingFaceExperts}) {
    for (HuggingFaceFamily& family : several()) {
      families.push_back(std::move(family));
    }
  }
  return families;
}

}  // namespace

const std::vector<HuggingFaceFamily>& HuggingFaceFamilies() {
  static const std::vector<HuggingFaceFamily> families = AllFamilies();
  return families;
}

const HuggingFaceFamily& HuggingFaceFamilyOf(const ModelConfig& model) {
  for (const HuggingFaceFamily& family : HuggingFaceFamilies()) {
    if (family.family == model.family && family.experts == model.experts.any()) {
      return family;
    }
  }
  Fail("the family '{}' {} experts has no Hugging Face form here", model.family,
       model.experts.any() ? "with" : "without");
}

const HuggingFaceFamily& HuggingFaceFamilyOf(const std::string& model_type, const std::string& origin) {
  std::string known;
  for (const HuggingFaceFamily& family : HuggingFaceFamilies()) {
    if (family.model_type == model_type) {
      return family;
    }
    known += (known.empty() ? "" : ", ") + family.model_type;
  }
  Fail("'{}': model_type '{}' is not one of {}", origin, model_type, known);
}

}  // namespace trireme
