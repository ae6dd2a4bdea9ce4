// Event files that TensorBoard reads (and programs that sync such files): scalars, texts, histograms and
// hyper-parameters, written by a small encoder of the few protocol buffers that they consist of. A record is a length,
// its masked CRC-32C, the message, its masked CRC-32C.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "train/histogram.h"

namespace trireme {

// CRC-32C (Castagnoli), and as event files store it.
std::uint32_t Crc32c(std::string_view bytes);
std::uint32_t MaskedCrc32c(std::string_view bytes);

class TensorBoardFile {
 public:
  // Makes FOLDER/tensorboard/events.out.tfevents.TIME.HOST.PID.trireme. first_step: readers drop what earlier files say
  // of this step and later ones. An Error when the file cannot be made.
  TensorBoardFile(const std::string& folder, std::int64_t first_step);
  ~TensorBoardFile();
  TensorBoardFile(const TensorBoardFile&) = delete;
  TensorBoardFile& operator=(const TensorBoardFile&) = delete;

  // All at once, flushed.
  void AddScalars(std::int64_t step, const std::map<std::string, double>& values);
  // As TensorBoard's pages of distributions and histograms show it.
  void AddHistograms(std::int64_t step, const std::map<std::string, Histogram>& values);
  // Markdown, in the text plug-in.
  void AddText(std::int64_t step, const std::string& tag, const std::string& text);
  // Numbers and texts, in the plug-in of hyper-parameters; `name` tells runs apart.
  void AddHyperParameters(const std::string& name, const std::map<std::string, std::string>& values);

 private:
  void WriteEvent(std::int64_t step, int field, const std::string& message);
  void WriteRecord(const std::string& record);

  std::FILE* file_ = nullptr;
};

}  // namespace trireme
