// Bytes of text a second through the tokenizers on one core: `tokenizer_benchmark` prints them. A vocabulary of 32,768
// is trained on the first 8 MB of a text, and what follows is encoded, so that words are met that training has not
// seen. The text is TRIREME_BENCHMARK_TEXT, or this repository's documents, which are too short for figures.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTrainingBytes = 8 << 20;

std::string ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string BenchmarkText() {
  if (const char* path = std::getenv("TRIREME_BENCHMARK_TEXT"); path != nullptr) {
    return ReadText(path);
  }
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(TRIREME_SOURCE_DIR) / "docs")) {
    if (entry.path().extension() == ".md") {
      text += ReadText(entry.path());
    }
  }
  return text;
}

// A tokenizer of a pattern and text that it has not been trained on.
struct Bench {
  explicit Bench(const std::string& pattern) {
    const fs::path folder = fs::temp_directory_path();
    const std::string name = (folder / ("trireme-tokenizer-benchmark-" + pattern)).string();
    const std::string whole = BenchmarkText();
    const std::size_t learnt = std::min(kTrainingBytes, whole.size() / 2);
    std::ofstream(name + ".txt", std::ios::binary) << whole.substr(0, learnt);
    TrainTokenizer({.inputs = {name + ".txt"},
                    .output = name + ".json",
                    .training = {.vocabulary = 32768, .pattern = PatternByName(pattern)}});
    tokenizer = LoadTokenizer(name + ".json");
    fs::remove(name + ".txt");
    fs::remove(name + ".json");
    text = whole.substr(learnt);
  }

  std::unique_ptr<Tokenizer> tokenizer;
  std::string text;
};

// In documents of a few kilobytes, as a dataset has them.
void Encode(benchmark::State& state, const char* pattern) {
  const Bench bench(pattern);
  constexpr std::size_t kDocument = 4096;
  const std::size_t limit = std::min(bench.text.size(), static_cast<std::size_t>(state.range(0)) << 20);
  std::vector<std::int32_t> ids;
  std::int64_t bytes = 0;
  for (auto _ : state) {
    for (std::size_t first = 0; first < limit; first += kDocument) {
      ids.clear();
      bench.tokenizer->Encode(std::string_view(bench.text).substr(first, std::min(kDocument, limit - first)), ids);
      benchmark::DoNotOptimize(ids.data());
    }
    bytes += static_cast<std::int64_t>(limit);
  }
  state.SetBytesProcessed(bytes);
}
BENCHMARK_CAPTURE(Encode, gpt2, "gpt2")->Arg(1)->Arg(16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Encode, bloom, "bloom")->Arg(1)->Arg(16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Encode, llama3, "llama3")->Arg(1)->Arg(16)->Unit(benchmark::kMillisecond);

void Decode(benchmark::State& state) {
  const Bench bench("gpt2");
  const std::size_t limit = std::min(bench.text.size(), static_cast<std::size_t>(state.range(0)) << 20);
  const std::vector<std::int32_t> ids = bench.tokenizer->Encode(std::string_view(bench.text).substr(0, limit));
  std::int64_t bytes = 0;
  for (auto _ : state) {
    bytes += static_cast<std::int64_t>(bench.tokenizer->Decode(ids).size());
  }
  state.SetBytesProcessed(bytes);
}
BENCHMARK(Decode)->Arg(1)->Arg(16)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trireme
