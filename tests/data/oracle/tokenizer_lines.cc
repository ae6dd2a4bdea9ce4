// Our side of the comparison with Hugging Face's tokenizers (see run): encodes length-prefixed records, or trains.
//   tokenizer_lines encode TOKENIZER RECORDS OUT   per record: count, ids, size, decoded bytes
//   tokenizer_lines exact TOKENIZER RECORDS        every record must decode to its own bytes
//   tokenizer_lines train PATTERN VOCABULARY TEXT OUT
//   tokenizer_lines prepare TOKENIZER INPUT PREFIX  makes an indexed dataset
//   tokenizer_lines chat TOKENIZER CONVERSATIONS    each without and with the beginning of an answer; null: refused
//   tokenizer_lines dump PREFIX                     a line a document, sequences separated by '|'
#include <fmt/core.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_text.h"
#include "data/chat/chat_template.h"
#include "data/dataset/indexed_dataset.h"
#include "data/prepare/prepare.h"
#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {
namespace {

std::vector<std::string> ReadRecords(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> records;
  for (std::size_t at = 0; at + 4 <= bytes.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, bytes.data() + at, 4);
    Require(length <= bytes.size() - at - 4, "'{}' is cut", path);
    records.push_back(bytes.substr(at + 4, length));
    at += 4 + length;
  }
  Require(!records.empty(), "'{}' has no records", path);
  return records;
}

void Put(std::ofstream& file, const void* data, std::size_t bytes) {
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

void Encode(const std::string& tokenizer_path, const std::string& records, const std::string& out) {
  const auto tokenizer = LoadTokenizer(tokenizer_path, {.replace_ill_formed = true});
  std::ofstream file(out, std::ios::binary);
  for (const std::string& record : ReadRecords(records)) {
    const auto ids = tokenizer->Encode(record);
    const std::string text = tokenizer->Decode(ids);
    const auto count = static_cast<std::uint32_t>(ids.size());
    const auto size = static_cast<std::uint32_t>(text.size());
    Put(file, &count, 4);
    Put(file, ids.data(), ids.size() * 4);
    Put(file, &size, 4);
    Put(file, text.data(), text.size());
  }
}

void Exact(const std::string& tokenizer_path, const std::string& records) {
  const auto tokenizer = LoadTokenizer(tokenizer_path);
  std::int64_t number = 0;
  for (const std::string& record : ReadRecords(records)) {
    Require(tokenizer->Decode(tokenizer->Encode(record)) == record, "record {} does not decode to itself", number);
    ++number;
  }
  fmt::print("{} records decode to themselves, byte for byte\n", number);
}

void Dump(const std::string& prefix) {
  const IndexedDataset dataset(prefix);
  std::vector<std::int32_t> tokens;
  for (std::int64_t document = 0; document < dataset.documents(); ++document) {
    const std::int64_t end = dataset.DocumentSequence(document + 1);
    std::string line;
    for (std::int64_t sequence = dataset.DocumentSequence(document); sequence < end; ++sequence) {
      tokens.resize(static_cast<std::size_t>(dataset.SequenceLength(sequence)));
      dataset.Read(dataset.SequenceStart(sequence), tokens);
      for (const std::int32_t token : tokens) {
        line += fmt::format("{} ", token);
      }
      line += "|";
    }
    fmt::print("{}\n", line);
  }
}

void Chat(const std::string& tokenizer, const std::string& path) {
  std::ifstream file(path);
  const ChatTemplate chat = ChatTemplate::Load(tokenizer);
  nlohmann::json texts = nlohmann::json::array();
  for (const auto& messages : nlohmann::ordered_json::parse(file)) {
    for (const bool prompt : {false, true}) {
      try {
        texts.push_back(chat.Render(messages, prompt).text);
      } catch (const Error& error) {
        Require(std::string(error.what()).find("refuses the conversation") != std::string::npos, "{}", error.what());
        texts.push_back(nullptr);
      }
    }
  }
  fmt::print("{}\n", JsonText(texts));
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.size() == 4 && arguments[0] == "encode") {
    Encode(arguments[1], arguments[2], arguments[3]);
  } else if (arguments.size() == 3 && arguments[0] == "exact") {
    Exact(arguments[1], arguments[2]);
  } else if (arguments.size() == 5 && arguments[0] == "train") {
    TrainTokenizer({.inputs = {arguments[3]},
                    .output = arguments[4],
                    .training = {.vocabulary = std::stoll(arguments[2]),
                                 .pattern = PatternByName(arguments[1]),
                                 .special_tokens = {"<unk>", "<s>", "</s>", "<pad>"}}});
  } else if (arguments.size() == 4 && arguments[0] == "prepare") {
    PrepareDataset({.inputs = {arguments[2]}, .output = arguments[3], .tokenizer = arguments[1], .overwrite = true});
  } else if (arguments.size() == 3 && arguments[0] == "chat") {
    Chat(arguments[1], arguments[2]);
  } else if (arguments.size() == 2 && arguments[0] == "dump") {
    Dump(arguments[1]);
  } else {
    fmt::print("usage: see the head of tokenizer_lines.cc\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    return trireme::Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "tokenizer_lines: {}\n", error.what());
    return 1;
  }
}
