// Turns a batch of text into the sequences of a dataset. A pure function: batches may be encoded by any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_template.h"
#include "data/prepare/batch_reader.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

// JSON lines that were left out, since they are not as they should be.
struct DamagedLines {
  std::int64_t count = 0;
  std::string first;  // file, line and reason of the first

  void Add(const std::string& reason) { first = count++ == 0 ? reason : first; }
  void Add(const DamagedLines& later);
};

struct EncodedBatch {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> lengths;        // of the sequences
  std::vector<std::int64_t> document_ends;  // number of sequences before each end of a document
  std::int64_t text_bytes = 0;
  DamagedLines damaged;
};

// In conversations (TextFormat::kChat) a document's sequences are in turn what the model reads and what it answers.
struct EncodeRules {
  std::string json_field = "text";
  std::optional<std::int32_t> end_of_text;  // put after each document, but for conversations
  const ChatTemplate* chat = nullptr;       // of conversations
  bool skip_damaged = false;                // leave out and count JSON lines that are otherwise an Error
};

// Documents without text are left out. `path` names the file in the Error for a line that is not as it should be.
EncodedBatch EncodeBatch(const TextBatch& batch, const std::string& path, const Tokenizer& tokenizer,
                         const EncodeRules& rules);

// Calls `use` with the text of each document (or part of one) of the batch. `damaged`: counts JSON lines that are not
// as they should be; without it they are an Error.
template <typename Use>
void ForEachText(const TextBatch& batch, const std::string& path, const std::string& json_field, const Use& use,
                 DamagedLines* damaged = nullptr);

// Whether `read` went without an Error, which is counted in `damaged` where that is given.
bool TryLine(const std::function<void()>& read, DamagedLines* damaged);
// The document in one JSON line: the string in `field`. Anything else is an Error with the file and the line.
std::string DocumentOfJson(std::string_view line, const std::string& field, const std::string& path,
                           std::int64_t number);

template <typename Use>
void ForEachText(const TextBatch& batch, const std::string& path, const std::string& json_field, const Use& use,
                 DamagedLines* damaged) {
  if (batch.format == TextFormat::kText) {
    use(std::string_view(batch.text));
    return;
  }
  std::int64_t number = batch.begin.line;
  for (std::size_t begin = 0; begin < batch.text.size();) {
    const std::size_t end = std::min(batch.text.find('\n', begin), batch.text.size());
    std::string_view line = std::string_view(batch.text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.find_first_not_of(" \t") == std::string_view::npos) {
      continue;
    }
    if (batch.format == TextFormat::kJson) {
      std::string document;
      if (TryLine([&] { document = DocumentOfJson(line, json_field, path, number); }, damaged)) {
        use(std::string_view(document));
      }
    } else {
      use(line);
    }
  }
}

}  // namespace trireme
