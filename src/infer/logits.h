// Logits as a file, for comparison with other programs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/files/output_file.h"
#include "data/samples/sample_source.h"
#include "infer/inference_model.h"

namespace trireme {

// Writes the logits after every input token of samples [0, count) that `get` gives as a NumPy file (.npy): float32
// [count, length, vocabulary]. Requires RequireWritable, and at most model.options().rows a sample; documents are told
// apart as the samples say. Collective over the model's group; the group's rank 0 writes.
struct LogitRequest {
  std::int64_t count = 0;
  std::function<Sample(std::int64_t)> get;
  std::string path;
};
// An Error when the samples differ in length or the file's folder is not there: known before a model is read.
void RequireWritable(const LogitRequest& request);
// The file that a request asks for; Append takes the logits of sample after sample, row after row.
class LogitFile {
 public:
  LogitFile(const LogitRequest& request, std::int64_t length, std::int64_t vocabulary);
  void Append(std::span<const float> logits) { file_.Append(std::as_bytes(logits)); }
  void Close() { file_.Close(); }

 private:
  OutputFile file_;
};

void WriteLogits(InferenceModel& model, bool writes, const LogitRequest& request);

}  // namespace trireme
