#include "data/prepare/batch_reader.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

// A line may be this long; a text without a good cut is cut anyhow after kLongestStretch.
constexpr std::size_t kLongestLine = std::size_t{1} << 28;
constexpr std::size_t kLongestStretch = std::size_t{1} << 24;

constexpr std::array<const char*, 5> kFormatNames = {"auto", "text", "lines", "jsonl", "chat"};

TextFormat FormatOf(const std::string& path) {
  std::filesystem::path name(path);
  if (name.extension() == ".gz" || name.extension() == ".zst") {
    name = name.stem();
  }
  const auto extension = name.extension();
  return extension == ".jsonl" || extension == ".json" || extension == ".ndjson" ? TextFormat::kJson
                                                                                 : TextFormat::kText;
}

// No known pre-tokenizer has a piece that crosses a single line break between a visible character and a letter.
bool IsGoodCut(const std::string& text, std::size_t at) {
  const auto visible = [](char c) { return c > ' ' && c < 0x7f; };
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return at >= 2 && at < text.size() && text[at - 1] == '\n' && visible(text[at - 2]) && letter(text[at]);
}

// The last character starts here or later; so no character is torn.
std::size_t CharacterBoundary(const std::string& text, std::size_t at) {
  while (at > 1 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) {
    --at;
  }
  return at;
}

}  // namespace

TextFormat ParseTextFormat(const std::string& name) {
  const auto found = std::find(kFormatNames.begin(), kFormatNames.end(), name);
  Require(found != kFormatNames.end(), "unknown text format '{}': it is auto, text, lines, jsonl or chat{}", name,
          NearestMatch(name, kFormatNames));
  return static_cast<TextFormat>(found - kFormatNames.begin());
}

BatchReader::BatchReader(std::vector<std::string> paths, TextFormat format, const ReadPosition& start)
    : paths_(std::move(paths)), format_(format), position_(start) {
  for (std::int64_t file = 0; file < start.file; ++file) {
    finished_bytes_ += static_cast<std::int64_t>(std::filesystem::file_size(paths_[static_cast<std::size_t>(file)]));
  }
}

void BatchReader::OpenFile() {
  const std::string& path = paths_[static_cast<std::size_t>(position_.file)];
  file_format_ = format_ == TextFormat::kAuto ? FormatOf(path) : format_;
  stream_ = OpenTextStream(path);
  stream_->Skip(position_.offset);
  buffer_.clear();
  at_end_ = false;
}

void BatchReader::Fill(std::size_t bytes) {
  const std::size_t have = buffer_.size();
  if (at_end_ || have >= bytes) {
    return;
  }
  buffer_.resize(bytes);
  const std::size_t got = stream_->Read(std::span(buffer_).subspan(have));
  at_end_ = got < bytes - have;
  buffer_.resize(have + got);
}

// How much of the buffer makes the next batch: up to the last good cut in the first kBatchBytes, or the first after.
std::size_t BatchReader::FindCut() {
  Fill(kBatchBytes + 1);
  if (at_end_ && buffer_.size() <= kBatchBytes) {
    return buffer_.size();
  }
  const bool lines = file_format_ != TextFormat::kText;
  const auto good = [&](std::size_t at) { return lines ? buffer_[at - 1] == '\n' : IsGoodCut(buffer_, at); };
  for (std::size_t at = kBatchBytes; at > 0; --at) {
    if (good(at)) {
      return at;
    }
  }
  for (std::size_t at = kBatchBytes + 1;; ++at) {
    if (at + 1 >= buffer_.size()) {
      Fill(buffer_.size() + kBatchBytes);
    }
    if (at >= buffer_.size()) {
      return buffer_.size();
    }
    if (good(at)) {
      return at;
    }
    Require(!lines || at < kLongestLine, "line {} of '{}' is longer than {} bytes", position_.line + 1,
            paths_[static_cast<std::size_t>(position_.file)], kLongestLine);
    if (!lines && at >= kLongestStretch) {
      return CharacterBoundary(buffer_, at);
    }
  }
}

std::optional<TextBatch> BatchReader::Next() {
  if (position_.file >= static_cast<std::int64_t>(paths_.size())) {
    return std::nullopt;
  }
  if (stream_ == nullptr) {
    OpenFile();
  }
  TextBatch batch{.format = file_format_, .begin = position_};
  const std::size_t cut = FindCut();
  batch.text = buffer_.substr(0, cut);
  buffer_.erase(0, cut);
  Fill(1);
  position_.offset += static_cast<std::int64_t>(cut);
  position_.line += std::count(batch.text.begin(), batch.text.end(), '\n');
  batch.stored_bytes = finished_bytes_ + stream_->stored_position();
  if (at_end_ && buffer_.empty()) {
    batch.ends_file = true;
    finished_bytes_ = batch.stored_bytes;
    position_ = {.file = position_.file + 1};
    stream_ = nullptr;
  }
  batch.end = position_;
  return batch;
}

std::vector<std::string> ExpandPatterns(const std::vector<std::string>& patterns) {
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) {
    if (std::filesystem::exists(pattern)) {
      paths.push_back(pattern);
      continue;
    }
    glob_t matches{};
    const int status = ::glob(pattern.c_str(), 0, nullptr, &matches);
    for (std::size_t i = 0; status == 0 && i < matches.gl_pathc; ++i) {
      paths.emplace_back(matches.gl_pathv[i]);
    }
    ::globfree(&matches);
    Require(status == 0, "no file matches '{}'", pattern);
  }
  Require(!paths.empty(), "no input files");
  for (const std::string& path : paths) {
    Require(!std::filesystem::is_directory(path), "'{}' is a directory: name its files, such as '{}/*.txt'", path,
            path);
  }
  return paths;
}

}  // namespace trireme
