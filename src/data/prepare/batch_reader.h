// Reads a list of text files as a sequence of batches of about a megabyte, cut where tokenizing the parts gives what
// tokenizing the whole would give. Cuts are a pure function of the files, so a reader can start again at any batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/prepare/text_stream.h"

namespace trireme {

enum class TextFormat : std::uint8_t {
  kAuto,   // JSON lines for names in .jsonl, .ndjson or .json (before .gz or .zst), else text
  kText,   // a file is a document
  kLines,  // a line is a document
  kJson,   // a line is a JSON object, one of whose fields is the document
  kChat,   // a line is a JSON object, one of whose fields is a list of messages with role and content
};

// "auto", "text", "lines", "jsonl", "chat"; an Error names the nearest.
TextFormat ParseTextFormat(const std::string& name);

// A place between two batches.
struct ReadPosition {
  std::int64_t file = 0;
  std::int64_t offset = 0;  // of the unpacked text
  std::int64_t line = 0;    // line breaks before it in this file
  bool operator==(const ReadPosition&) const = default;
};

struct TextBatch {
  std::string text;
  TextFormat format = TextFormat::kText;
  bool ends_file = false;
  ReadPosition begin;
  ReadPosition end;
  std::int64_t stored_bytes = 0;  // of all files, used up to the end of this batch
};

class BatchReader {
 public:
  static constexpr std::size_t kBatchBytes = 1 << 20;

  BatchReader(std::vector<std::string> paths, TextFormat format, const ReadPosition& start = {});
  // The next batch, or nothing after the last file.
  std::optional<TextBatch> Next();

 private:
  void OpenFile();
  // Reads until the buffer holds `bytes` or the file ends.
  void Fill(std::size_t bytes);
  std::size_t FindCut();

  std::vector<std::string> paths_;
  TextFormat format_;
  TextFormat file_format_ = TextFormat::kText;
  ReadPosition position_;
  std::unique_ptr<TextStream> stream_;
  std::string buffer_;
  bool at_end_ = false;
  std::int64_t finished_bytes_ = 0;
};

// Paths that the patterns match, each pattern's sorted; a pattern that matches nothing is an Error.
std::vector<std::string> ExpandPatterns(const std::vector<std::string>& patterns);

}  // namespace trireme
