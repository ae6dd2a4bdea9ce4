// Block programs as text: every family with every mode of recomputation, some families with every other choice. The
// product of all choices is too long to read, so that a number stands for its text.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>

#include "golden/cases.h"
#include "golden/golden.h"
#include "lowering/program_text.h"

namespace trireme::golden {
namespace {

struct ProgramCase {
  std::string family;
  NamedLayout layout;
  Recompute recompute = Recompute::kNone;
  DType dtype = DType::kFloat32;
  bool split = false;
  double dropout = 0;
  bool plain_attention = false;
  std::int64_t adapter_rank = 0;
  bool kept_weight_copies = false;  // of fp8
  ProgramPurpose purpose = ProgramPurpose::kTraining;
};

ModelConfig ModelOf(const ProgramCase& one) {
  ModelConfig model = SmallModel(one.family);
  model.dropout = one.dropout;
  model.attention_dropout = one.plain_attention ? one.dropout : 0;
  model.adapter.rank = one.adapter_rank;
  model.adapter.alpha = static_cast<double>(3 * one.adapter_rank);
  return model;
}

std::string TextOf(const ProgramCase& one) {
  const ModelConfig model = ModelOf(one);
  ParallelLayout layout = one.layout.layout;
  layout.recompute = one.recompute;
  LocalSizes sizes(model, layout, one.dtype, one.split, one.plain_attention);
  sizes.float8_weights = one.kept_weight_copies;
  const BlockDescription block = DescribeBlock(model, false);
  ModuleProgram program = LowerBlock(block, sizes, one.purpose);
  PlaceBuffers(program);
  return ToText(program, block);
}

// Sections with equal text become one, which has all their headings.
class Sections {
 public:
  void Add(const std::string& heading, const std::string& text) {
    const auto [found, is_new] = number_.emplace(text, sections_.size());
    if (is_new) {
      sections_.push_back({"# ", text});
    }
    std::string& headings = sections_[found->second].first;
    headings += (is_new ? "" : "; ") + heading;
  }
  std::string Text() const {
    std::string all;
    for (const auto& [headings, text] : sections_) {
      all += headings + "\n" + text + "\n";
    }
    return all;
  }

 private:
  std::vector<std::pair<std::string, std::string>> sections_;
  std::map<std::string, std::size_t> number_;
};

TEST(GoldenPrograms, OfEveryFamilyAndRecomputation) {
  Sections sections;
  for (const ModelFamily& family : DenseFamilies()) {
    for (const Recompute recompute : kRecomputes) {
      sections.Add(fmt::format("{} {}", family.name, Name(recompute)),
                   TextOf({.family = family.name, .layout = BlockLayouts()[0], .recompute = recompute}));
    }
  }
  ExpectGolden("programs.txt", sections.Text());
}

TEST(GoldenPrograms, OfEveryLayoutAndPrecision) {
  Sections sections;
  const NamedLayout one_rank = BlockLayouts()[0];
  const NamedLayout sequence_parallel = BlockLayouts()[2];
  for (const NamedLayout& layout : BlockLayouts()) {
    if (layout.name != one_rank.name && layout.name != "tp2") {
      sections.Add("qwen3 " + layout.name, TextOf({.family = "qwen3", .layout = layout}));
    }
  }
  const std::vector<std::pair<std::string, ProgramCase>> others = {
      {"olmo2 tp2 sp full", {.family = "olmo2", .layout = sequence_parallel, .recompute = Recompute::kFull}},
      {"gpt2 tp2 sp split dropout selective",
       {.family = "gpt2",
        .layout = sequence_parallel,
        .recompute = Recompute::kSelective,
        .split = true,
        .dropout = 0.1}},
      {"llama split light", {.family = "llama", .layout = one_rank, .recompute = Recompute::kLight, .split = true}},
      {"gpt2 e4m3", {.family = "gpt2", .layout = one_rank, .dtype = DType::kFloat8E4M3}},
      {"llama e4m3 tp2 sp selective, weight copies kept",
       {.family = "llama",
        .layout = sequence_parallel,
        .recompute = Recompute::kSelective,
        .dtype = DType::kFloat8E4M3,
        .kept_weight_copies = true}},
      {"gemma2 bf16 inference",
       {.family = "gemma2", .layout = one_rank, .dtype = DType::kBFloat16, .purpose = ProgramPurpose::kInference}},
      {"bloom fp16 plain attention dropout",
       {.family = "bloom", .layout = one_rank, .dtype = DType::kFloat16, .dropout = 0.1, .plain_attention = true}},
      {"llama lora 4", {.family = "llama", .layout = one_rank, .adapter_rank = 4}},
  };
  for (const auto& [name, one] : others) {
    sections.Add(name, TextOf(one));
  }
  ExpectGolden("program_choices.txt", sections.Text());
}

// FNV-1a.
void Digest(const std::string& text, std::uint64_t& digest) {
  for (const char letter : text) {
    digest = (digest ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
}

void DigestChoices(ProgramCase one, std::uint64_t& digest) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat8E4M3}) {
    for (const bool split : {false, true}) {
      for (const double dropout : {0.0, 0.1}) {
        one.dtype = dtype;
        one.split = split;
        one.dropout = dropout;
        Digest(TextOf(one), digest);
        one.plain_attention = one.layout.layout.context == 1;
        one.adapter_rank = 4;
        Digest(TextOf(one), digest);
        one.plain_attention = false;
        one.adapter_rank = 0;
      }
    }
  }
}

TEST(GoldenPrograms, OfTheProductOfChoices) {
  std::string text = "# Digests of programs' text over dtype, split backward, dropout, adapters and plain attention.\n";
  for (const ModelFamily& family : DenseFamilies()) {
    for (const NamedLayout& layout : BlockLayouts()) {
      text += fmt::format("{} {}:", family.name, layout.name);
      for (const Recompute recompute : kRecomputes) {
        std::uint64_t digest = 0xcbf29ce484222325;
        DigestChoices({.family = family.name, .layout = layout, .recompute = recompute}, digest);
        text += fmt::format(" {:08x}", digest >> 32);
      }
      text += "\n";
    }
  }
  ExpectGolden("program_digests.txt", text);
}

}  // namespace
}  // namespace trireme::golden
