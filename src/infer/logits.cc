#include "infer/logits.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace trireme {
namespace {

// The header of NumPy's format 1.0: a line of text, padded so that the data starts at a multiple of 64.
std::string NpyHeader(const std::string& shape) {
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", shape);
  constexpr std::size_t kFixed = 10;
  text.append(63 - (kFixed + text.size()) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace

void RequireWritable(const LogitRequest& request) {
  const std::filesystem::path folder = std::filesystem::path(request.path).parent_path();
  Require(folder.empty() || std::filesystem::is_directory(folder), "cannot write '{}': '{}' is no folder", request.path,
          folder.string());
  std::size_t length = 0;
  for (std::int64_t index = 0; index < request.count; ++index) {
    const std::size_t own = request.get(index).tokens.size();
    length = index == 0 ? own : length;
    Require(own == length, "sample {} has {} tokens and the first {}: logits are written of samples of one length",
            index, own, length);
  }
}

LogitFile::LogitFile(const LogitRequest& request, std::int64_t length, std::int64_t vocabulary) : file_(request.path) {
  const std::string header = NpyHeader(fmt::format("{}, {}, {}", request.count, length, vocabulary));
  file_.Append(std::as_bytes(std::span(header)));
}

void WriteLogits(InferenceModel& model, bool writes, const LogitRequest& request) {
  std::optional<LogitFile> file;
  std::int64_t length = 0;
  for (std::int64_t index = 0; index < request.count; ++index) {
    const Sample sample = request.get(index);
    if (index == 0) {
      length = static_cast<std::int64_t>(sample.tokens.size()) - 1;
      if (writes) {
        file.emplace(request, length, model.model().vocabulary);
      }
    }
    model.RunWhole(1, std::span(sample.tokens).first(static_cast<std::size_t>(length)), sample.document_starts);
    for (std::int64_t first = 0; first < length; first += model.options().batch) {
      std::vector<std::int32_t> rows(static_cast<std::size_t>(std::min(model.options().batch, length - first)));
      std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(first));
      const std::vector<float> logits = model.Logits(rows);
      if (writes) {
        file->Append(logits);
      }
    }
  }
  if (writes) {
    file->Close();
  }
}

}  // namespace trireme
