#include "cost/formulas.h"

namespace trireme {

double ModelFlops(const ModelConfig& config, double samples) {
  const auto h = static_cast<double>(config.hidden);
  const auto s = static_cast<double>(config.sequence);
  const auto layers = static_cast<double>(config.layers);
  const auto q = static_cast<double>(config.heads * config.head_size());
  const double k = q * static_cast<double>(config.kv_heads == 0 ? config.heads : config.kv_heads) /
                   static_cast<double>(config.heads);
  const double products = IsGated(config.feed_forward) ? 3 : 2;
  const auto sparse = static_cast<double>(config.SparseLayers());
  const ExpertsConfig& experts = config.experts;
  const double of_dense = static_cast<double>(config.ffn) * products * (layers - sparse);
  const double of_sparse = (static_cast<double>(experts.chosen * experts.ffn + experts.shared_ffn) * products +
                            static_cast<double>(experts.count + (experts.shared_gate ? 1 : 0))) *
                           sparse;
  // Latent attention: its products instead of one, and scores of more elements than values have.
  const double latent = static_cast<double>(config.AddedByLatent()) * layers;
  const double wider = config.latent.any()
                           ? 1 + static_cast<double>(config.latent.rope) / (2 * static_cast<double>(config.head_size()))
                           : 1;
  // Forward, the gradient of the input and, unless it is frozen, that of the matrix: 2 each.
  const double passes = config.adapter.any() ? 4 : 6;
  const double adapters = config.adapter.any() ? 6 * static_cast<double>(TrainedCount(config)) : 0;
  const double per_token = passes * h * (of_dense + of_sparse) + passes * (h * (q + 2 * k) + q * h) * layers +
                           passes * latent + passes * h * static_cast<double>(config.vocabulary) + adapters;
  return samples * s * per_token + 6 * samples * s * s * q * layers * wider;
}

double EstimatedFlops(const ModelConfig& config, double samples, bool recomputation) {
  return (recomputation ? 8.0 : 6.0) * static_cast<double>(ActiveParameterCount(config)) * samples *
         static_cast<double>(config.sequence);
}

double MegatronFlops(const ModelConfig& config, double samples, bool recomputation) {
  const auto h = static_cast<double>(config.hidden);
  const auto s = static_cast<double>(config.sequence);
  const auto layers = static_cast<double>(config.layers);
  const double factor = recomputation ? 4 : 3;
  return 24 * factor * samples * s * layers * h * h *
         (1 + s / (6 * h) + static_cast<double>(config.vocabulary) / (16 * layers * h));
}

double TrainingDeviceHours(double tokens, double parameters, double flops_per_second, bool recomputation) {
  return (recomputation ? 8.0 : 6.0) * tokens * parameters / flops_per_second / 3600;
}

double TrainingDays(double tokens, double parameters, double devices, double flops_per_second, bool recomputation) {
  return TrainingDeviceHours(tokens, parameters, flops_per_second, recomputation) / devices / 24;
}

}  // namespace trireme
