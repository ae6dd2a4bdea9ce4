#include "train/batch_loader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/random.h"

namespace trireme {

BatchLoader::BatchLoader(Arena& arena, const LocalSizes& sizes, const StepTensors& tensors, const Options& options)
    : device_(arena.device()),
      sizes_(sizes),
      options_(options),
      tokens_(arena.Allocate(tensors.tokens)),
      targets_(arena.Allocate(tensors.targets)),
      weights_(arena.Allocate(tensors.loss_weights)),
      document_starts_(arena.Allocate(tensors.document_starts)),
      loss_sums_(arena.Allocate(tensors.loss_sums)),
      places_(arena.Allocate(tensors.places)),
      positions_(arena.Allocate(tensors.positions)) {
  if (places_.given()) {
    std::vector<std::int32_t> places;
    for (std::int64_t b = 0; b < sizes_.batch; ++b) {
      for (std::int64_t i = 0; i < sizes_.sequence; ++i) {
        places.push_back(static_cast<std::int32_t>(b * sizes_.keys + sizes_.share().Position(i)));
      }
    }
    device_.CopyFromHost(places_.data, places.data(), places_.bytes());
  }
}

template <typename Value>
void BatchLoader::TakeShare(const std::vector<Value>& all, std::int64_t first, std::vector<Value>& to, std::size_t at,
                            const ContextShare& share) {
  for (const std::int64_t chunk : share.Chunks()) {
    std::copy_n(all.begin() + first + chunk, share.chunk(), to.begin() + static_cast<std::ptrdiff_t>(at));
    at += static_cast<std::size_t>(share.chunk());
  }
}

std::vector<std::int32_t> BatchLoader::PositionsIn(const std::vector<std::int32_t>& document_starts) const {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(sizes_.keys));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<std::int32_t>(i) - (document_starts.empty() ? 0 : document_starts[i]);
  }
  return positions;
}

BatchLoader::HostBatch BatchLoader::Choose(const SampleSource& source, std::int64_t first, int micro_batches,
                                           bool training) const {
  HostBatch batch{.first = first, .micro_batches = micro_batches, .source = &source};
  std::vector<std::int64_t> order(static_cast<std::size_t>(options_.data_size * micro_batches * sizes_.batch));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (training && options_.document_masks && options_.model != nullptr) {
    // Dropout is drawn by the number of a micro batch's first sample: with it, micro batches stay together.
    const DealShape shape{.data_size = options_.data_size,
                          .micro_batches = micro_batches,
                          .micro_batch = sizes_.batch,
                          .keeps_groups = options_.model->dropout > 0 || options_.model->attention_dropout > 0};
    std::vector<double> work;
    work.reserve(order.size());
    for (const std::int64_t sample : order) {
      work.push_back(AttentionWork(*options_.model, source.DocumentLengths(first + sample)));
    }
    if (options_.balance) {
      order = DealByWork(work, shape);
    }
    batch.balance = BalanceOf(work, order, shape);
  }
  for (int j = 0; j < micro_batches; ++j) {
    const std::int64_t slot = (static_cast<std::int64_t>(j) * options_.data_size + options_.data_rank) * sizes_.batch;
    for (std::int64_t b = 0; b < sizes_.batch; ++b) {
      batch.samples.push_back(first + order[static_cast<std::size_t>(slot + b)]);
    }
  }
  return batch;
}

BatchLoader::HostBatch BatchLoader::Fetch(const SampleSource& source, std::int64_t first, int micro_batches,
                                          bool training) const {
  HostBatch batch = Choose(source, first, micro_batches, training);
  if (!NeedsSamples()) {
    return batch;
  }
  const auto count = static_cast<std::size_t>(micro_batches * sizes_.tokens);
  batch.tokens.resize(count);
  batch.targets.resize(count);
  batch.weights.assign(count, 1.0F);
  const std::size_t queries = static_cast<std::size_t>(sizes_.head_ranks) * count;
  batch.document_starts.assign(options_.document_masks ? queries : 0, 0);
  batch.positions.assign(positions_.given() ? count : 0, 0);
  const ContextShare share = sizes_.share();
  const ContextShare of_queries = sizes_.OfAttention().share();
  std::size_t at = 0;
  for (const std::int64_t number : batch.samples) {
    const Sample sample = source.Get(number);
    TakeShare(sample.tokens, 0, batch.tokens, at, share);
    TakeShare(sample.tokens, 1, batch.targets, at, share);
    if (!sample.weights.empty()) {
      TakeShare(sample.weights, 0, batch.weights, at, share);
    }
    if (options_.document_masks && !sample.document_starts.empty()) {
      TakeShare(sample.document_starts, 0, batch.document_starts, at * static_cast<std::size_t>(sizes_.head_ranks),
                of_queries);
    }
    if (positions_.given()) {
      TakeShare(PositionsIn(sample.document_starts), 0, batch.positions, at, share);
    }
    at += static_cast<std::size_t>(sizes_.sequence);
  }
  return batch;
}

void BatchLoader::Prepare(const SampleSource& source, std::int64_t first, int micro_batches) {
  if (!NeedsSamples()) {
    return;
  }
  next_ = std::async(std::launch::async,
                     [this, &source, first, micro_batches] { return Fetch(source, first, micro_batches, true); });
}

std::vector<MicroBatch> BatchLoader::LoadTraining(const SampleSource& source, std::int64_t first, int micro_batches) {
  HostBatch batch;
  if (next_.valid()) {
    batch = next_.get();
  }
  if (batch.first != first || batch.micro_batches != micro_batches || batch.source != &source) {
    batch = Fetch(source, first, micro_batches, true);
  }
  balance_ = batch.balance;
  return Upload(batch, true);
}

std::vector<MicroBatch> BatchLoader::LoadMoved(const SampleSource& source, std::int64_t first, int micro_batches) {
  if (next_.valid()) {
    next_.get();  // its thread reads the options
  }
  const int own = std::exchange(options_.data_rank, (options_.data_rank + 1) % options_.data_size);
  std::vector<MicroBatch> moved = Upload(Fetch(source, first, micro_batches, true), true);
  options_.data_rank = own;
  return moved;
}

std::vector<MicroBatch> BatchLoader::LoadEvaluation(const SampleSource& source, std::int64_t first, int micro_batches,
                                                    std::int64_t end) {
  HostBatch batch = Fetch(source, first, micro_batches, false);
  if (!batch.weights.empty()) {
    auto weights = batch.weights.begin();
    for (const std::int64_t sample : batch.samples) {
      std::fill_n(weights, sample >= end ? sizes_.sequence : 0, 0.0F);
      weights += sizes_.sequence;
    }
  }
  return Upload(batch, false);
}

std::vector<MicroBatch> BatchLoader::Upload(const HostBatch& batch, bool training) {
  const int micro_batches = batch.micro_batches;
  loaded_ = micro_batches;
  const auto upload = [&](const Tensor& to, const auto& from) {
    if (!from.empty()) {
      device_.CopyFromHost(to.data, from.data(), static_cast<std::int64_t>(from.size()) * 4);
    }
  };
  upload(tokens_, batch.tokens);
  upload(targets_, batch.targets);
  upload(weights_, batch.weights);
  upload(document_starts_, batch.document_starts);
  upload(positions_, batch.positions);

  const std::int64_t n = sizes_.tokens;
  const double global_tokens =
      static_cast<double>(micro_batches) * options_.data_size * static_cast<double>(sizes_.batch * sizes_.keys);
  const std::int64_t queries = sizes_.head_ranks * sizes_.sequence;
  std::vector<MicroBatch> result;
  for (int j = 0; j < micro_batches; ++j) {
    MicroBatch micro_batch;
    micro_batch.tokens = tokens_.Range(j * n, n);
    micro_batch.targets = targets_.Range(j * n, n);
    micro_batch.weights = weights_.Range(j * n, n);
    if (options_.document_masks) {
      micro_batch.document_starts =
          document_starts_.Range(j * sizes_.batch * queries, sizes_.batch * queries).Reshaped({sizes_.batch, queries});
    }
    micro_batch.places = places_;
    micro_batch.positions = positions_.given() ? positions_.Range(j * n, n) : Tensor{};
    micro_batch.loss_sums = loss_sums_.Range(j * 2, 2);
    micro_batch.first_sample = batch.samples[static_cast<std::size_t>(j * sizes_.batch)];
    micro_batch.dropout_key = RandomKey(options_.seed, "dropout");
    micro_batch.gradient_factor = static_cast<float>(1.0 / global_tokens);
    micro_batch.training = training;
    result.push_back(micro_batch);
  }
  return result;
}

}  // namespace trireme
