#include "nn/ring_attention.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/causal_pairs.h"

namespace trireme {
namespace {

constexpr int kKeysTag = 0;
constexpr int kGradientsTag = 1;

}  // namespace

BlockCopy CopyOfKeys(const LocalSizes& sizes, const Tensor& qkv, const Tensor& kv) {
  return {.to = kv,
          .from = qkv.Range(sizes.attention, qkv.count() - sizes.attention),
          .rows = sizes.tokens,
          .columns = kv.shape[1],
          .to_stride = kv.shape[1],
          .from_stride = sizes.qkv};
}

BlockCopy CopyToKeys(const LocalSizes& sizes, const Tensor& kv, const Tensor& qkv) {
  BlockCopy copy = CopyOfKeys(sizes, qkv, kv);
  std::swap(copy.to, copy.from);
  std::swap(copy.to_stride, copy.from_stride);
  return copy;
}

std::vector<KeyChunk> RingAttention::ChunksFrom(int distance) const {
  const ContextShare source{.sequence = sizes.keys,
                            .degree = sizes.context,
                            .rank = (group.rank() + sizes.context - distance) % sizes.context,
                            .stripes = sizes.stripes};
  std::vector<KeyChunk> chunks;
  for (std::int64_t row = 0; row < source.tokens(); row += source.chunk()) {
    chunks.push_back({.position = source.Position(row), .row = row});
  }
  return chunks;
}

bool RingAttention::Sees(const std::vector<KeyChunk>& chunks) const {
  const std::vector<std::int64_t> queries = sizes.share().Chunks();
  return std::any_of(queries.begin(), queries.end(), [&](std::int64_t query) {
    return std::any_of(chunks.begin(), chunks.end(), [&](const KeyChunk& key) {
      return CausalPairsBetween(query, key.position, sizes.share().chunk(), sizes.window) > 0;
    });
  });
}

void RingAttention::Step(const std::function<void()>& send, const std::function<void()>& attend,
                         const std::function<void()>& receive) const {
  if (!overlaps()) {
    send();
    attend();
    receive();
    return;
  }
  // Here the block is there, and no earlier work reads the memory that the next one is received into.
  const Event ready = device->RecordEvent();
  attend();
  const int stream = group.stream() == kComputeStream ? kComputeStream : kContextStream;
  device->StreamWait(device->OnStream(stream, ready, [&] {
    send();
    receive();
  }));
}

void RingAttention::Forward(const AttentionArgs& args) const {
  const RingPlan plan(sizes, false);
  const Tensor sum = At(plan.sum);
  const auto block = [&](int distance) { return At(plan.kv[static_cast<std::size_t>(distance % 2)]); };
  ops.CopyBlocks(CopyOfKeys(sizes, args.qkv, block(0)));
  ops.Fill(sum, 0);
  ops.Fill(args.statistics, -std::numeric_limits<float>::infinity());
  for (int distance = 0; distance < sizes.context; ++distance) {
    const bool last = distance + 1 == sizes.context;
    const auto send = [&] {
      if (!last) {
        group.Send(block(distance), next(), kKeysTag);
      }
    };
    const auto attend = [&] {
      const std::vector<KeyChunk> chunks = ChunksFrom(distance);
      if (!Sees(chunks)) {
        return;
      }
      AttentionArgs part = args;
      part.key_chunks = chunks;
      part.kv = block(distance);
      part.out = At(plan.part);
      part.statistics = At(plan.part_statistics);
      ops.AttentionForward(part);
      ops.MergeAttention({.batch = args.batch,
                          .sequence = args.sequence,
                          .heads = args.heads,
                          .head_size = args.head_size,
                          .out = sum,
                          .statistics = args.statistics,
                          .part_out = part.out,
                          .part_statistics = part.statistics});
    };
    Step(send, attend, [&] {
      if (!last) {
        group.Receive(block(distance + 1), previous(), kKeysTag);
      }
    });
  }
  ops.Copy(args.out, sum);
}

void RingAttention::Backward(const AttentionArgs& args) const {
  const RingPlan plan(sizes, true);
  const Tensor grad_sum = At(plan.grad_sum);
  const Tensor grad_kv_part = At(plan.grad_kv_part);
  const auto block = [&](int distance) { return At(plan.kv[static_cast<std::size_t>(distance % 2)]); };
  const auto travelling = [&](int distance) { return At(plan.grad_kv[static_cast<std::size_t>(distance % 2)]); };
  ops.CopyBlocks(CopyOfKeys(sizes, args.qkv, block(0)));
  ops.Fill(grad_sum, 0);
  ops.Fill(At(plan.grad_part), 0);  // of keys and values it stays 0
  ops.Fill(travelling(0), 0);
  for (int distance = 0; distance < sizes.context; ++distance) {
    const bool last = distance + 1 == sizes.context;
    const std::vector<KeyChunk> chunks = ChunksFrom(distance);
    const bool seen = Sees(chunks);
    const auto send = [&] {
      if (distance > 0) {
        group.Send(travelling(distance - 1), next(), kGradientsTag);
      }
      if (!last) {
        group.Send(block(distance), next(), kKeysTag);
      }
    };
    const auto attend = [&] {
      if (!seen) {
        return;
      }
      AttentionArgs part = args;
      part.key_chunks = chunks;
      part.kv = block(distance);
      part.grad_qkv = At(plan.grad_part);
      part.grad_kv = grad_kv_part;
      ops.AttentionBackward(part);
      ops.Add(grad_sum, part.grad_qkv);
    };
    Step(send, attend, [&] {
      // The gradients of these keys, with the parts of the ranks that had them before.
      if (distance > 0) {
        group.Receive(travelling(distance), previous(), kGradientsTag);
      }
      if (!last) {
        group.Receive(block(distance + 1), previous(), kKeysTag);
      }
    });
    if (seen) {
      ops.Add(travelling(distance), grad_kv_part);
    }
  }
  group.Send(travelling(sizes.context - 1), next(), kGradientsTag);
  group.Receive(travelling(sizes.context), previous(), kGradientsTag);
  ops.Copy(args.grad_qkv, grad_sum);
  ops.Copy(grad_kv_part, travelling(sizes.context));
  ops.CopyBlocks(CopyToKeys(sizes, grad_kv_part, args.grad_qkv));
}

}  // namespace trireme
