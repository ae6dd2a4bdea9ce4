#include "data/tokenizer/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/json_text.h"
#include "data/files/json_file.h"
#include "data/tokenizer/tokenizer_config.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

std::int32_t ReadId(const Json& value, const std::string& origin) {
  Require(value.is_number_integer() && value >= 0 && value <= std::numeric_limits<std::int32_t>::max(),
          "'{}' has the token id {}, which is not a small whole number", origin, JsonText(value));
  return value.get<std::int32_t>();
}

// The field, or null where it is absent or null.
const Json& Field(const Json& object, const char* name) {
  static const Json kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

bool Flag(const Json& object, const char* name, bool otherwise) {
  const Json& value = Field(object, name);
  return value.is_null() ? otherwise : value.get<bool>();
}

// How SentencePiece writes a space.
constexpr const char* kMarkedSpace = "\u2581";
bool IsSpacePattern(const Json& pattern) { return pattern.contains("String") && pattern.at("String") == " "; }

std::string Kind(const Json& object) { return object.at("type").get<std::string>(); }

void ReadModel(const Json& model, BpeDescription& description) {
  const std::string& origin = description.origin;
  const std::string kind = model.value("type", "BPE");
  Require(kind == "BPE", "the model of '{}' is {}; only BPE is read from tokenizer.json", origin, kind);
  if (Flag(model, "byte_fallback", false)) {
    description.characters = {.fuse_unknown = Flag(model, "fuse_unk", false),
                              .ignore_merges = Flag(model, "ignore_merges", false)};
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& value = Field(model, affix);
    Require(value.is_null() || value.get<std::string>().empty(), "'{}' has a {}, which byte-level BPE has not", origin,
            affix);
  }
  Require(Field(model, "dropout").is_null() || Field(model, "dropout") == 0.0,
          "'{}' asks for BPE dropout, which would make data depend on chance", origin);
  description.vocabulary.ignore_merges = Flag(model, "ignore_merges", false);
  const Json& unknown = Field(model, "unk_token");
  description.vocabulary.unknown_token = unknown.is_null() ? "" : unknown.get<std::string>();
  for (const auto& [text, id] : model.at("vocab").items()) {
    description.vocabulary.tokens.emplace_back(text, ReadId(id, origin));
  }
  for (const Json& merge : model.at("merges")) {
    if (merge.is_array()) {
      Require(merge.size() == 2, "'{}' has the merge {}, not a pair", origin, JsonText(merge));
      description.vocabulary.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const auto text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    Require(space != std::string::npos && text.find(' ', space + 1) == std::string::npos,
            "'{}' has the merge '{}', not two tokens with a space between", origin, text);
    description.vocabulary.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
}

void ReadNormalizer(const Json& normalizer, BpeDescription& description) {
  if (normalizer.is_null()) {
    return;
  }
  const std::string kind = Kind(normalizer);
  if (kind == "Sequence") {
    for (const Json& part : normalizer.at("normalizers")) {
      ReadNormalizer(part, description);
    }
  } else if (kind == "NFC") {
    description.normal_forms.push_back(NormalForm::kNfc);
  } else if (kind == "NFD") {
    description.normal_forms.push_back(NormalForm::kNfd);
  } else if (kind == "NFKC") {
    description.normal_forms.push_back(NormalForm::kNfkc);
  } else if (kind == "NFKD") {
    description.normal_forms.push_back(NormalForm::kNfkd);
  } else if (description.characters.has_value() && kind == "Prepend" && normalizer.at("prepend") == kMarkedSpace) {
    description.characters->prepend = CharacterRules::Prepend::kAlways;
  } else if (description.characters.has_value() && kind == "Replace" && IsSpacePattern(normalizer.at("pattern")) &&
             normalizer.at("content") == kMarkedSpace) {
    // What a BPE of characters does always.
  } else {
    Fail(
        "'{}' has the normaliser {}; known are NFC, NFD, NFKC, NFKD, sequences of them, and those of SentencePiece's "
        "spaces",
        description.origin, kind);
  }
}

// The pre-tokenizer of a BPE of characters: none, a cut at spaces that the normaliser has replaced already, or
// Metaspace.
void ReadCharacterPreTokenizer(const Json& pre_tokenizer, BpeDescription& description) {
  if (pre_tokenizer.is_null()) {
    return;
  }
  const std::string kind = Kind(pre_tokenizer);
  if (kind == "Split" && IsSpacePattern(pre_tokenizer.at("pattern"))) {
    return;
  }
  Require(kind == "Metaspace" && pre_tokenizer.value("replacement", "") == kMarkedSpace,
          "the pre-tokenizer of '{}' is {}; known with byte_fallback are none, Split at spaces and Metaspace",
          description.origin, JsonText(pre_tokenizer));
  CharacterRules& rules = *description.characters;
  const std::string scheme =
      pre_tokenizer.value("prepend_scheme", Flag(pre_tokenizer, "add_prefix_space", true) ? "always" : "never");
  Require(scheme == "always" || scheme == "first" || scheme == "never", "'{}' has the prepend_scheme '{}'",
          description.origin, scheme);
  rules.prepend = scheme == "always"  ? CharacterRules::Prepend::kUnlessThere
                  : scheme == "first" ? CharacterRules::Prepend::kFirst
                                      : CharacterRules::Prepend::kNever;
  rules.cuts_words = Flag(pre_tokenizer, "split", true);
  rules.spaces_last = true;
}

// Whether decoding drops the space that was put before the text.
bool DropsSpace(const Json& decoder) {
  if (decoder.is_null()) {
    return false;
  }
  const std::string kind = Kind(decoder);
  if (kind == "Sequence") {
    const Json& steps = decoder.at("decoders");
    return std::any_of(steps.begin(), steps.end(), DropsSpace);
  }
  return (kind == "Strip" && decoder.value("start", 0) == 1) ||
         (kind == "Metaspace" && decoder.value("prepend_scheme", "always") != "never");
}

// A ByteLevel step, alone or after one Split.
void ReadPreTokenizer(const Json& pre_tokenizer, BpeDescription& description) {
  const std::string& origin = description.origin;
  Require(pre_tokenizer.is_object(), "'{}' has no pre-tokenizer: it is not a byte-level BPE", origin);
  std::vector<Json> steps = {pre_tokenizer};
  if (Kind(pre_tokenizer) == "Sequence") {
    steps = pre_tokenizer.at("pretokenizers").get<std::vector<Json>>();
  }
  Require(!steps.empty() && steps.size() <= 2 && Kind(steps.back()) == "ByteLevel",
          "the pre-tokenizer of '{}' is not ByteLevel, alone or after one Split", origin);
  const Json& byte_level = steps.back();
  description.add_prefix_space = Flag(byte_level, "add_prefix_space", true);
  const bool split_again = Flag(byte_level, "use_regex", true);
  if (steps.size() == 1) {
    description.pattern = split_again ? SplitPattern::kGpt2 : SplitPattern::kNone;
    return;
  }
  const Json& split = steps.front();
  Require(Kind(split) == "Split" && split.at("behavior") == "Isolated" && !Flag(split, "invert", false),
          "the pre-tokenizer of '{}' starts with {}; known is Split with behavior Isolated", origin, JsonText(split));
  Require(!split_again && !description.add_prefix_space,
          "'{}' splits by its own pattern and by ByteLevel's: that combination is not known", origin);
  Require(split.at("pattern").contains("Regex"), "'{}' splits by {}, not by a regular expression", origin,
          JsonText(split.at("pattern")));
  description.pattern = ParsePattern(split.at("pattern").at("Regex").get<std::string>());
}

void ReadAddedTokens(const Json& tokens, BpeDescription& description) {
  if (tokens.is_null()) {
    return;
  }
  for (const Json& token : tokens) {
    const bool special = Flag(token, "special", false);
    description.added_tokens.push_back({.id = ReadId(token.at("id"), description.origin),
                                        .content = token.at("content").get<std::string>(),
                                        .single_word = Flag(token, "single_word", false),
                                        .strip_left = Flag(token, "lstrip", false),
                                        .strip_right = Flag(token, "rstrip", false),
                                        .normalized = Flag(token, "normalized", !special),
                                        .special = special});
  }
}

// Ids that a TemplateProcessing puts around a single text.
void ReadTemplate(const Json& processor, BpeDescription& description) {
  if (processor.is_null()) {
    return;
  }
  const std::string kind = Kind(processor);
  if (kind == "Sequence") {
    for (const Json& part : processor.at("processors")) {
      ReadTemplate(part, description);
    }
    return;
  }
  if (kind != "TemplateProcessing") {
    return;
  }
  bool after_text = false;
  for (const Json& item : processor.at("single")) {
    if (item.contains("Sequence")) {
      after_text = true;
      continue;
    }
    const auto name = item.at("SpecialToken").at("id").get<std::string>();
    for (const Json& id : processor.at("special_tokens").at(name).at("ids")) {
      (after_text ? description.suffix : description.prefix).push_back(ReadId(id, description.origin));
    }
  }
}

// "eos_token" of tokenizer_config.json is a string or an object with its content.
std::string ReadEndOfText(const std::filesystem::path& directory) {
  const auto path = directory / "tokenizer_config.json";
  if (!std::filesystem::exists(path)) {
    return "";
  }
  const Json config = ReadHostileJson(path.string(), kMostTokenizerBytes);
  const Json& token = Field(config, "eos_token");
  if (token.is_object()) {
    return token.at("content").get<std::string>();
  }
  return token.is_null() ? "" : token.get<std::string>();
}

using Ordered = nlohmann::ordered_json;

Ordered AddedTokensJson(const BpeDescription& description) {
  Ordered added = Ordered::array();
  for (const AddedToken& token : description.added_tokens) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", token.single_word},
                     {"lstrip", token.strip_left},
                     {"rstrip", token.strip_right},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  }
  return added;
}

Ordered PreTokenizerJson(SplitPattern pattern) {
  const bool own_pattern = pattern != SplitPattern::kGpt2;
  Ordered byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", !own_pattern}};
  if (!own_pattern) {
    return byte_level;
  }
  const Ordered split = {
      {"type", "Split"}, {"pattern", {{"Regex", PatternText(pattern)}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Ordered::array({split, byte_level})}};
}

Ordered ModelJson(const BytePairVocabulary& model) {
  Ordered vocabulary = Ordered::object();
  for (const auto& [text, id] : model.tokens) {
    vocabulary.get_ref<Ordered::object_t&>().emplace_back(text, id);  // operator[] would search the whole list
  }
  Ordered merges = Ordered::array();
  for (const auto& [left, right] : model.merges) {
    merges.push_back(left + " " + right);
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", model.ignore_merges},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

}  // namespace

BpeDescription ReadTokenizerJson(const std::string& path) {
  BpeDescription description{.origin = path};
  try {
    const Json json = ReadHostileJson(path, kMostTokenizerBytes);
    ReadModel(json.at("model"), description);
    ReadNormalizer(Field(json, "normalizer"), description);
    if (description.characters.has_value()) {
      ReadCharacterPreTokenizer(Field(json, "pre_tokenizer"), description);
      description.characters->strips_space = DropsSpace(Field(json, "decoder"));
    } else {
      ReadPreTokenizer(Field(json, "pre_tokenizer"), description);
    }
    ReadAddedTokens(Field(json, "added_tokens"), description);
    ReadTemplate(Field(json, "post_processor"), description);
    description.end_of_text = ReadEndOfText(std::filesystem::path(path).parent_path());
  } catch (const Json::exception& error) {
    Fail("'{}' is not the tokenizer.json of a BPE: {}", path, error.what());
  }
  return description;
}

BpeDescription ReadVocabularyAndMerges(const std::string& vocabulary_path) {
  BpeDescription description{.origin = vocabulary_path, .pattern = SplitPattern::kGpt2};
  const auto directory = std::filesystem::path(vocabulary_path).parent_path();
  const std::string merges_path = (directory / "merges.txt").string();
  try {
    const Json vocabulary = ReadHostileJson(vocabulary_path, kMostTokenizerBytes);
    for (const auto& [text, id] : vocabulary.items()) {
      description.vocabulary.tokens.emplace_back(text, ReadId(id, vocabulary_path));
      if (text == "<|endoftext|>") {
        description.added_tokens.push_back({.id = id.get<std::int32_t>(), .content = text, .special = true});
      }
    }
    description.end_of_text = ReadEndOfText(directory);
  } catch (const Json::exception& error) {
    Fail("'{}' is not a vocabulary: {}", vocabulary_path, error.what());
  }
  std::istringstream lines(ReadBoundedFile(merges_path, kMostTokenizerBytes));
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line.starts_with("#version")) {
      continue;
    }
    const std::size_t space = line.find(' ');
    Require(space != std::string::npos && line.find(' ', space + 1) == std::string::npos,
            "line {} of '{}' is '{}', not two tokens with a space between", number, merges_path, line);
    description.vocabulary.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return description;
}

std::string WriteTokenizerJson(const BpeDescription& description) {
  const Ordered decoder = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  const Ordered json = {{"version", "1.0"},
                        {"truncation", nullptr},
                        {"padding", nullptr},
                        {"added_tokens", AddedTokensJson(description)},
                        {"normalizer", nullptr},
                        {"pre_tokenizer", PreTokenizerJson(description.pattern)},
                        {"post_processor", nullptr},
                        {"decoder", decoder},
                        {"model", ModelJson(description.vocabulary)}};
  return JsonText(json, {.indent = 1, .bad_utf8 = BadUtf8::kRefuse});  // two replaced tokens could become one
}

}  // namespace trireme
