// Attention within packed documents and with capped scores on a GPU: cuDNN's in bf16 and fp16 against the plain
// kernels' in fp32, which take the same numbers.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "device/attention_operands.h"
#include "device/cuda/attention.h"
#include "device/cuda/cuda_check.h"
#include "device/cudnn_version.h"

namespace trireme {
namespace {

struct FeatureCase {
  std::string name;
  std::int64_t batch;
  std::int64_t sequence;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_size;
  std::function<bool(std::int64_t batch, std::int64_t position)>
      begins;  // whether a document does; empty: no documents
  std::int64_t window = 0;
  float cap = 0;
};

// Documents of `tokens` each.
auto Every(std::int64_t tokens) {
  return [tokens](std::int64_t /*batch*/, std::int64_t position) { return position % tokens == 0; };
}

// Short and long ones, others in each sequence.
bool Mixed(std::int64_t batch, std::int64_t position) {
  return position % 1000 == 7 * (batch + 1) || (position > 2500 && position % 37 == batch);
}

// A long document, then padding that sees itself alone.
bool Padded(std::int64_t /*batch*/, std::int64_t position) { return position > 3000; }

std::vector<float> Starts(const FeatureCase& c) {
  std::vector<float> starts;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    std::int64_t start = 0;
    for (std::int64_t t = 0; t < c.sequence; ++t) {
      start = c.begins(b, t) ? t : start;
      starts.push_back(static_cast<float>(start));
    }
  }
  return starts;
}

AttentionArgs MakeArgs(Workbench& bench, DType working, const FeatureCase& c) {
  AttentionArgs args = MakeAttentionArgs(bench, working, {c.batch, c.sequence, c.heads, c.kv_heads, c.head_size});
  args.window = c.window;
  args.cap = c.cap;
  if (c.begins) {
    args.document_starts = bench.From(DType::kInt32, {c.batch, c.sequence}, Starts(c));
  }
  return args;
}

struct Results {
  std::vector<float> out;
  std::vector<float> statistics;
  std::vector<float> grad_query;
  std::vector<float> grad_key;
  std::vector<float> grad_value;
};

// Columns [first, first + count) of rows of `width`.
std::vector<float> Columns(const std::vector<float>& rows, std::int64_t width, std::int64_t first, std::int64_t count) {
  std::vector<float> columns;
  for (auto row = rows.begin(); row != rows.end(); row += width) {
    columns.insert(columns.end(), row + first, row + first + count);
  }
  return columns;
}

Results ReadResults(Workbench& bench, const AttentionArgs& args) {
  const std::int64_t query = args.heads * args.head_size;
  const std::int64_t key = args.kv_heads * args.head_size;
  const std::vector<float> gradient = bench.Read(args.grad_qkv);
  const auto columns = [&](std::int64_t first, std::int64_t count) {
    return Columns(gradient, query + 2 * key, first, count);
  };
  return {bench.Read(args.out), bench.Read(args.statistics), columns(0, query), columns(query, key),
          columns(query + key, key)};
}

// As RelativeDifference, of no less than 0.1: a document of one token has gradients of 0, but for rounding.
double GradientDifference(std::vector<float> gradient, std::vector<float> expected) {
  gradient.push_back(0.1F);
  expected.push_back(0.1F);
  return RelativeDifference(gradient, expected);
}

void ExpectNear(const Results& results, const Results& expected) {
  EXPECT_LE(RelativeDifference(results.out, expected.out), 1e-2);
  EXPECT_LE(RelativeDifference(results.statistics, expected.statistics), 2e-3);
  EXPECT_LE(GradientDifference(results.grad_query, expected.grad_query), 2e-2);
  EXPECT_LE(GradientDifference(results.grad_key, expected.grad_key), 2e-2);
  EXPECT_LE(GradientDifference(results.grad_value, expected.grad_value), 2e-2);
}

Results Attend(Device& device, DType working, const FeatureCase& c) {
  Workbench bench(device);
  const AttentionArgs args = MakeArgs(bench, working, c);
  bench.ops().AttentionForward(args);
  bench.ops().AttentionBackward(args);
  return ReadResults(bench, args);
}

// cuDNN's attention with a context of its own.
struct Cudnn {
  explicit Cudnn(bool deterministic)
      : context(0, {.kind = "cuda", .deterministic = deterministic}),
        attention(context),
        composes(CudnnDoesAttention(CudnnAttention::LoadedVersion()) && context.capability() >= 90) {}

  // Fills scratch memory with NaN, so that a number which is read before it is written shows.
  void Poison() {
    constexpr std::int64_t kBytes = std::int64_t{1} << 30;
    CheckCuda(cudaMemsetAsync(context.Scratch(kBytes), 0xFF, kBytes, context.stream()), "fill scratch memory");
  }

  CudaContext context;
  CudnnAttention attention;
  bool composes;  // documents and caps
};

// By cuDNN alone, which must take the call, and in segments where it is meant to.
Results AttendByCudnn(Device& device, Cudnn& cudnn, DType working, const FeatureCase& c) {
  Workbench bench(device);
  const AttentionArgs args = MakeArgs(bench, working, c);
  device.Synchronize();
  const bool in_segments = c.begins && c.sequence >= 2048 && !cudnn.context.deterministic();
  EXPECT_TRUE(cudnn.attention.Supports(args));
  cudnn.Poison();
  EXPECT_EQ(cudnn.attention.ForwardInSegments(args), in_segments);
  EXPECT_TRUE(in_segments || cudnn.attention.Forward(args));
  cudnn.Poison();
  EXPECT_EQ(cudnn.attention.BackwardInSegments(args), in_segments);
  EXPECT_TRUE(in_segments || cudnn.attention.Backward(args));
  CheckCuda(cudaStreamSynchronize(cudnn.context.stream()), "wait for attention");
  return ReadResults(bench, args);
}

void PrintTo(const FeatureCase& c, std::ostream* stream) { *stream << c.name; }

std::vector<FeatureCase> Cases() {
  return {
      {"OneDocument", 1, 512, 4, 4, 64, Every(512)},
      {"ShortDocuments", 2, 512, 4, 2, 64, Every(24)},
      {"DocumentsOfOneToken", 1, 320, 2, 1, 128, Every(1)},
      {"ShortDocumentsInAWindow", 2, 512, 4, 2, 64, Every(200), 64},
      {"ShortDocumentsWithACap", 1, 512, 4, 2, 128, Every(100), 0, 2},
      {"OneLongDocument", 1, 8192, 2, 2, 64, Every(8192)},
      {"LongSequencesOfShortDocuments", 2, 4096, 4, 2, 64, Every(48)},
      {"LongSequencesOfOneToken", 1, 4096, 2, 1, 64, Every(1)},
      {"HalvesOfALongSequence", 1, 8192, 4, 2, 128, Every(4096)},
      {"LongSequencesOfMixedDocuments", 2, 4096, 4, 2, 128, Mixed},
      {"MixedDocumentsOfEqualHeads", 2, 4096, 2, 2, 64, Mixed},
      {"MixedDocumentsInAWindowWithACap", 2, 4096, 4, 2, 128, Mixed, 300, 2},
      {"MixedDocumentsOfOddLength", 2, 5003, 2, 1, 64, Mixed},
      {"PaddingAfterALongDocument", 2, 4096, 4, 2, 64, Padded},
      {"Cap", 2, 512, 4, 2, 128, nullptr, 0, 2},
      {"CapOfEqualHeads", 1, 300, 2, 2, 64, nullptr, 0, 0.5F},
      {"CapInAWindow", 1, 1100, 4, 2, 128, nullptr, 200, 50},
      {"CapOfGemma2", 1, 600, 4, 2, 256, nullptr, 0, 50},
      {"CapOfGemma2InAWindow", 1, 600, 4, 2, 256, nullptr, 128, 5},
  };
}

// Devices are made once: opening a GPU's libraries takes longer than a case.
class FeatureAttention : public testing::TestWithParam<std::tuple<FeatureCase, bool>> {
 protected:
  static void TearDownTestSuite() {
    cudnn_.clear();
    devices_.clear();
  }
  static Device& DeviceFor(bool deterministic) {
    std::unique_ptr<Device>& device = devices_[deterministic];
    if (device == nullptr) {
      device = MakeDevice({.kind = "cuda", .deterministic = deterministic});
    }
    return *device;
  }
  static Cudnn& CudnnFor(bool deterministic) {
    std::unique_ptr<Cudnn>& cudnn = cudnn_[deterministic];
    if (cudnn == nullptr) {
      cudnn = std::make_unique<Cudnn>(deterministic);
    }
    return *cudnn;
  }

 private:
  static inline std::map<bool, std::unique_ptr<Device>> devices_;
  static inline std::map<bool, std::unique_ptr<Cudnn>> cudnn_;
};

TEST_P(FeatureAttention, InLowPrecisionAgreesWithThePlainKernels) {
  const FeatureCase& c = std::get<0>(GetParam());
  Device& device = DeviceFor(std::get<1>(GetParam()));
  Cudnn& cudnn = CudnnFor(std::get<1>(GetParam()));
  const Results expected = Attend(device, DType::kFloat32, c);
  for (const DType working : {DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(std::string(Name(working)));
    ExpectNear(cudnn.composes ? AttendByCudnn(device, cudnn, working, c) : Attend(device, working, c), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, FeatureAttention, testing::Combine(testing::ValuesIn(Cases()), testing::Bool()),
                         [](const auto& choice) {
                           return std::get<0>(choice.param).name + (std::get<1>(choice.param) ? "Deterministic" : "");
                         });

// 2 * 10 * 8192 * 8192 bytes of weights are 1.25 GiB.
TEST(AttentionScratch, OfMoreThanAGibibyteIsNotTaken) {
  const auto device = MakeDevice({.kind = "cuda"});
  Cudnn cudnn(true);
  Workbench bench(*device);
  const AttentionArgs args = MakeArgs(bench, DType::kBFloat16, {"", 1, 8192, 10, 10, 64, Every(100)});
  device->Synchronize();
  EXPECT_EQ(cudnn.attention.Forward(args), cudnn.composes);
  EXPECT_FALSE(cudnn.attention.Backward(args));
  EXPECT_FALSE(cudnn.attention.Backward(args));  // and is remembered
  CheckCuda(cudaStreamSynchronize(cudnn.context.stream()), "wait for attention");
}

TEST(AttentionScratch, HasRoomForWhatIsFreeOrHeld) {
  CudaContext context(0, {.kind = "cuda"});
  EXPECT_TRUE(context.HasRoomForScratch(0));
  EXPECT_TRUE(context.HasRoomForScratch(1 << 20));
  EXPECT_FALSE(context.HasRoomForScratch(std::int64_t{1} << 50));
  context.Scratch(std::int64_t{64} << 20);
  EXPECT_TRUE(context.HasRoomForScratch(std::int64_t{64} << 20));
}

// What is recorded holds for the documents of any micro batch.
TEST(RecordedAttention, FollowsTheDocuments) {
  const auto device = MakeDevice({.kind = "cuda"});
  FeatureCase c{"", 1, 4096, 4, 2, 64, Mixed};
  Workbench bench(*device);
  const AttentionArgs args = MakeArgs(bench, DType::kBFloat16, c);
  for (const auto& begins : std::vector<decltype(c.begins)>{Mixed, Every(4096), Every(300), Every(1), Mixed}) {
    c.begins = begins;
    bench.Write(args.document_starts, Starts(c));
    device->Repeat(1, [&] {
      device->ops().AttentionForward(args);
      device->ops().AttentionBackward(args);
    });
    ExpectNear(ReadResults(bench, args), Attend(*device, DType::kFloat32, c));
  }
}

}  // namespace
}  // namespace trireme
