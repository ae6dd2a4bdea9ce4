// Sequences of documents are cut into segments on the GPU for cuDNN, which no other test here calls.
#include "cuda_on_cpu/segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "device/cuda/attention_segments.h"
#include "device/workbench.h"

namespace trireme::cuda_on_cpu {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kSequence = 100;
constexpr std::int64_t kSegments = 5;

// Where the segments of a sequence begin, and its end: segment k at the first position, of those whose share is the
// k-th or a later one, that no later position sees past.
std::vector<std::int64_t> Bounds(const std::vector<float>& starts, std::int64_t batch) {
  std::vector<std::int64_t> bounds(kSegments + 1, kSequence);
  bounds[0] = 0;
  std::int64_t seen = kSequence;
  for (std::int64_t t = kSequence - 1; t > 0; --t) {
    seen = std::min(seen, static_cast<std::int64_t>(starts[static_cast<std::size_t>(batch * kSequence + t)]));
    for (std::int64_t k = 1; seen >= t && k <= t * kSegments / kSequence; ++k) {
      bounds[static_cast<std::size_t>(k)] = t;
    }
  }
  return bounds;
}

}  // namespace

void ExpectSegmentsCutWhereDocumentsBegin() {
  std::vector<float> starts(kBatch * kSequence);
  for (std::size_t batch = 0; batch < kBatch; ++batch) {
    const std::vector<std::size_t> documents =
        batch == 0 ? std::vector<std::size_t>{0, 7, 30, 55, 56, 90, 100} : std::vector<std::size_t>{0, 64, 100};
    for (std::size_t i = 0; i + 1 < documents.size(); ++i) {
      std::fill(starts.begin() + static_cast<std::ptrdiff_t>(batch * kSequence + documents[i]),
                starts.begin() + static_cast<std::ptrdiff_t>(batch * kSequence + documents[i + 1]),
                static_cast<float>(documents[i]));
    }
  }
  const auto device = MakeDevice({.kind = "cuda"});
  Workbench bench(*device);
  const AttentionArgs args{.batch = kBatch,
                           .sequence = kSequence,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_size = 8,
                           .document_starts = bench.From(DType::kInt32, {kBatch, kSequence}, starts)};
  CudaContext context(0, {.kind = "cuda"});
  void* const memory = device->Allocate(SegmentTable::Bytes(args, kSegments));
  const SegmentTable table(memory, args, kSegments);
  CutIntoSegments(context, args, kSegments, table);
  std::vector<std::int32_t> lengths(kBatch * kSegments);
  context.CopyToHost(lengths.data(), table.lengths, lengths.size() * 4);
  std::vector<std::int64_t> offsets(kBatch * kSegments + 1);
  context.CopyToHost(offsets.data(), table.statistic_offsets, offsets.size() * 8);
  for (std::int64_t batch = 0; batch < kBatch; ++batch) {
    const std::vector<std::int64_t> bounds = Bounds(starts, batch);
    for (std::int64_t k = 0; k < kSegments; ++k) {
      const auto entry = static_cast<std::size_t>(batch * kSegments + k);
      const std::int64_t begin = bounds[static_cast<std::size_t>(k)];
      EXPECT_EQ(lengths[entry], bounds[static_cast<std::size_t>(k + 1)] - begin) << batch << ", " << k;
      EXPECT_EQ(offsets[entry], (batch * kSequence + begin) * args.heads) << batch << ", " << k;
      std::vector<std::int32_t> own(static_cast<std::size_t>(lengths[entry]));
      context.CopyToHost(own.data(), table.document_starts + entry * kSequence, own.size() * 4);
      for (std::size_t i = 0; i < own.size(); ++i) {
        const auto start = static_cast<std::int64_t>(starts[static_cast<std::size_t>(batch * kSequence + begin) + i]);
        EXPECT_EQ(own[i], std::max<std::int64_t>(start - begin, 0)) << batch << ", " << k << ", " << i;
      }
    }
  }
  device->Free(memory);
}

TEST(Segments, AreCutWhereDocumentsBegin) { ExpectSegmentsCutWhereDocumentsBegin(); }

}  // namespace trireme::cuda_on_cpu
