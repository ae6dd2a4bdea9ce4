#include "run/users_words.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

namespace trireme {
namespace {

using Words = std::map<std::string_view, std::string_view>;

// By key: words of Megatron-LM, DeepSpeed, Hugging Face, torchtitan, nanoGPT and nanochat.
const Words& KeyWords() {
  static const Words kWords = {
      {"lr", "optimizer.learning_rate"},
      {"max_lr", "optimizer.learning_rate"},
      {"min_lr", "optimizer.schedule.final"},
      {"lr_scheduler", "optimizer.schedule.kind"},
      {"lr_scheduler_type", "optimizer.schedule.kind"},
      {"lr_decay_style", "optimizer.schedule.kind"},
      {"warmup", "optimizer.schedule.warmup_samples"},
      {"warmup_steps", "optimizer.schedule.warmup_samples"},
      {"warmup_iters", "optimizer.schedule.warmup_samples"},
      {"warmup_ratio", "optimizer.schedule.warmup_samples"},
      {"lr_warmup_iters", "optimizer.schedule.warmup_samples"},
      {"lr_warmup_samples", "optimizer.schedule.warmup_samples"},
      {"wd", "optimizer.weight_decay"},
      {"clip_grad", "optimizer.clip"},
      {"grad_clip", "optimizer.clip"},
      {"gradient_clipping", "optimizer.clip"},
      {"max_grad_norm", "optimizer.clip"},
      {"max_norm", "optimizer.clip"},
      {"eps", "optimizer.epsilon"},
      {"adam_eps", "optimizer.epsilon"},
      {"adam_beta1", "optimizer.beta1"},
      {"adam_beta2", "optimizer.beta2"},
      {"optim", "optimizer.name"},
      {"bs", "batch.global"},
      {"gbs", "batch.global"},
      {"batch_size", "batch.global"},
      {"global_batch_size", "batch.global"},
      {"train_batch_size", "batch.global"},
      {"total_batch_size", "batch.global"},
      {"gradient_accumulation_steps", "batch.global"},
      {"grad_accum", "batch.global"},
      {"mbs", "layout.micro_batch"},
      {"micro_batch_size", "layout.micro_batch"},
      {"device_batch_size", "layout.micro_batch"},
      {"per_device_train_batch_size", "layout.micro_batch"},
      {"train_micro_batch_size_per_gpu", "layout.micro_batch"},
      {"seq_len", "model.sequence"},
      {"seq_length", "model.sequence"},
      {"sequence_length", "model.sequence"},
      {"sequence_len", "model.sequence"},
      {"max_seq_len", "model.sequence"},
      {"max_length", "model.sequence"},
      {"block_size", "model.sequence"},
      {"context_length", "model.sequence"},
      {"n_ctx", "model.sequence"},
      {"max_position_embeddings", "model.sequence"},
      {"n_layer", "model.layers"},
      {"n_layers", "model.layers"},
      {"num_layers", "model.layers"},
      {"num_hidden_layers", "model.layers"},
      {"depth", "model.layers"},
      {"n_head", "model.heads"},
      {"n_heads", "model.heads"},
      {"num_heads", "model.heads"},
      {"num_attention_heads", "model.heads"},
      {"n_kv_head", "model.kv_heads"},
      {"n_kv_heads", "model.kv_heads"},
      {"num_kv_heads", "model.kv_heads"},
      {"num_key_value_heads", "model.kv_heads"},
      {"num_query_groups", "model.kv_heads"},
      {"d_model", "model.hidden"},
      {"n_embd", "model.hidden"},
      {"hidden_size", "model.hidden"},
      {"dim", "model.hidden"},
      {"d_ff", "model.ffn"},
      {"n_inner", "model.ffn"},
      {"ffn_hidden_size", "model.ffn"},
      {"intermediate_size", "model.ffn"},
      {"vocab", "model.vocabulary"},
      {"vocab_size", "model.vocabulary"},
      {"n_vocab", "model.vocabulary"},
      {"rope_base", "model.rope_theta"},
      {"rotary_base", "model.rope_theta"},
      {"model_type", "model.family"},
      {"tp", "layout.tensor"},
      {"tensor_parallel", "layout.tensor"},
      {"tensor_parallel_size", "layout.tensor"},
      {"tensor_parallel_degree", "layout.tensor"},
      {"tensor_model_parallel_size", "layout.tensor"},
      {"num_experts", "model.experts"},
      {"num_local_experts", "model.experts"},
      {"n_routed_experts", "model.experts"},
      {"num_experts_per_tok", "model.experts_per_token"},
      {"moe_router_topk", "model.experts_per_token"},
      {"top_k", "model.experts_per_token"},
      {"moe_intermediate_size", "model.expert_ffn"},
      {"moe_ffn_hidden_size", "model.expert_ffn"},
      {"shared_expert_intermediate_size", "model.shared_ffn"},
      {"moe_shared_expert_intermediate_size", "model.shared_ffn"},
      {"moe_router_score_function", "model.router"},
      {"norm_topk_prob", "model.router_renormalize"},
      {"routed_scaling_factor", "model.router_scale"},
      {"moe_router_topk_scaling_factor", "model.router_scale"},
      {"first_k_dense_replace", "model.dense_layers"},
      {"decoder_sparse_step", "model.expert_period"},
      {"moe_layer_freq", "model.expert_period"},
      {"moe_z_loss_coeff", "model.router_z_loss"},
      {"pp", "layout.pipeline"},
      {"pipeline_parallel", "layout.pipeline"},
      {"pipeline_parallel_size", "layout.pipeline"},
      {"pipeline_parallel_degree", "layout.pipeline"},
      {"pipeline_model_parallel_size", "layout.pipeline"},
      {"dp", "layout.data"},
      {"data_parallel", "layout.data"},
      {"data_parallel_size", "layout.data"},
      {"data_parallel_shard_degree", "layout.data"},
      {"data_parallel_replicate_degree", "layout.data"},
      {"ep", "layout.expert"},
      {"expert_parallel", "layout.expert"},
      {"expert_parallel_degree", "layout.expert"},
      {"expert_model_parallel_size", "layout.expert"},
      {"cp", "layout.context"},
      {"context_parallel", "layout.context"},
      {"context_parallel_size", "layout.context"},
      {"context_parallel_degree", "layout.context"},
      {"sp", "layout.sequence_parallel"},
      {"vpp", "layout.chunks"},
      {"virtual_pipeline_model_parallel_size", "layout.chunks"},
      {"zero_stage", "layout.zero"},
      {"zero_optimization", "layout.zero"},
      {"fsdp", "layout.zero"},
      {"use_distributed_optimizer", "layout.zero"},
      {"gradient_checkpointing", "layout.recompute"},
      {"activation_checkpointing", "layout.recompute"},
      {"activation_checkpoint", "layout.recompute"},
      {"recompute_granularity", "layout.recompute"},
      {"max_steps", "train.steps"},
      {"max_iters", "train.steps"},
      {"train_iters", "train.steps"},
      {"num_iterations", "train.steps"},
      {"num_steps", "train.steps"},
      {"total_steps", "train.steps"},
      {"iters", "train.steps"},
      {"epochs", "train.tokens"},
      {"num_epochs", "train.tokens"},
      {"num_train_epochs", "train.tokens"},
      {"max_tokens", "train.tokens"},
      {"train_samples", "train.samples"},
      {"precision", "train.dtype"},
      {"bf16", "train.dtype"},
      {"fp16", "train.dtype"},
      {"fp8", "train.dtype"},
      {"mixed_precision", "train.dtype"},
      {"random_seed", "train.seed"},
      {"dataset", "data.source"},
      {"data_path", "data.source"},
      {"train_data", "data.source"},
      {"dataset_path", "data.source"},
      {"eval_interval", "validation.every"},
      {"eval_every", "validation.every"},
      {"eval_steps", "validation.every"},
      {"val_interval", "validation.every"},
      {"eval_iters", "validation.samples"},
      {"save_interval", "checkpoint.every"},
      {"save_every", "checkpoint.every"},
      {"save_steps", "checkpoint.every"},
      {"save_total_limit", "checkpoint.keep"},
      {"lora_r", "lora.rank"},
      {"lora_rank", "lora.rank"},
      {"lora_alpha", "lora.alpha"},
      {"target_modules", "lora.targets"},
  };
  return kWords;
}

// By key: why there is none, and what to take instead.
const Words& Reasons() {
  static constexpr std::string_view kDrops =
      ": no token is dropped here, because whom a capacity drops depends on the layout; leave it out, and set "
      "model.balance_loss to spread tokens over experts";
  static constexpr std::string_view kBalance =
      ": a balance loss of a micro batch depends on how the batch is cut; model.balance_loss is one of each sequence";
  static const Words kWords = {
      {"capacity_factor", kDrops},
      {"expert_capacity_factor", kDrops},
      {"moe_expert_capacity_factor", kDrops},
      {"moe_token_drop_policy", kDrops},
      {"drop_tokens", kDrops},
      {"aux_loss", kBalance},
      {"aux_loss_coef", kBalance},
      {"router_aux_loss_coef", kBalance},
      {"moe_aux_loss_coeff", kBalance},
  };
  return kWords;
}

const Words& TableWords() {
  static const Words kWords = {
      {"parallel", "layout"},
      {"parallelism", "layout"},
      {"distributed", "layout"},
      {"training", "train"},
      {"trainer", "train"},
      {"optim", "optimizer"},
      {"optimiser", "optimizer"},
      {"dataset", "data"},
      {"eval", "validation"},
      {"evaluation", "validation"},
      {"scheduler", "optimizer.schedule"},
      {"lr_scheduler", "optimizer.schedule"},
      {"checkpointing", "checkpoint"},
      {"logging", "log"},
      {"metrics", "log"},
  };
  return kWords;
}

std::string Find(const Words& words, const std::string& word) {
  std::string plain = word.substr(word.rfind('.') + 1);
  plain.erase(0, std::min(plain.find_first_not_of('-'), plain.size()));
  std::transform(plain.begin(), plain.end(), plain.begin(),
                 [](unsigned char letter) { return letter == '-' ? '_' : static_cast<char>(std::tolower(letter)); });
  const auto found = words.find(plain);
  return found == words.end() ? "" : std::string(found->second);
}

}  // namespace

std::string KeyOfUsersWord(const std::string& word) { return Find(KeyWords(), word); }
std::string ReasonAgainst(const std::string& word) { return Find(Reasons(), word); }
std::string TableOfUsersWord(const std::string& word) { return Find(TableWords(), word); }

}  // namespace trireme
