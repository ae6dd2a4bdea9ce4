// Where training samples come from. A sample is a pure function of (options, index): no state, no index files, no
// rank that builds something first. The cursor of a run is the number of consumed samples, so changing the layout or
// the batch size never changes the order of samples, and a resumed run asks for the very same ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trireme {

// One training sample: sequence + 1 tokens; inputs are tokens[0..T), targets tokens[1..T].
struct Sample {
  std::vector<std::int32_t> tokens;           // T + 1
  std::vector<float> weights;                 // T: 0 masks the target out; empty means all 1
  std::vector<std::int32_t> document_starts;  // T: first position that position t may attend to; empty means all 0
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // Tokens are in [0, vocabulary).
  virtual std::int64_t vocabulary() const = 0;
  virtual std::string description() const = 0;
  // Samples of an epoch; 0 where there is no such number: the source has no end, or several sources are blended.
  virtual std::int64_t samples() const { return 0; }
  // Pure function of the index: any thread, any order, any number of times. The index is in [0, 2^62): epochs wrap by
  // themselves. A file that has changed since it was opened, or holds a token outside the vocabulary, is an Error.
  virtual Sample Get(std::int64_t index) const = 0;
  // Tokens of each stretch of a sample that attention does not leave, in order; one of T where it sees everything. Some
  // or all padding may be left out. Sources of documents answer from their index, without reading tokens.
  virtual std::vector<std::int64_t> DocumentLengths(std::int64_t index) const;
};

class TokenStore;

struct SourceOptions {
  // "synthetic"; "bytes:FILE"; "FILE.bin" (Megatron, with FILE.idx beside it); any other file (its bytes are the
  // tokens); or a weighted list of these: "0.3 a.bin 0.7 b.bin".
  std::string source;
  std::int64_t sequence = 0;  // T
  std::uint64_t seed = 1;
  std::int64_t vocabulary = 0;  // of the model; every token must be below it; 0 leaves it to the source
  std::string split = "train";  // "train" | "validation" | "test"
  std::string split_weights;    // such as "969,30,1"; empty gives every split the whole source
  bool document_masks = false;  // positions see only their own document; the target that opens the next weighs 0
  bool answers_only = false;    // tokens of prepared conversations weigh 0 unless they are of an answer
  bool padding_masks = false;   // keep the last, short window of an epoch, padded with tokens that weigh 0
  bool check_tokens = false;    // look for tokens outside the vocabulary before the first sample (RequireVocabulary)
  bool best_fit = false;        // samples are packed of whole documents instead: see packed_source.h
};

// What every source of stored tokens asks: a positive sequence, and answers where the options ask for them.
void RequireReadable(const TokenStore& store, const SourceOptions& options);
// An Error that names a token outside the vocabulary. Reads every token of a store of up to `most`, and so many, evenly
// spread, of a larger one.
void RequireVocabulary(const TokenStore& store, std::int64_t vocabulary, std::int64_t most = std::int64_t{1} << 24);

// The parts of a source: those of a weighted list, or the one it names.
struct WeightedSource {
  double weight = 1;
  std::string source;
};
std::vector<WeightedSource> ParseSources(const std::string& source);
// `source` with every path made absolute, so that it can be opened from any working folder.
std::string AbsoluteSource(const std::string& source);

std::unique_ptr<SampleSource> OpenSource(const SourceOptions& options);

}  // namespace trireme
