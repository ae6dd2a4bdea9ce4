// Prints the table of docs/reference/families.md: each model of the fixture, this program's largest difference from
// transformers, whether greedy tokens are the same, and whether files come back byte for byte. `families_table DIR`
// writes the models to DIR/NAME instead, for programs that read Hugging Face's files.
#include <fmt/format.h>

#include <cstdio>

#include "checkpoint/hugging_face/hugging_face.h"
#include "infer/model_files.h"
#include "oracle/family_fixture.h"
#include "scratch_directory.h"

namespace trireme::oracle {
namespace {

std::string RowOf(const std::string& name) {
  const nlohmann::json& model = Models().at(name);
  const ScratchDirectory folder;
  const Tensors values = ValuesOf(model);
  WriteDirectory(folder / "theirs", model, values, model.at("config").get<std::string>());
  const TokenList tokens = model.at("tokens").get<TokenList>();
  const TokenList greedy = model.at("greedy").get<TokenList>();
  const double one = DifferenceFrom(model, LogitsOf(folder / "theirs", tokens, 1));
  const ModelConfig config = OpenModelFiles(folder / "theirs").model;
  const bool even = config.kv_heads % 2 == 0;
  const auto difference = [&](bool compared, const auto& logits) {
    return compared ? fmt::format("{:.1e}", DifferenceFrom(model, logits())) : "–";
  };
  const std::string two = difference(even, [&] { return LogitsOf(folder / "theirs", tokens, 2); });
  const std::string staged = difference(even, [&] { return StagedLogitsOf(folder / "theirs", tokens); });
  const bool same_tokens = GreedyTokens(folder / "theirs", tokens, static_cast<std::int64_t>(greedy.size())) == greedy;
  ImportHuggingFace(folder / "theirs", folder / "ours");
  ExportHuggingFace(folder / "ours", folder / "back");
  const bool same_bytes =
      ReadBytes(folder / "theirs/config.json") == ReadBytes(folder / "back/config.json") &&
      ReadBytes(folder / "theirs/model.safetensors") == ReadBytes(folder / "back/model.safetensors");
  return fmt::format("| {} | `{}` | {:.1e} | {} | {} | {} | {} |\n", name, config.family, one, two, staged,
                     same_tokens ? "yes" : "NO", same_bytes ? "yes" : "NO");
}

void WriteModels(const std::string& directory) {
  for (const std::string& name : ModelNames()) {
    const nlohmann::json& model = Models().at(name);
    WriteDirectory(directory + "/" + name, model, ValuesOf(model), model.at("config").get<std::string>());
  }
}

}  // namespace
}  // namespace trireme::oracle

int main(int count, char** arguments) {
  if (count == 2 && arguments[1][0] != '-') {
    trireme::oracle::WriteModels(arguments[1]);
    return 0;
  }
  std::fputs(
      "| model | family | logits, 1 rank | 2 tensor ranks | 2 tensor x 2 pipeline ranks | greedy tokens equal | files "
      "byte-equal |\n"
      "|---|---|---|---|---|---|---|\n",
      stdout);
  for (const std::string& name : trireme::oracle::ModelNames()) {
    std::fputs(trireme::oracle::RowOf(name).c_str(), stdout);
  }
  return 0;
}
