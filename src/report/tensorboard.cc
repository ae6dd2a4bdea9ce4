#include "report/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/durable_file.h"
#include "base/error.h"
#include "comm/ledger.h"

namespace trireme {
namespace {

// Fields of the messages, as tensorflow/core/util/event.proto and framework/summary.proto number them.
constexpr int kEventWallTime = 1;
constexpr int kEventStep = 2;
constexpr int kEventFileVersion = 3;
constexpr int kEventSummary = 5;
constexpr int kEventSessionLog = 7;
constexpr int kSessionLogStart = 1;
constexpr int kStringType = 7;  // DT_STRING

std::string Varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) {
    bytes += static_cast<char>(value | 128);
  }
  return bytes + static_cast<char>(value);
}

template <typename T>
std::string Fixed(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);  // little-endian, as base/platform.h requires
  return bytes;
}

enum Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };
std::string Key(int field, Wire wire) { return Varint(static_cast<std::uint64_t>(field) << 3 | wire); }
std::string Integer(int field, std::int64_t value) {
  return Key(field, kVarint) + Varint(static_cast<std::uint64_t>(value));
}
std::string Double(int field, double value) { return Key(field, kFixed64) + Fixed(value); }
std::string Float(int field, float value) { return Key(field, kFixed32) + Fixed(value); }
std::string Bytes(int field, const std::string& value) {
  return Key(field, kLengthDelimited) + Varint(value.size()) + value;
}

double Now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// SummaryMetadata with plug-in data.
std::string Plugin(const std::string& name, const std::string& content = "") {
  return Bytes(1, Bytes(1, name) + (content.empty() ? "" : Bytes(2, content)));
}

// google.protobuf.Value: a number, a truth value or a text.
std::string ValueOf(const std::string& text) {
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && stop == text.data() + text.size() && std::isfinite(number)) {
    return Double(2, number);
  }
  if (text == "true" || text == "false") {
    return Integer(4, text == "true" ? 1 : 0);
  }
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return Bytes(3, quoted ? text.substr(1, text.size() - 2) : text);
}

// HistogramProto: extremes, number, sums, then the upper edges of the buckets and what is in them. Empty buckets at
// either end are left out, but for the one whose edge is the lower end of the first full one.
std::string HistogramMessage(const Histogram& histogram) {
  const std::vector<std::int64_t>& counts = histogram.counts();
  std::size_t first = 0;
  std::size_t last = counts.size();
  while (first + 1 < counts.size() && counts[first + 1] == 0 && counts[first] == 0) {
    ++first;
  }
  while (last > first + 1 && counts[last - 1] == 0) {
    --last;
  }
  std::string edges;
  std::string full;
  for (std::size_t bucket = first; bucket < last; ++bucket) {
    edges += Fixed(Histogram::Edges()[bucket]);
    full += Fixed(static_cast<double>(counts[bucket]));
  }
  return Double(1, histogram.least) + Double(2, histogram.most) + Double(3, static_cast<double>(histogram.count)) +
         Double(4, histogram.sum) + Double(5, histogram.squares) + Bytes(6, edges) + Bytes(7, full);
}

constexpr std::array<std::uint32_t, 256> MakeTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = value & 1 ? value >> 1 ^ 0x82F63B78U : value >> 1;
    }
    table[i] = value;
  }
  return table;
}

}  // namespace

std::uint32_t Crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = MakeTable();
  std::uint32_t sum = ~0U;
  for (const char byte : bytes) {
    sum = kTable[(sum ^ static_cast<std::uint8_t>(byte)) & 255] ^ sum >> 8;
  }
  return ~sum;
}

std::uint32_t MaskedCrc32c(std::string_view bytes) { return std::rotr(Crc32c(bytes), 15) + 0xA282EAD8U; }

TensorBoardFile::TensorBoardFile(const std::string& folder, std::int64_t first_step) {
  RefuseLink(folder + "/tensorboard");
  MakeDirectories(folder + "/tensorboard");
  const std::string path = fmt::format("{}/tensorboard/events.out.tfevents.{:010d}.{}.{}.trireme", folder,
                                       static_cast<std::int64_t>(Now()), HostName(), getpid());
  file_ = std::fopen(path.c_str(), "abe");
  Require(file_ != nullptr, "'{}' cannot be written: {}", path, std::strerror(errno));
  WriteEvent(0, kEventFileVersion, "brain.Event:2");
  if (first_step > 1) {
    WriteEvent(first_step, kEventSessionLog, Integer(1, kSessionLogStart));
  }
}

TensorBoardFile::~TensorBoardFile() { std::fclose(file_); }

void TensorBoardFile::WriteEvent(std::int64_t step, int field, const std::string& message) {
  WriteRecord(Double(kEventWallTime, Now()) + (step != 0 ? Integer(kEventStep, step) : "") + Bytes(field, message));
  std::fflush(file_);
}

void TensorBoardFile::WriteRecord(const std::string& record) {
  const std::string length = Fixed<std::uint64_t>(record.size());
  const std::string whole = length + Fixed(MaskedCrc32c(length)) + record + Fixed(MaskedCrc32c(record));
  std::fwrite(whole.data(), 1, whole.size(), file_);
}

void TensorBoardFile::AddScalars(std::int64_t step, const std::map<std::string, double>& values) {
  std::string summary;
  for (const auto& [tag, value] : values) {
    summary += Bytes(1, Bytes(1, tag) + Float(2, static_cast<float>(value)));
  }
  WriteEvent(step, kEventSummary, summary);
}

void TensorBoardFile::AddHistograms(std::int64_t step, const std::map<std::string, Histogram>& values) {
  std::string summary;
  for (const auto& [tag, histogram] : values) {
    summary += Bytes(1, Bytes(1, tag) + Bytes(5, HistogramMessage(histogram)));
  }
  WriteEvent(step, kEventSummary, summary);
}

void TensorBoardFile::AddText(std::int64_t step, const std::string& tag, const std::string& text) {
  const std::string shape = Bytes(2, Integer(1, 1));  // one dimension of one element
  const std::string tensor = Integer(1, kStringType) + Bytes(2, shape) + Bytes(8, text);
  WriteEvent(step, kEventSummary,
             Bytes(1, Bytes(1, tag + "/text_summary") + Bytes(8, tensor) + Bytes(9, Plugin("text"))));
}

void TensorBoardFile::AddHyperParameters(const std::string& name, const std::map<std::string, std::string>& values) {
  std::string session;
  for (const auto& [key, value] : values) {
    session += Bytes(1, Bytes(1, key) + Bytes(2, ValueOf(value)));
  }
  session += Bytes(4, name) + Double(5, Now());
  const std::string content = Bytes(3, session);  // HParamsPluginData.session_start_info; version 0
  WriteEvent(0, kEventSummary,
             Bytes(1, Bytes(1, "_hparams_/session_start_info") + Bytes(9, Plugin("hparams", content))));
}

}  // namespace trireme
