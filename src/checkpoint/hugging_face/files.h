// The safetensors files of a Hugging Face directory, as one set of named tensors.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/hugging_face/safetensors.h"

namespace trireme {

class HuggingFaceFiles {
 public:
  // Reads model.safetensors.index.json and every file it names, or model.safetensors; headers only. An index that
  // names a tensor its file lacks, or the other way round, is an Error.
  explicit HuggingFaceFiles(const std::string& directory);

  // Sorted names.
  std::vector<std::string> names() const;
  // nullptr when there is none.
  const SafetensorsEntry* Find(const std::string& name) const;
  // The values as fp32: from F32, BF16 or F16. An Error names any other dtype.
  std::vector<float> Read(const std::string& name) const;
  // Elements [first, first + out.size()) of the flattened tensor.
  void Read(const std::string& name, std::int64_t first, std::span<float> out) const;

 private:
  struct Place {
    std::string path;
    std::int64_t data_start = 0;
    SafetensorsEntry entry;
  };
  void AddFile(const std::string& path);
  void CheckIndex(const std::map<std::string, std::string>& weight_map, const std::string& directory) const;

  std::map<std::string, Place> places_;
};

}  // namespace trireme
