#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/gguf/gguf.h"
#include "checkpoint/gguf/gguf_model.h"
#include "checkpoint/gguf/gguf_tokenizer.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/read/merged_weights.h"
#include "checkpoint/read/weight_source.h"
#include "checkpoint/tools/tokenizer_places.h"
#include "data/tokenizer/tokenizer_folder.h"

namespace trireme {
namespace {

// As LoadTokenizer takes it; empty when there is none. A vocabulary of 256 is that of bytes.
std::string TokenizerOf(const std::string& path, const ModelConfig& model, const std::string& wanted) {
  if (!wanted.empty()) {
    return wanted;
  }
  if (model.vocabulary == 256) {
    return "bytes";
  }
  if (IsHuggingFace(path)) {
    return FindTokenizer(path);
  }
  const std::string folder = ResolveCheckpoint(path);
  return FindTokenizerOf({.path = path, .checkpoint = folder, .state = ReadManifest(folder).state});
}

// llama.cpp looks for "phi-3" in the name: special tokens then take the spaces after them, as Phi-3's do, and a
// tokenizer that lacks Phi-3's tokens is not loaded.
std::string NameFor(const std::string& name, const GgufArchitecture& architecture,
                    const std::optional<TokenTable>& table) {
  const auto has = [&](const char* text) {
    return table.has_value() && std::any_of(table->tokens.begin(), table->tokens.end(),
                                            [&](const TableToken& token) { return token.text == text; });
  };
  const bool phi = architecture.named_phi && has("</s>") && has("<unk>") && has("<s>") && has("<|endoftext|>");
  const std::string other = std::regex_replace(name, std::regex("phi-?3", std::regex::icase), "phi_3");
  return phi ? "phi-3 " + other : other;
}

class GgufExport {
 public:
  GgufExport(const WeightSource& source, const GgufOptions& options)
      : source_(source),
        table_(source.model()),
        architecture_(GgufArchitectureOf(source.model())),
        type_(ParseGgufType(options.type)),
        tensors_(GgufTensors(table_, architecture_)),
        divisors_(GgufRotaryDivisors(source.model())) {}

  const GgufArchitecture& architecture() const { return architecture_; }
  std::size_t tensors() const { return tensors_.size() + divisors_.size(); }

  // Returns remarks for the report.
  std::string Describe(const std::string& name, const std::string& tokenizer, GgufHeader& header) const {
    const ModelConfig& model = table_.config();
    header.Text("general.architecture", architecture_.name);
    const std::optional<TokenTable> table =
        tokenizer.empty() ? std::nullopt : std::optional<TokenTable>(ReadTokenTable(tokenizer, model.vocabulary));
    header.Text("general.name", NameFor(name, architecture_, table));
    header.Count("general.file_type", GgufFileType(type_));
    header.Count("general.quantization_version", 2);
    AddGgufShape(model, architecture_, header);
    std::string remarks;
    if (GgufContext(model, architecture_) < model.sequence) {
      remarks += fmt::format("; {} positions of {}, since llama.cpp has no window in '{}'",
                             GgufContext(model, architecture_), model.sequence, architecture_.name);
    }
    if (!table.has_value()) {
      AddNoGgufTokenizer(header);
      remarks += "; no tokenizer was found to go with it";
    } else {
      remarks += fmt::format("; tokenizer of '{}'", tokenizer);
      remarks += AddGgufTokenizer(*table, model.vocabulary, header);
    }
    for (const GgufDivisors& one : divisors_) {
      header.Tensor(one.name, {static_cast<std::int64_t>(one.values.size())}, GgufType::kF32);
    }
    for (const GgufTensor& tensor : tensors_) {
      header.Tensor(tensor.name, tensor.shape, tensor.TypeIn(type_));
    }
    return remarks;
  }

  void Write(const GgufHeader& header, DurableFile& file) const {
    file.Append(header.Format());
    for (const GgufDivisors& one : divisors_) {
      Append(EncodeGguf(GgufType::kF32, one.values), file);
    }
    for (const GgufTensor& tensor : tensors_) {
      const Parameter& parameter = table_.rows()[static_cast<std::size_t>(tensor.row)];
      std::vector<float> whole(static_cast<std::size_t>(parameter.shape.count()));
      const SliceRun run{.count = parameter.shape.count()};
      source_.Read(parameter, {&run, 1}, whole.data());
      Append(EncodeGguf(tensor.TypeIn(type_), GgufValues(tensor, whole)), file);
    }
  }

 private:
  static void Append(std::vector<std::byte> bytes, DurableFile& file) {
    bytes.resize(static_cast<std::size_t>(RoundUp(static_cast<std::int64_t>(bytes.size()), kGgufAlignment)));
    file.Append(bytes);
  }

  const WeightSource& source_;
  ParameterTable table_;
  const GgufArchitecture& architecture_;
  GgufType type_;
  std::vector<GgufTensor> tensors_;
  std::vector<GgufDivisors> divisors_;
};

}  // namespace

Report ExportGguf(const std::string& path, const std::string& file, const GgufOptions& options) {
  const std::unique_ptr<WeightSource> source = OpenWithoutAdapters(path, options.merge);
  const GgufExport gguf(*source, options);
  const std::string tokenizer = TokenizerOf(path, source->model(), options.tokenizer);
  GgufHeader header;
  const std::string remarks = gguf.Describe(std::filesystem::path(file).stem().string(), tokenizer, header);
  Require(!std::filesystem::exists(file), "'{}' exists already", file);
  const std::string folder = MakeTemporaryFolder(file);
  try {
    const std::string unfinished = folder + "/model.gguf";
    DurableFile out(unfinished);
    gguf.Write(header, out);
    out.Close();
    MoveToFreeName(unfinished, file);
    RemoveTree(folder);
  } catch (...) {
    RemoveTree(folder);
    throw;
  }
  const nlohmann::json root = {{"from", path},           {"to", file},
                               {"format", "gguf"},       {"architecture", gguf.architecture().name},
                               {"type", options.type},   {"tensors", gguf.tensors()},
                               {"tokenizer", tokenizer}, {"bytes", std::filesystem::file_size(file)}};
  return {.status = 0,
          .text = fmt::format("{} -> {}: GGUF of the architecture '{}', {} tensors, {}{}\n", path, file,
                              gguf.architecture().name, gguf.tensors(), options.type, remarks),
          .json = JsonText(root, {.indent = 1})};
}

}  // namespace trireme
