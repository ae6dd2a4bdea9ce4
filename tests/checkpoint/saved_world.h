// A state whose every value is known from its name and index, and the slices that ranks of a layout own of it: what a
// checkpoint must give back, without a trainer.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "cost/shard_plan.h"
#include "model/parameter_table.h"
#include "scratch_directory.h"
#include "topology/layout.h"

namespace trireme {

// A folder of a test's own, removed when the test ends.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

ModelConfig TinyModel(const std::string& family);

// ZeRO 1 over `data` ranks, each cut by `tensor`.
inline ParallelLayout Zero1(int tensor, int data) {
  ParallelLayout layout;
  layout.tensor = tensor;
  layout.data = data;
  layout.zero = 1;
  return layout;
}

// The value of an element; `salt` tells steps apart.
float ValueAt(const std::string& tensor, const std::string& kind, std::int64_t index, std::int64_t salt);

// A slice with memory of its own.
struct OwnedSlice {
  SaveSlice slice;
  std::vector<SliceRun> runs;  // local: index into values
  std::vector<float> values;
};

// What rank `rank` of a layout saves: each element of master and moments belongs to exactly one rank.
std::vector<OwnedSlice> SlicesOfRank(const ParameterTable& table, const ParallelLayout& layout, int rank,
                                     std::int64_t salt);
// The elements, cut at random among `ranks`.
std::vector<OwnedSlice> RandomSlicesOfRank(const ParameterTable& table, int ranks, int rank, std::int64_t salt);

std::vector<SaveSlice> Views(const std::vector<OwnedSlice>& owned);
RunState StateAt(const ModelConfig& model, std::int64_t step);

// Saves under a layout, one rank after another.
void SaveWorld(const std::string& folder, const ParameterTable& table, const ParallelLayout& layout, std::int64_t step,
               std::int64_t ranks_per_file = 1);

// Reads what each rank of a layout owns and compares every value; the number of wrong ones.
std::int64_t WrongValues(const CheckpointReader& reader, const ParameterTable& table, const ParallelLayout& layout,
                         std::int64_t salt);

// So many ranks along the data axis, nothing else.
ParallelLayout DataRanks(int ranks);
// Layouts of 1 to 8 ranks.
std::vector<ParallelLayout> SomeLayouts();

}  // namespace trireme
