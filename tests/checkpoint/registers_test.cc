// Families are registered in three places, for a reason each: what a model computes, what its Hugging Face form is
// called, and what llama.cpp calls it. Here the three are held to each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/gguf/gguf_model.h"
#include "checkpoint/hugging_face/families.h"
#include "family_features.h"

namespace trireme {
namespace {

// With experts a family's form is another one; OLMoE has no other.
TEST(Registers, EveryFamilyHasOneHuggingFaceForm) {
  std::vector<std::string> names;
  std::vector<std::string> with_experts;
  for (const HuggingFaceFamily& family : HuggingFaceFamilies()) {
    (family.experts ? with_experts : names).push_back(family.family);
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(FamilyNames({"olmoe"})));
  EXPECT_THAT(with_experts, testing::UnorderedElementsAre("granite", "mistral", "olmoe", "qwen2", "qwen3"));
}

// llama.cpp does not run OPT; models with experts, and with layers and multipliers of their own, are not written for
// it.
TEST(Registers, EveryOtherFamilyHasOneGgufArchitecture) {
  std::vector<std::string> names;
  for (const GgufArchitecture& architecture : GgufArchitectures()) {
    names.emplace_back(architecture.family);
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(FamilyNames({"opt", "olmoe", "smollm3", "olmo3", "granite"})));
}

}  // namespace
}  // namespace trireme
