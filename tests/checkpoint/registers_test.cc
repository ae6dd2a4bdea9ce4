// Families are registered in three places, for a reason each: what a model computes, what its Hugging Face form is
// called, and what llama.cpp calls it. Here the three are held to each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/gguf/gguf_model.h"
#include "checkpoint/hugging_face/families.h"
#include "family_features.h"

namespace trireme {
namespace {

TEST(Registers, EveryFamilyHasOneHuggingFaceForm) {
  std::vector<std::string> names;
  for (const HuggingFaceFamily& family : HuggingFaceFamilies()) {
    names.push_back(family.family);
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(FamilyNames()));
}

// llama.cpp does not run OPT.
TEST(Registers, EveryFamilyButOptHasOneGgufArchitecture) {
  std::vector<std::string> names;
  for (const GgufArchitecture& architecture : GgufArchitectures()) {
    names.emplace_back(architecture.family);
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(FamilyNames({"opt"})));
}

}  // namespace
}  // namespace trireme
