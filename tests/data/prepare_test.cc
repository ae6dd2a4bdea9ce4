#include "data/prepare/prepare.h"

#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "data/dataset/dataset_tools.h"
#include "data/dataset/indexed_dataset.h"
#include "data/prepare/ordered_pipeline.h"
#include "data/prepare/text_stream.h"
#include "data/samples/sample_source.h"
#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/tokenizer_files.h"
#include "message_of.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string Words(int count, std::uint32_t seed) {
  const std::vector<std::string> words = {"the", "cat", "sat", "on", "a", "mat", "and", "saw", "42", "birds;", "naïve"};
  std::string text;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1103515245U + 12345U;
    text += words[seed / 65536 % words.size()];
    text += i % 11 == 10 ? "\n" : i % 97 == 96 ? "\n\n  " : " ";
  }
  return text;
}

std::string Gzip(const std::string& text) {
  std::string packed(compressBound(text.size()) + 64, '\0');
  z_stream state{};
  deflateInit2(&state, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(packed.data());
  state.avail_out = static_cast<uInt>(packed.size());
  deflate(&state, Z_FINISH);
  packed.resize(state.total_out);
  deflateEnd(&state);
  return packed;
}

std::string Zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

std::string Unpacked(const std::string& path) {
  const auto stream = OpenTextStream(path);
  std::string text;
  std::vector<char> buffer(1000);
  while (const std::size_t got = stream->Read(buffer)) {
    text.append(buffer.data(), got);
  }
  return text;
}

// Directory with a tokenizer and three inputs: text of several batches, packed JSON lines, packed text.
struct Inputs {
  ScratchDirectory scratch;
  PrepareOptions options;

  Inputs() {
    BpeTrainer trainer({.vocabulary = 320});
    trainer.Add(Words(2000, 1));
    WriteBytes(scratch / "tokenizer.json", WriteTokenizerJson(trainer.Train()));
    WriteBytes(scratch / "1.txt", Words(600'000, 2));
    std::string lines;
    for (int i = 0; i < 20000; ++i) {
      lines += fmt::format("{{\"id\": {}, \"text\": \"document {} of \\u00e9 {}\"}}\n", i, i, i * 7919);
    }
    WriteBytes(scratch / "2.jsonl.gz", Gzip(lines) + Gzip("\n{\"text\": \"\"}\r\n{\"text\": \"last\"}"));
    WriteBytes(scratch / "3.txt.zst", Zstd(Words(300'000, 3)) + Zstd("the end"));
    options = {.inputs = {scratch / "[123].*"},
               .output = scratch / "out",
               .tokenizer = scratch / "tokenizer.json",
               .threads = 2};
  }
};

TEST(TextStream, PackedFilesGiveTheirText) {
  const ScratchDirectory scratch;
  const std::string text = Words(100'000, 5);
  WriteBytes(scratch / "plain", text);
  WriteBytes(scratch / "gzip", Gzip(text) + Gzip("") + Gzip("more"));
  WriteBytes(scratch / "zstd", Zstd(text) + Zstd("") + Zstd("more"));
  EXPECT_EQ(Unpacked(scratch / "plain"), text);
  EXPECT_EQ(Unpacked(scratch / "gzip"), text + "more");
  EXPECT_EQ(Unpacked(scratch / "zstd"), text + "more");
  const auto stream = OpenTextStream(scratch / "gzip");
  stream->Skip(static_cast<std::int64_t>(text.size()));
  std::vector<char> rest(10);
  EXPECT_EQ(stream->Read(rest), 4U);
}

TEST(TextStream, CutAndDamagedArchivesAreErrors) {
  const ScratchDirectory scratch;
  for (const bool gzip : {true, false}) {
    const std::string packed = gzip ? Gzip(Words(10000, 1)) : Zstd(Words(10000, 1));
    WriteBytes(scratch / "cut", packed.substr(0, packed.size() - 5));
    EXPECT_THROW(Unpacked(scratch / "cut"), Error) << gzip;
    WriteBytes(scratch / "tail", packed + "garbage");
    EXPECT_THROW(Unpacked(scratch / "tail"), Error) << gzip;
    std::string damaged = packed;
    damaged[packed.size() / 2] = static_cast<char>(~damaged[packed.size() / 2]);
    WriteBytes(scratch / "damaged", damaged);
    try {
      EXPECT_NE(Unpacked(scratch / "damaged"), Words(10000, 1)) << gzip;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("damaged"));
    }
  }
}

TEST(BatchReader, JoinedBatchesAreTheFiles) {
  const Inputs inputs;
  BatchReader reader({inputs.scratch / "1.txt", inputs.scratch / "3.txt.zst"}, TextFormat::kAuto);
  std::string text;
  int batches = 0;
  while (const auto batch = reader.Next()) {
    text += batch->text;
    ++batches;
    BatchReader again({inputs.scratch / "1.txt", inputs.scratch / "3.txt.zst"}, TextFormat::kAuto, batch->begin);
    EXPECT_EQ(again.Next()->text, batch->text);
  }
  EXPECT_EQ(text, Words(600'000, 2) + Words(300'000, 3) + "the end");
  EXPECT_GT(batches, 3);
}

TEST(PrepareDataset, BatchesDoNotShowInTheTokens) {
  const Inputs inputs;
  PrepareOptions options = inputs.options;
  options.inputs = {inputs.scratch / "1.txt"};
  const PrepareSummary summary = PrepareDataset(options);
  const auto tokenizer = LoadTokenizer(options.tokenizer);
  std::vector<std::int32_t> expected = tokenizer->Encode(Words(600'000, 2));
  expected.push_back(*tokenizer->end_of_text());
  const IndexedDataset dataset(options.output);
  ASSERT_EQ(dataset.tokens(), static_cast<std::int64_t>(expected.size()));
  std::vector<std::int32_t> tokens(expected.size());
  dataset.Read(0, tokens);
  EXPECT_EQ(tokens, expected);
  EXPECT_EQ(dataset.documents(), 1);
  EXPECT_GT(dataset.sequences(), 1);
  EXPECT_EQ(summary.tokens, dataset.tokens());
}

TEST(PrepareDataset, DocumentsComeInOrderFromEveryFormat) {
  Inputs inputs;
  const PrepareSummary summary = PrepareDataset(inputs.options);
  EXPECT_EQ(summary.documents, 1 + 20001 + 1);
  EXPECT_FALSE(summary.resumed);
  const IndexedDataset dataset(inputs.options.output);
  const auto tokenizer = LoadTokenizer(inputs.options.tokenizer);
  const auto document = [&](std::int64_t index) {
    const std::int64_t begin = dataset.SequenceStart(dataset.DocumentSequence(index));
    std::vector<std::int32_t> tokens(
        static_cast<std::size_t>(dataset.SequenceStart(dataset.DocumentSequence(index + 1)) - begin));
    dataset.Read(begin, tokens);
    return tokenizer->Decode(tokens);
  };
  EXPECT_EQ(document(1), "document 0 of é 0<|endoftext|>");
  EXPECT_EQ(document(20000), "document 19999 of é 158372081<|endoftext|>");
  EXPECT_EQ(document(20001), "last<|endoftext|>");
  EXPECT_THAT(document(20002), testing::EndsWith("the end<|endoftext|>"));
  EXPECT_NO_THROW(InspectDataset(inputs.options.output, tokenizer->vocabulary()));
  EXPECT_NO_THROW(OpenSource({.source = inputs.options.output + ".bin", .sequence = 64, .vocabulary = 320})->Get(0));
}

TEST(PrepareDataset, ThreadsAndInterruptionsDoNotChangeTheOutput) {
  Inputs inputs;
  PrepareDataset(inputs.options);
  const std::string idx = ReadBytes(inputs.scratch / "out.idx");
  const std::string bin = ReadBytes(inputs.scratch / "out.bin");
  PrepareOptions options = inputs.options;
  options.checkpoint_bytes = 1;
  options.output = inputs.scratch / "again";
  int stops = 0;
  PrepareSummary summary;
  for (bool finished = false; !finished; ++stops) {
    options.threads = 1 + stops % 3;
    int batches = 0;
    try {
      summary = PrepareDataset(options, [&](const PrepareProgress& progress) {
        EXPECT_LE(progress.stored_bytes, progress.total_bytes);
        Require(++batches < 3, "stopped on purpose");
      });
      finished = true;
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), HasSubstr("stopped on purpose"));
      EXPECT_FALSE(std::filesystem::exists(options.output + ".idx"));
    }
  }
  EXPECT_GT(stops, 2);
  EXPECT_TRUE(summary.resumed);
  EXPECT_EQ(ReadBytes(inputs.scratch / "again.idx"), idx);
  EXPECT_EQ(ReadBytes(inputs.scratch / "again.bin"), bin);
  EXPECT_FALSE(std::filesystem::exists(options.output + ".journal"));
}

TEST(PrepareDataset, RefusesOtherInputsAndFinishedOutputs) {
  Inputs inputs;
  inputs.options.checkpoint_bytes = 1;
  EXPECT_THROW(PrepareDataset(inputs.options, [](const PrepareProgress&) { Fail("stop"); }), Error);
  PrepareOptions other = inputs.options;
  other.json_field = "body";
  try {
    PrepareDataset(other);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("other inputs"));
  }
  PrepareDataset(inputs.options);
  EXPECT_THROW(PrepareDataset(inputs.options), Error);
  inputs.options.overwrite = true;
  EXPECT_NO_THROW(PrepareDataset(inputs.options));
}

TEST(PrepareDataset, AFaultBeforeAnythingIsKeptLeavesNothingInTheWay) {
  Inputs inputs;
  inputs.options.checkpoint_bytes = 1 << 30;
  inputs.options.inputs = {inputs.scratch / "x.jsonl"};
  WriteBytes(inputs.scratch / "x.jsonl", "{\"text\": \"x\"}\n{\"txt\": \"y\"}\n");
  EXPECT_THROW(PrepareDataset(inputs.options), Error);
  for (const char* suffix : {".journal", ".bin.partial", ".lengths.partial", ".documents.partial", ".bin", ".idx"}) {
    EXPECT_FALSE(std::filesystem::exists(inputs.options.output + suffix)) << suffix;
  }
  WriteBytes(inputs.scratch / "x.jsonl", "{\"text\": \"x\"}\n{\"text\": \"y\"}\n");
  EXPECT_EQ(PrepareDataset(inputs.options).documents, 2);
}

TEST(PrepareDataset, ADirectoryIsNoInput) {
  Inputs inputs;
  std::filesystem::create_directory(inputs.scratch / "texts");
  inputs.options.inputs = {inputs.scratch / "texts"};
  try {
    PrepareDataset(inputs.options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is a directory"));
  }
}

TEST(PrepareDataset, FaultsNameTheFileAndTheLine) {
  Inputs inputs;
  const auto fault = [&](const std::string& lines) -> std::string {
    WriteBytes(inputs.scratch / "x.jsonl", lines);
    PrepareOptions options = inputs.options;
    options.inputs = {inputs.scratch / "x.jsonl"};
    options.overwrite = true;
    try {
      PrepareDataset(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(fault("{\"text\": \"x\"}\n"), "");
  EXPECT_THAT(fault("{\"text\": \"x\"}\n{\"text\": \n"), HasSubstr("x.jsonl:2' is not JSON"));
  EXPECT_THAT(fault("{\"text\": \"x\"}\n\n[1]\n"), HasSubstr("x.jsonl:3' is not a JSON object"));
  EXPECT_THAT(fault("{\"text\": 5}\n"), HasSubstr("x.jsonl:1' has no text in a field 'text'"));
  inputs.options.inputs = {inputs.scratch / "nothing*"};
  EXPECT_THROW(PrepareDataset(inputs.options), Error);
}

TEST(PrepareDataset, LinesCanBeDocuments) {
  Inputs inputs;
  WriteBytes(inputs.scratch / "lines", "one\n\ntwo <|endoftext|>\r\nthree");
  PrepareOptions options = inputs.options;
  options.inputs = {inputs.scratch / "lines"};
  options.format = ParseTextFormat("lines");
  options.append_end_of_text = false;
  EXPECT_EQ(PrepareDataset(options).documents, 3);
  const IndexedDataset dataset(options.output);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(dataset.tokens()));
  dataset.Read(0, tokens);
  EXPECT_EQ(LoadTokenizer(options.tokenizer)->Decode(tokens), "onetwo <|endoftext|>three");
  EXPECT_THAT(tokens, testing::Not(testing::Contains(0))) << "text must not forge the end of a document";
}

TEST(TrainTokenizer, LearnsFromFiles) {
  const Inputs inputs;
  const std::int64_t size = TrainTokenizer({.inputs = {inputs.scratch / "1.txt"},
                                            .output = inputs.scratch / "learnt.json",
                                            .training = {.vocabulary = 300}});
  const auto tokenizer = LoadTokenizer(inputs.scratch / "learnt.json");
  EXPECT_EQ(tokenizer->vocabulary(), size);
  EXPECT_EQ(tokenizer->Encode(" birds").size(), 1U);
}

TEST(OrderedPipeline, AnyStageMayFail) {
  for (int stage = 0; stage < 3; ++stage) {
    int produced = 0;
    OrderedPipeline<int, int> pipeline({
        .produce = [&]() -> std::optional<int> {
          Require(stage != 0 || produced < 50, "stage 0");
          return produced < 1000 ? std::optional(produced++) : std::nullopt;
        },
        .work = [&](const int& item) { return Require(stage != 1 || item < 50, "stage 1"), item * 2; },
        .consume =
            [&](const int& item, int& result) {
              EXPECT_EQ(result, item * 2);
              Require(stage != 2 || item < 50, "stage 2");
            },
    });
    EXPECT_THROW(pipeline.Run(3), Error) << stage;
  }
}

// Letters are tokens; roles are marked by one each.
class Conversations : public testing::Test {
 protected:
  Conversations() {
    std::filesystem::create_directories(folder_ / "tokenizer");
    nlohmann::json vocabulary;
    for (int i = 0; i < 26; ++i) {
      vocabulary[std::string(1, static_cast<char>('a' + i))] = i;
    }
    WriteBytes(folder_ / "tokenizer/tokenizer.json",
               JsonText(nlohmann::json{
                   {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}},
                   {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                   {"added_tokens",
                    {{{"id", 26}, {"content", "<q>"}, {"special", true}},
                     {{"id", 27}, {"content", "<a>"}, {"special", true}},
                     {{"id", 28}, {"content", "<e>"}, {"special", true}}}}}));
    WriteBytes(folder_ / "tokenizer/chat_template.jinja",
               "{% for m in messages %}{{ '<a>' if m.role == 'assistant' else '<q>' }}{{ m.content }}<e>{% endfor %}"
               "{{ '<a>' if add_generation_prompt }}");
  }
  PrepareSummary Prepare(const std::string& lines) {
    WriteBytes(folder_ / "talks.jsonl", lines);
    return PrepareDataset({.inputs = {folder_ / "talks.jsonl"},
                           .output = folder_ / "talks",
                           .tokenizer = folder_ / "tokenizer",
                           .format = TextFormat::kChat});
  }
  ScratchDirectory folder_;
};

TEST_F(Conversations, OnlyAnswersWeigh) {
  const PrepareSummary summary = Prepare(
      R"({"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "cd"}]})"
      "\n\n"
      R"({"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}, {"role": "assistant", "content": "z"}, {"role": "user", "content": "p"}]})"
      "\n");
  EXPECT_EQ(summary.documents, 2);
  EXPECT_EQ(summary.sequences, 5);
  //                                        <q> a  b <e> <a>  c  d <e>  <q>  x <e> <q>  y <e> <a>   z <e>  <q>  p <e>
  const std::vector<std::int32_t> tokens = {26, 0, 1, 28, 27, 2, 3, 28, 26, 23, 28, 26, 24, 28, 27, 25, 28, 26, 15, 28};
  const std::vector<float> answers = {0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0};
  ASSERT_EQ(summary.tokens, static_cast<std::int64_t>(tokens.size()));
  for (const std::int64_t sequence : {4, 7, 19}) {
    const auto source = OpenSource({.source = folder_ / "talks.bin", .sequence = sequence, .answers_only = true});
    for (std::int64_t index = 0; index < 19 / sequence; ++index) {
      const Sample sample = source->Get(index);
      const auto place = std::search(tokens.begin(), tokens.end(), sample.tokens.begin(), sample.tokens.end());
      ASSERT_NE(place, tokens.end());
      const auto first = answers.begin() + (place - tokens.begin()) + 1;
      EXPECT_EQ(sample.weights, std::vector<float>(first, first + sequence)) << sequence << " " << index;
    }
  }
}

TEST_F(Conversations, UnusableLinesAreNamed) {
  EXPECT_THAT(test::MessageOf([&] { Prepare("{\"messages\": []}\n"); }), testing::HasSubstr("talks.jsonl:1"));
  EXPECT_THAT(test::MessageOf([&] { Prepare("\n{\"messages\": [{\"role\": \"user\"}]}\n"); }),
              testing::HasSubstr("talks.jsonl:2"));
  EXPECT_THAT(test::MessageOf([&] { Prepare("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"); }),
              testing::HasSubstr("nothing to learn"));
  std::filesystem::remove(folder_ / "tokenizer/chat_template.jinja");
  EXPECT_THAT(test::MessageOf([&] { Prepare("{}\n"); }), testing::HasSubstr("has no chat template"));
  WriteBytes(folder_ / "plain.txt", "abc");
  PrepareDataset({.inputs = {folder_ / "plain.txt"}, .output = folder_ / "plain", .tokenizer = folder_ / "tokenizer"});
  EXPECT_THAT(
      test::MessageOf([&] { OpenSource({.source = folder_ / "plain.bin", .sequence = 2, .answers_only = true}); }),
      testing::HasSubstr("--format chat"));
}

}  // namespace
}  // namespace trireme
