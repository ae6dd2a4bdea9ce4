#include "data/dataset/indexed_dataset.h"

#include <sys/stat.h>

#include <cstring>
#include <functional>
#include <random>

#include "base/error.h"
#include "data/dataset/indexed_dataset_writer.h"
#include "data/samples/sample_source.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename Value>
void Append(std::string& bytes, Value value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename Value>
void Patch(std::string& bytes, std::size_t at, Value value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

// The two files, composed from the description of the format alone.
struct RawDataset {
  std::string idx;
  std::string bin;
};

// Four sequences of 3, 1, 0 and 2 int32 tokens in three documents.
RawDataset Compose() {
  RawDataset raw;
  raw.idx = std::string("MMIDIDX\0\0", 9);
  Append<std::uint64_t>(raw.idx, 1);
  Append<std::uint8_t>(raw.idx, 4);
  Append<std::uint64_t>(raw.idx, 4);
  Append<std::uint64_t>(raw.idx, 4);
  for (const std::int32_t length : {3, 1, 0, 2}) {
    Append(raw.idx, length);
  }
  for (const std::int64_t offset : {0, 12, 16, 16}) {
    Append(raw.idx, offset);
  }
  for (const std::int64_t boundary : {0, 2, 3, 4}) {
    Append(raw.idx, boundary);
  }
  for (const std::int32_t token : {10, 11, 12, 20, 30, 31}) {
    Append(raw.bin, token);
  }
  return raw;
}

constexpr std::size_t kLengthsAt = 34;
constexpr std::size_t kOffsetsAt = 34 + 16;
constexpr std::size_t kBoundariesAt = 34 + 48;

std::string Write(const ScratchDirectory& scratch, const RawDataset& raw) {
  WriteBytes(scratch / "raw.idx", raw.idx);
  WriteBytes(scratch / "raw.bin", raw.bin);
  return scratch / "raw";
}

TEST(IndexedDataset, WriterMakesTheBytesOfTheFormat) {
  const ScratchDirectory scratch;
  IndexedDatasetWriter writer(scratch / "made", TokenKind::kInt32);
  writer.AddSequence(std::vector<std::int32_t>{10, 11, 12});
  writer.AddSequence(std::vector<std::int32_t>{20});
  writer.EndDocument();
  writer.AddSequence({});
  writer.EndDocument();
  writer.AddSequence(std::vector<std::int32_t>{30, 31});
  writer.EndDocument();
  writer.Finish();
  const RawDataset raw = Compose();
  EXPECT_EQ(ReadBytes(scratch / "made.idx"), raw.idx);
  EXPECT_EQ(ReadBytes(scratch / "made.bin"), raw.bin);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 2);
}

TEST(IndexedDataset, ReaderFindsSequencesAndDocuments) {
  const ScratchDirectory scratch;
  const IndexedDataset dataset(Write(scratch, Compose()));
  EXPECT_EQ(dataset.tokens(), 6);
  EXPECT_EQ(dataset.sequences(), 4);
  EXPECT_EQ(dataset.documents(), 3);
  std::vector<std::int32_t> tokens(4);
  dataset.Read(2, tokens);
  EXPECT_THAT(tokens, ElementsAre(12, 20, 30, 31));
  EXPECT_EQ(dataset.SequenceLength(3), 2);
  EXPECT_EQ(dataset.DocumentStart(3), 0);
  EXPECT_EQ(dataset.DocumentStart(4), 4);
  EXPECT_THAT(dataset.DocumentStartsBetween(0, 6), ElementsAre(4));
  EXPECT_THAT(dataset.DocumentStartsBetween(4, 6), ElementsAre());
}

TEST(IndexedDataset, EveryTokenKindSurvivesARoundTrip) {
  const ScratchDirectory scratch;
  for (const TokenKind kind : {TokenKind::kUInt8, TokenKind::kInt8, TokenKind::kInt16, TokenKind::kInt32,
                               TokenKind::kInt64, TokenKind::kUInt16}) {
    const auto most = static_cast<std::int32_t>(TokenLimit(kind) - 1);
    const std::vector<std::int32_t> tokens = {0, 1, most, 100};
    IndexedDatasetWriter writer(scratch / "kind", kind);
    writer.AddSequence(tokens);
    writer.EndDocument();
    writer.Finish();
    const IndexedDataset dataset(scratch / "kind.bin");
    EXPECT_EQ(dataset.kind(), kind);
    std::vector<std::int32_t> read(4);
    dataset.Read(0, read);
    EXPECT_EQ(read, tokens) << Name(kind);
  }
}

TEST(IndexedDataset, KindFollowsMegatronsChoice) {
  EXPECT_EQ(TokenKindFor(65499), TokenKind::kUInt16);
  EXPECT_EQ(TokenKindFor(65500), TokenKind::kInt32);
}

TEST(IndexedDataset, ModesAreTolerated) {
  const ScratchDirectory scratch;
  RawDataset raw = Compose();
  raw.idx += std::string(4, '\1');
  EXPECT_TRUE(IndexedDataset(Write(scratch, raw)).has_modes());
}

// Links under the names of unfinished files: their targets stay as they are.
TEST(IndexedDataset, AWriterFollowsNoLinks) {
  const ScratchDirectory folder;
  WriteBytes(folder / "precious", "precious");
  const std::vector<const char*> names = {"x.bin.partial", "x.lengths.partial", "x.documents.partial", "x.idx.partial"};
  for (const char* name : names) {
    std::filesystem::create_symlink(folder / "precious", folder / name);
  }
  IndexedDatasetWriter writer(folder / "x", TokenKind::kInt32);
  writer.AddSequence(std::vector<std::int32_t>{1, 2, 3});
  writer.EndDocument();
  writer.Finish();
  EXPECT_EQ(std::filesystem::file_size(folder / "precious"), 8U);
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "x.bin"));
  EXPECT_EQ(IndexedDataset(folder / "x").sequences(), 1);
  std::filesystem::create_symlink(folder / "precious", folder / "y.bin.partial");
  EXPECT_THROW(IndexedDatasetWriter(folder / "y", TokenKind::kInt32, {.tokens = 2, .sequences = 1}), Error);
}

TEST(IndexedDataset, AWriterContinuesWhereAnotherStopped) {
  const ScratchDirectory scratch;
  DatasetExtent state;
  {
    IndexedDatasetWriter writer(scratch / "made", TokenKind::kInt32);
    writer.AddSequence(std::vector<std::int32_t>{10, 11, 12});
    writer.AddSequence(std::vector<std::int32_t>{20});
    writer.EndDocument();
    state = writer.Checkpoint();
    writer.AddSequence(std::vector<std::int32_t>(400000, 7));
  }
  IndexedDatasetWriter writer(scratch / "made", TokenKind::kInt32, state);
  writer.AddSequence({});
  writer.EndDocument();
  writer.AddSequence(std::vector<std::int32_t>{30, 31});
  writer.EndDocument();
  writer.Finish();
  EXPECT_EQ(ReadBytes(scratch / "made.idx"), Compose().idx);
  EXPECT_EQ(ReadBytes(scratch / "made.bin"), Compose().bin);
}

struct Malformation {
  const char* name;
  const char* message;  // what the one Error says
  std::function<void(RawDataset&)> apply;
};

const std::vector<Malformation>& Malformations() {
  static const std::vector<Malformation> list = {
      {"empty index", "fewer than the 34", [](RawDataset& raw) { raw.idx.clear(); }},
      {"cut header", "fewer than the 34", [](RawDataset& raw) { raw.idx.resize(33); }},
      {"other magic", "does not start with MMIDIDX", [](RawDataset& raw) { raw.idx[3] = 'X'; }},
      {"magic of the old format", "does not start with MMIDIDX",
       [](RawDataset& raw) { raw.idx.replace(0, 8, std::string("TNTIDX\0\0", 8)); }},
      {"version 0", "index version 0", [](RawDataset& raw) { Patch<std::uint64_t>(raw.idx, 9, 0); }},
      {"version 2", "index version 2", [](RawDataset& raw) { Patch<std::uint64_t>(raw.idx, 9, 2); }},
      {"kind 0", "unknown token kind 0", [](RawDataset& raw) { raw.idx[17] = 0; }},
      {"kind 9", "unknown token kind 9", [](RawDataset& raw) { raw.idx[17] = 9; }},
      {"kind float", "floating-point values (code 7)", [](RawDataset& raw) { raw.idx[17] = 7; }},
      {"kind double", "floating-point values (code 6)", [](RawDataset& raw) { raw.idx[17] = 6; }},
      {"sequence count overflows", "18446744073709551615 sequences",
       [](RawDataset& raw) { Patch<std::uint64_t>(raw.idx, 18, ~0ULL); }},
      {"sequence count whose size wraps to the file's", "sequences",
       [](RawDataset& raw) { Patch<std::uint64_t>(raw.idx, 18, 4 + (1ULL << 62)); }},
      {"one sequence too many", "sequences", [](RawDataset& raw) { Patch<std::uint64_t>(raw.idx, 18, 5); }},
      {"boundary count overflows", "document boundaries",
       [](RawDataset& raw) { Patch<std::uint64_t>(raw.idx, 26, 1ULL << 61); }},
      {"no boundaries", "no document boundaries",
       [](RawDataset& raw) {
         Patch<std::uint64_t>(raw.idx, 26, 0);
         raw.idx.resize(kBoundariesAt);
       }},
      {"index cut by a byte", "take 114", [](RawDataset& raw) { raw.idx.pop_back(); }},
      {"index with a byte too many", "take 114", [](RawDataset& raw) { raw.idx.push_back('\0'); }},
      {"negative length", "sequence 1 of", [](RawDataset& raw) { Patch<std::int32_t>(raw.idx, kLengthsAt + 4, -1); }},
      {"huge length", "starts at byte 16, the lengths before it give",
       [](RawDataset& raw) { Patch<std::int32_t>(raw.idx, kLengthsAt + 4, 0x7fffffff); }},
      {"first offset not zero", "sequence 0 of", [](RawDataset& raw) { Patch<std::int64_t>(raw.idx, kOffsetsAt, 4); }},
      {"offset decreases", "starts at byte 0",
       [](RawDataset& raw) { Patch<std::int64_t>(raw.idx, kOffsetsAt + 16, 0); }},
      {"negative offset", "starts at byte -4",
       [](RawDataset& raw) { Patch<std::int64_t>(raw.idx, kOffsetsAt + 8, -4); }},
      {"offset beyond the tokens", "starts at byte 4096",
       [](RawDataset& raw) { Patch<std::int64_t>(raw.idx, kOffsetsAt + 24, 4096); }},
      {"offset inside a token", "starts at byte 13",
       [](RawDataset& raw) { Patch<std::int64_t>(raw.idx, kOffsetsAt + 8, 13); }},
      {"first boundary not zero", "starts at sequence 1, not 0",
       [](RawDataset& raw) { Patch<std::int64_t>(raw.idx, kBoundariesAt, 1); }},
      {"boundaries decrease", "below 3 before it",
       [](RawDataset& raw) {
         Patch<std::int64_t>(raw.idx, kBoundariesAt + 8, 3);
         Patch<std::int64_t>(raw.idx, kBoundariesAt + 16, 2);
       }},
      {"negative boundary", "document boundary 1",
       [](RawDataset& raw) { Patch<std::int64_t>(raw.idx, kBoundariesAt + 8, -2); }},
      {"boundary beyond the sequences", "beyond its 4 sequences",
       [](RawDataset& raw) { Patch<std::int64_t>(raw.idx, kBoundariesAt + 16, 5); }},
      {"last boundary short", "the last document boundary",
       [](RawDataset& raw) { Patch<std::int64_t>(raw.idx, kBoundariesAt + 24, 3); }},
      {"tokens cut", "has 20 bytes, the 4 sequences", [](RawDataset& raw) { raw.bin.resize(20); }},
      {"tokens empty", "has 0 bytes, the 4 sequences", [](RawDataset& raw) { raw.bin.clear(); }},
      {"tokens too many", "has 28 bytes, the 4 sequences", [](RawDataset& raw) { raw.bin += "abcd"; }},
      {"half a token", "not a whole number of int32 tokens", [](RawDataset& raw) { raw.bin.pop_back(); }},
  };
  return list;
}

TEST(IndexedDataset, EveryMalformedPairIsOneClearError) {
  const ScratchDirectory scratch;
  for (const Malformation& malformation : Malformations()) {
    RawDataset raw = Compose();
    malformation.apply(raw);
    const std::string prefix = Write(scratch, raw);
    try {
      const IndexedDataset dataset(prefix);
      ADD_FAILURE() << malformation.name << " was accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(malformation.message)) << malformation.name;
      EXPECT_THAT(error.what(), HasSubstr(prefix)) << malformation.name;
    }
  }
}

TEST(IndexedDataset, AbsentFilesAndOtherThanFilesAreErrors) {
  const ScratchDirectory scratch;
  const std::string prefix = Write(scratch, Compose());
  EXPECT_THROW(IndexedDataset(scratch / "absent"), Error);
  std::filesystem::remove(prefix + ".bin");
  EXPECT_THROW(IndexedDataset dataset(prefix), Error);
  std::filesystem::create_directory(prefix + ".bin");
  EXPECT_THROW(IndexedDataset dataset(prefix), Error);
  std::filesystem::remove(prefix + ".bin");
  ASSERT_EQ(mkfifo((prefix + ".bin").c_str(), 0600), 0);
  EXPECT_THROW(IndexedDataset dataset(prefix), Error);
}

TEST(IndexedDataset, TokensOutsideTheVocabularyAreFoundAtTheSample) {
  const ScratchDirectory scratch;
  for (const std::int32_t bad : {-1, 1000}) {
    RawDataset raw = Compose();
    Patch(raw.bin, 8, bad);
    const auto source = OpenSource({.source = Write(scratch, raw) + ".bin", .sequence = 5, .vocabulary = 1000});
    try {
      source->Get(0);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("token {} at position 2", bad)));
    }
  }
}

TEST(IndexedDataset, RandomDamageIsRefusedOrHarmless) {
  const ScratchDirectory scratch;
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    RawDataset raw = Compose();
    for (int change = 0; change < 1 + round % 3; ++change) {
      std::string& bytes = random() % 8 == 0 ? raw.bin : raw.idx;
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    try {
      const auto source = OpenSource({.source = Write(scratch, raw) + ".bin",
                                      .sequence = 2,
                                      .vocabulary = 1000,
                                      .split_weights = "1,1",
                                      .document_masks = true});
      for (int i = 0; i < 4; ++i) {
        source->Get(i);
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace trireme
