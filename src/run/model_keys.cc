#include "run/recipe_rows.h"

namespace trireme {

std::vector<RecipeKey> ModelKeys() {
  return {
      InEveryManifest(Text(
          "model.family", "gpt2, bloom, llama and those of docs/reference/families.md",
          [](RunConfig & c) -> auto& { return c.model.family; })),
      InEveryManifest(Number(
          "model.layers", "transformer blocks", [](RunConfig & c) -> auto& { return c.model.layers; }, 1, 10'000)),
      InEveryManifest(Number(
          "model.hidden", "width of the residual stream", [](RunConfig & c) -> auto& { return c.model.hidden; }, 1,
          1 << 20)),
      InEveryManifest(Number(
          "model.heads", "attention heads", [](RunConfig & c) -> auto& { return c.model.heads; }, 1, 1 << 20)),
      InEveryManifest(Number(
          "model.kv_heads", "heads of keys and values; 0: as many as heads",
          [](RunConfig & c) -> auto& { return c.model.kv_heads; }, 0, 1 << 20)),
      Number(
          "model.head_dim", "elements of a head; 0: hidden / heads",
          [](RunConfig & c) -> auto& { return c.model.head_dim; }, 0, 1 << 16),
      InEveryManifest(Number(
          "model.ffn", "inner width of the feed-forward part; 0: the family's rule",
          [](RunConfig & c) -> auto& { return c.model.ffn; }, 0, 1 << 22)),
      Number(
          "model.experts", "experts in the feed-forward part of a layer (docs/experts.md); 0: none",
          [](RunConfig & c) -> auto& { return c.model.experts.count; }, 0, 4096),
      Number(
          "model.experts_per_token", "of them, those that each token passes through",
          [](RunConfig & c) -> auto& { return c.model.experts.chosen; }, 0, 4096),
      Number(
          "model.expert_ffn", "inner width of an expert; 0: model.ffn",
          [](RunConfig & c) -> auto& { return c.model.experts.ffn; }, 0, 1 << 22),
      Number(
          "model.shared_ffn", "inner width of an expert that every token has beside the chosen ones; 0: none",
          [](RunConfig & c) -> auto& { return c.model.experts.shared_ffn; }, 0, 1 << 22),
      Flag(
          "model.shared_gate", "the shared expert's output is multiplied by a sigmoid of its own",
          [](RunConfig & c) -> auto& { return c.model.experts.shared_gate; }),
      Number(
          "model.q_lora_rank", "latent attention: width that queries pass through; 0: they do not",
          [](RunConfig & c) -> auto& { return c.model.latent.query_rank; }, 0, 1 << 16),
      Number(
          "model.kv_lora_rank", "latent attention, which the planner prices: width of keys and values; 0: not latent",
          [](RunConfig & c) -> auto& { return c.model.latent.kv_rank; }, 0, 1 << 16),
      Flag(
          "model.attention_sinks", "attention to nothing by a logit of each head (GPT-OSS), which the planner prices",
          [](RunConfig & c) -> auto& { return c.model.attention_sinks; }),
      Choice(
          "model.router", "how the router's logits become scores",
          [](RunConfig & c) -> auto& { return c.model.experts.score; }),
      Flag(
          "model.router_renormalize", "weights of the chosen experts add up to model.router_scale",
          [](RunConfig & c) -> auto& { return c.model.experts.renormalize; }),
      Number(
          "model.router_scale", "by which weights of experts are multiplied",
          [](RunConfig & c) -> auto& { return c.model.experts.scale; }, 0, 1e6),
      Number(
          "model.dense_layers", "the first so many layers have no experts",
          [](RunConfig & c) -> auto& { return c.model.experts.dense_layers; }, 0, 10'000),
      Number(
          "model.expert_period", "every so many layers one has experts; 1: all do",
          [](RunConfig & c) -> auto& { return c.model.experts.period; }, 1, 10'000),
      MayChange(Number(
          "model.balance_loss", "weight of the loss that spreads the tokens of each sequence over the experts; 0: none",
          [](RunConfig & c) -> auto& { return c.model.experts.balance_loss; }, 0, 1e6)),
      MayChange(Number(
          "model.router_z_loss", "weight of the squared log-normaliser of the router's logits",
          [](RunConfig & c) -> auto& { return c.model.experts.z_loss; }, 0, 1e6)),
      InEveryManifest(Number(
          "model.vocabulary", "tokens known, unpadded", [](RunConfig & c) -> auto& { return c.model.vocabulary; }, 2,
          1 << 24)),
      InEveryManifest(MayChange(Number(
          "model.sequence", "tokens of a sample", [](RunConfig & c) -> auto& { return c.model.sequence; }, 1,
          1 << 24))),
      InEveryManifest(Flag(
          "model.tie_embeddings", "the output projection is the token table; default: the family's choice",
          [](RunConfig & c) -> auto& { return c.model.tie_embeddings; })),
      InEveryManifest(MayChange(Number(
          "model.dropout", "after the embedding and after each branch of a block",
          [](RunConfig & c) -> auto& { return c.model.dropout; }, 0, 0.999))),
      MayChange(Number(
          "model.attention_dropout",
          "of the weights that attention's scores become; on GPUs with train.attention = \"plain\" alone",
          [](RunConfig & c) -> auto& { return c.model.attention_dropout; }, 0, 0.999)),
      InEveryManifest(MayChange(Number(
          "model.norm_epsilon", "added to the variance in norms",
          [](RunConfig & c) -> auto& { return c.model.norm_epsilon; }, 1e-30, 1))),
      InEveryManifest(MayChange(Number(
          "model.rope_theta", "base of rotary positions", [](RunConfig & c) -> auto& { return c.model.rope_theta; }, 1,
          1e12))),
      Number(
          "model.local_rope_theta", "base of rotary positions in windowed layers; 0: as in the others",
          [](RunConfig & c) -> auto& { return c.model.local_rope_theta; }, 0, 1e12),
      Number(
          "model.rotary_fraction", "share of a head that rotary positions turn; 0: the family's",
          [](RunConfig & c) -> auto& { return c.model.rotary_fraction; }, 0, 1),
      Choice(
          "model.rope_scaling", "how rotary positions reach beyond those of an earlier training",
          [](RunConfig & c) -> auto& { return c.model.rope_scaling; }),
      Number(
          "model.rope_factor", "by which scaled rotary positions are stretched",
          [](RunConfig & c) -> auto& { return c.model.rope_factor; }, 1, 1e6),
      MayChange(Number(
          "model.rope_low", "turns below which a pair is stretched whole (llama3, yarn); 0: the kind's",
          [](RunConfig & c) -> auto& { return c.model.rope_low; }, 0, 1e6)),
      MayChange(Number(
          "model.rope_high", "turns above which a pair is not stretched (llama3, yarn); 0: the kind's",
          [](RunConfig & c) -> auto& { return c.model.rope_high; }, 0, 1e6)),
      MayChange(Number(
          "model.rope_original", "positions of the earlier training (llama3, yarn, longrope); 0: model.sequence",
          [](RunConfig & c) -> auto& { return c.model.rope_original; }, 0, 1 << 24)),
      Number(
          "model.rope_magnitude", "of elements that yarn and longrope turn; 0: what follows from model.rope_factor",
          [](RunConfig & c) -> auto& { return c.model.rope_magnitude; }, 0, 1e6),
      Optional(Text(
          "model.rope_short_factors", "longrope: divisors of each pair's turns up to rope_original: \"1, 1.25\"",
          [](RunConfig & c) -> auto& { return c.model.rope_short_factors; })),
      Optional(Text(
          "model.rope_long_factors", "longrope: divisors of each pair's turns in longer sequences",
          [](RunConfig & c) -> auto& { return c.model.rope_long_factors; })),
      Number(
          "model.window", "keys that a query sees, itself included; 0: all",
          [](RunConfig & c) -> auto& { return c.model.window; }, 0, 1 << 24),
      Number(
          "model.window_period", "every so many layers one sees all keys; 0: the family's, or none does",
          [](RunConfig & c) -> auto& { return c.model.window_period; }, 0, 10'000),
      Optional(Text(
          "model.layer_types",
          "kinds of layers, a pattern that is repeated: \"3*sliding, full\"; full_nope and sliding_nope have no "
          "positions",
          [](RunConfig & c) -> auto& { return c.model.layer_types; })),
      Number(
          "model.attention_cap", "scores are cap * tanh(score / cap); 0: not capped",
          [](RunConfig & c) -> auto& { return c.model.attention_cap; }, 0, 1e6),
      Number(
          "model.logit_cap", "likewise, of the output; 0: not capped",
          [](RunConfig & c) -> auto& { return c.model.logit_cap; }, 0, 1e6),
      Number(
          "model.query_scalar", "scores are divided by its root; 0: the head size",
          [](RunConfig & c) -> auto& { return c.model.query_scalar; }, 0, 1e9),
      Number(
          "model.attention_multiplier", "scores are multiplied by it; 0: by 1 / root of model.query_scalar",
          [](RunConfig & c) -> auto& { return c.model.attention_multiplier; }, 0, 1e6),
      Flag(
          "model.scores_by_layer", "scores of layer i, counted from 1, are divided by i as well",
          [](RunConfig & c) -> auto& { return c.model.scores_by_layer; }),
      Number(
          "model.embedding_multiplier", "of token embeddings; 0: the family's",
          [](RunConfig & c) -> auto& { return c.model.embedding_multiplier; }, 0, 1e6),
      Number(
          "model.residual_multiplier", "of what a branch adds to the residual stream",
          [](RunConfig & c) -> auto& { return c.model.residual_multiplier; }, 1e-6, 1e6),
      Number(
          "model.logits_scaling", "the output is divided by it",
          [](RunConfig & c) -> auto& { return c.model.logits_scaling; }, 1e-6, 1e6),
      Automatic(Choice(
          "model.activation", "of the feed-forward part, of its gates where it has some; auto: the family's",
          [](RunConfig & c) -> auto& { return c.model.activation; })),
      Automatic(Choice(
          "model.attention_bias", "both linear layers of attention have biases; auto: the family's choice",
          [](RunConfig & c) -> auto& { return c.model.attention_bias; })),
      Automatic(Choice(
          "model.mlp_bias", "linear layers of the feed-forward part have biases; auto: the family's choice",
          [](RunConfig & c) -> auto& { return c.model.mlp_bias; })),
      Flag(
          "model.serial_branches", "of gpt_neox: the feed-forward part reads what attention left",
          [](RunConfig & c) -> auto& { return c.model.serial_branches; }),
      StoredAs("norm_embedding",
               Automatic(Choice(
                   "model.embedding_norm", "a norm right after the embedding; auto: the family's choice",
                   [](RunConfig & c) -> auto& { return c.model.embedding_norm_choice; }))),
      InEveryManifest(MayChange(Number(
          "model.initial_deviation", "standard deviation of initial weights",
          [](RunConfig & c) -> auto& { return c.model.initial_deviation; }, 1e-12, 100))),
  };
}

std::vector<RecipeKey> AdapterKeys() {
  return {
      InEveryManifest(Number(
          "lora.rank", "of LoRA adapters, which alone are trained; 0: none, every parameter is trained",
          [](RunConfig & c) -> auto& { return c.model.adapter.rank; }, 0, 1 << 20)),
      InEveryManifest(Number(
          "lora.alpha", "what an adapter adds is multiplied by alpha / rank; 0: rank",
          [](RunConfig & c) -> auto& { return c.model.adapter.alpha; }, 0, 1e6)),
      InEveryManifest(Text(
          "lora.targets", "products with adapters: all, or some of attention.qkv, attention.out, mlp.in, mlp.out",
          [](RunConfig & c) -> auto& { return c.model.adapter.targets; })),
  };
}

}  // namespace trireme
