#include "run/recipe_keys.h"

#include "run/recipe_rows.h"

namespace trireme {
namespace {

constexpr double kLargestDegree = 1 << 20;
constexpr double kMostWhole = 1e12;  // elements of a parameter

using Config = RunConfig;

std::vector<RecipeKey> FirstWeightsKeys() {
  return {
      Optional(Text(
          "model.from",
          "Hugging Face directory, checkpoint or run whose shape and weights training goes on from; empty: drawn",
          [](RunConfig & c) -> auto& { return c.model_from; })),
  };
}

std::vector<RecipeKey> LayoutKeys() {
  return {
      Number(
          "layout.tensor", "tensor-parallel degree", [](Config & c) -> auto& { return c.layout.tensor; }, 1,
          kLargestDegree),
      Number(
          "layout.context", "ranks that divide the tokens of every sequence",
          [](Config & c) -> auto& { return c.layout.context; }, 1, kLargestDegree),
      Choice(
          "layout.context_kind",
          "keys and values of all ranks (allgather) or of one after another (ring), or all tokens of some heads "
          "(ulysses), or ulysses within groups and ring across them (ulysses+ring)",
          [](Config & c) -> auto& { return c.layout.context_kind; }),
      Number(
          "layout.context_stripes",
          "parts of a sequence, each divided among all context ranks; more of them even out the work of documents",
          [](Config & c) -> auto& { return c.layout.context_stripes; }, 1, 1 << 16),
      Number(
          "layout.ulysses",
          "under ulysses+ring: context ranks of a group that divides heads; 0: as many as heads allow",
          [](Config & c) -> auto& { return c.layout.ulysses; }, 0, kLargestDegree),
      Number(
          "layout.pipeline", "pipeline stages", [](Config & c) -> auto& { return c.layout.pipeline; }, 1,
          kLargestDegree),
      Number(
          "layout.data", "data-parallel replicas", [](Config & c) -> auto& { return c.layout.data; }, 1,
          kLargestDegree),
      Number(
          "layout.expert", "ranks of a stage that divide experts; priced for other programs, the trainer has 1",
          [](Config & c) -> auto& { return c.layout.expert; }, 1, kLargestDegree),
      Number(
          "layout.zero", "ZeRO stage: shards optimizer (1), gradients (2), parameters (3)",
          [](Config & c) -> auto& { return c.layout.zero; }, 0, 3),
      Text(
          "layout.schedule", "gpipe | 1f1b | interleaved | zero_bubble | zero_bubble_v | a file ending in .schedule",
          [](Config & c) -> auto& { return c.layout.schedule; }),
      Number(
          "layout.chunks", "chunks per stage, for interleaved (2 or more) and zero_bubble_v (2)",
          [](Config & c) -> auto& { return c.layout.chunks; }, 1, 10'000),
      Text(
          "layout.partition", "uniform | balanced | cost | layers of each stage such as [7, 7, 6]",
          [](Config & c) -> auto& { return c.layout.partition; }),
      Flag(
          "layout.sequence_parallel", "cut activations between tensor regions along the sequence",
          [](Config & c) -> auto& { return c.layout.sequence_parallel; }),
      Automatic(Choice(
          "layout.recompute", "what backward computes again; auto: the least that fits the device",
          [](Config & c) -> auto& { return c.layout.recompute; })),
      Number(
          "layout.recompute_layers", "blocks of each chunk that recompute; 0: all",
          [](Config & c) -> auto& { return c.layout.recompute_layers; }, 0, 10'000),
      Number(
          "layout.micro_batch", "samples of one pass through the pipeline",
          [](Config & c) -> auto& { return c.layout.micro_batch; }, 1, 1 << 20),
      Choice(
          "layout.offload", "what lies in host memory: the optimizer's state; full: and the weights",
          [](Config & c) -> auto& { return c.layout.offload; }),
      Flag(
          "layout.offload_activations",
          "what blocks keep for backward lies in host memory meanwhile, and comes back one block ahead",
          [](Config & c) -> auto& { return c.layout.offload_activations; }),
      Number(
          "layout.shard_ranks",
          "hybrid sharding: ZeRO shards over groups of so many data x context ranks, which are copies; 0: over all",
          [](Config & c) -> auto& { return c.layout.shard_ranks; }, 0, kLargestDegree),
      Number(
          "layout.whole_below",
          "with ZeRO 3: parameters of fewer elements per rank stay whole on every rank and are not gathered; 0: none",
          [](Config & c) -> auto& { return c.layout.whole_below; }, 0, kMostWhole),
      Choice(
          "layout.reduce",
          "how data ranks send gradients: fp32 (exact), half of it (bf16) or blocks of 64 with a scale (int8)",
          [](Config & c) -> auto& { return c.layout.reduce; }),
      Choice(
          "layout.gather",
          "how ZeRO 3 sends weights: as they are (exact), fp32 ones in bf16, or blocks of 64 with a scale (int8)",
          [](Config & c) -> auto& { return c.layout.gather; }),
  };
}

std::vector<RecipeKey> BatchKeys() {
  return {
      Number(
          "batch.global", "samples of a step, over all ranks", [](Config & c) -> auto& { return c.batch.global; }, 1,
          kMostGlobalBatch),
      Number(
          "batch.ramp_up.start", "first batch size; 0: no ramp-up",
          [](Config & c) -> auto& { return c.batch.ramp_start; }, 0, 1 << 24),
      Number(
          "batch.ramp_up.increment", "growth of the batch at each step of the ramp-up",
          [](Config & c) -> auto& { return c.batch.ramp_increment; }, 0, 1 << 24),
      Number(
          "batch.ramp_up.samples", "samples until the batch is whole",
          [](Config & c) -> auto& { return c.batch.ramp_samples; }, 0, kMostSamples),
  };
}

std::vector<RecipeKey> TrainKeys() {
  return {
      ChangesTime(Text(
          "train.dtype",
          "of weights and activations; tf32: fp32 with faster products, fp8: bf16 with fp8 products, fp16: with loss "
          "scaling",
          [](Config & c) -> auto& { return c.train.dtype; }, {"fp32", "tf32", "bf16", "fp16", "fp8"})),
      Number(
          "train.loss_scale", "of fp16: the loss is multiplied by it; 0: dynamic",
          [](Config & c) -> auto& { return c.train.loss_scale; }, 0, 1e30),
      Number(
          "train.initial_loss_scale", "of fp16: the first dynamic scale",
          [](Config & c) -> auto& { return c.train.initial_loss_scale; }, 1e-30, 1e30),
      Number(
          "train.min_loss_scale", "of fp16: an overflow that would lower the scale below it ends the run",
          [](Config & c) -> auto& { return c.train.min_loss_scale; }, 1e-30, 1e30),
      Number(
          "train.loss_scale_window", "of fp16: steps without overflow until the scale grows",
          [](Config & c) -> auto& { return c.train.loss_scale_window; }, 1, 1e12),
      Number(
          "train.hysteresis", "of fp16: overflows until the scale is lowered; full again when it grows",
          [](Config & c) -> auto& { return c.train.hysteresis; }, 1, 1e9),
      Number(
          "train.loss_scale_growth", "of fp16: factor by which the scale grows",
          [](Config & c) -> auto& { return c.train.loss_scale_growth; }, 1, 1e6),
      Number(
          "train.loss_scale_backoff", "of fp16: factor by which an overflow lowers the scale",
          [](Config & c) -> auto& { return c.train.loss_scale_backoff; }, 1e-6, 0.999),
      Number(
          "train.seed", "of weights, sample order and dropout", [](Config & c) -> auto& { return c.train.seed; }, 0,
          9e18),
      Number(
          "train.steps", "length of the run, unless samples or tokens say it",
          [](Config & c) -> auto& { return c.train.steps; }, 0, 1e12),
      Number(
          "train.samples", "length of the run in samples; 0: see steps",
          [](Config & c) -> auto& { return c.train.samples; }, 0, kMostSamples),
      Number(
          "train.tokens", "length of the run in tokens; 0: see steps",
          [](Config & c) -> auto& { return c.train.tokens; }, 0, 1e18),
      ChangesTime(Text(
          "train.device",
          "auto: the GPU where there is one; paced: nothing is computed, all takes the time that train.paced_cluster "
          "says",
          [](Config & c) -> auto& { return c.train.device; }, {"auto", "cpu", "cuda", "paced"})),
      ChangesTime(Optional(Text(
          "train.paced_cluster", "of device = paced: a cluster file, or the name of one of clusters/",
          [](Config & c) -> auto& { return c.train.paced_cluster; }))),
      ChangesTime(Number(
          "train.threads",
          "OpenMP threads per CPU rank; 0: the job's cores / ranks on this machine, or OMP_NUM_THREADS",
          [](Config & c) -> auto& { return c.train.threads; }, 0, 4096)),
      Text("train.pin", "bind CPU ranks to cores; auto: on several NUMA nodes that no other job of Trireme uses",
           [](Config & c) -> auto& { return c.train.pin; }, {"auto", "none", "cores"}),
      Text("train.engine",
           "of CPU products; auto: the fastest here, measured once per machine; deterministic runs: packed",
           [](Config & c) -> auto& { return c.train.engine; }, {"auto", "packed", "onednn", "openblas", "blis"}),
      ChangesTime(Choice(
          "train.attention",
          "flash: never stores the scores; plain: products, softmax and products, whose weights backward reads",
          [](Config & c) -> auto& { return c.train.attention; })),
      ChangesTime(Text(
                      "train.fp8_products",
                      "of dtype = fp8: all, none, or some of qkv, attention_out, ffn_in and ffn_out; auto: those that "
                      "are faster "
                      "in fp8",
                      [](Config & c) -> auto& { return c.train.fp8_products; }),
                  TimeEffect::kInFloat8),
      Flag(
          "train.deterministic", "equal bits from run to run: slower kernels on GPUs, the fixed engines on CPUs",
          [](Config & c) -> auto& { return c.train.deterministic; }),
      Flag(
          "train.graphs",
          "GPUs, without dropout: record kernels once and start them together, with NCCL's collectives of the tensor "
          "group",
          [](Config & c) -> auto& { return c.train.graphs; }),
      Number(
          "train.z_loss", "weight of the squared log-normaliser of the logits",
          [](Config & c) -> auto& { return c.train.z_loss; }, 0, 1e6),
      Choice(
          "train.on_nonfinite", "what a step does whose gradient is not finite",
          [](Config & c) -> auto& { return c.train.on_nonfinite; }),
      Number(
          "train.loss_spike", "a loss above this multiple of its running mean is noted; 0: never",
          [](Config & c) -> auto& { return c.train.loss_spike; }, 0, 1e6),
      Number(
          "train.norm_spike", "a gradient norm above this multiple of its running mean is noted; 0: never",
          [](Config & c) -> auto& { return c.train.norm_spike; }, 0, 1e6),
      Choice(
          "train.on_spike",
          "what follows a spike; skip: no update; rollback: the newest checkpoint, then past the step; lower: half the "
          "rate from then on",
          [](Config & c) -> auto& { return c.train.on_spike; }),
      Flag(
          "train.rerun", "a step with a spike or a number that is not finite is computed again: data or fault?",
          [](Config & c) -> auto& { return c.train.rerun; }),
      Optional(Text(
          "train.stages",
          "settings until so many samples are consumed, of batch.global, layout and model.sequence: "
          "256: model.sequence=32, batch.global=8; 1024: layout.micro_batch=2",
          [](Config & c) -> auto& { return c.train.stages; })),
      Optional(Text(
          "train.skip_steps", "steps that are skipped, and so their samples: 1200-1250, 3000",
          [](Config & c) -> auto& { return c.train.skip_steps; })),
      Flag(
          "train.count_zeros", "count the zeros of the gradient each step, for the log and metrics.jsonl",
          [](Config & c) -> auto& { return c.train.count_zeros; }),
      Number(
          "train.replica_check_every", "steps between comparisons of what data ranks hold alike; 0: never",
          [](Config & c) -> auto& { return c.train.replica_check_every; }, 0, 1e12),
      Number(
          "train.head_chunk", "tokens of a micro batch whose logits exist at once; 0: chosen",
          [](Config & c) -> auto& { return c.train.head_chunk; }, 0, 1 << 30),
      Text(
          "data.source", "synthetic | a text file | a prepared dataset",
          [](Config & c) -> auto& { return c.data.source; }),
      Text(
          "data.split", "shares of train, validation, test", [](Config & c) -> auto& { return c.data.split; }),
      Flag(
          "data.document_masks", "attention stays within a document",
          [](Config & c) -> auto& { return c.data.document_masks; }),
      Flag(
          "data.document_positions", "positions begin anew with every document; needs data.document_masks",
          [](Config & c) -> auto& { return c.data.document_positions; }),
      Choice(
          "data.packing",
          "windows of the stream, which cut documents, or short documents packed whole (best_fit); the rest is padding",
          [](Config & c) -> auto& { return c.data.packing; }),
      Choice(
          "data.balance",
          "with document masks a step's samples go to data ranks and micro batches by their work (attention) or number "
          "(none)",
          [](Config & c) -> auto& { return c.data.balance; }),
      Flag(
          "data.answers_only", "of conversations (data prepare --format chat) only answers have a loss",
          [](Config & c) -> auto& { return c.data.answers_only; }),
      Flag(
          "data.padding_masks", "an epoch's last, short sample is kept: padded, the padding without loss",
          [](Config & c) -> auto& { return c.data.padding_masks; }),
      Number(
          "checkpoint.every", "steps between checkpoints; 0: only at the end",
          [](Config & c) -> auto& { return c.checkpoint.every; }, 0, 1e12),
      Number(
          "checkpoint.keep", "checkpoints kept", [](Config & c) -> auto& { return c.checkpoint.keep; }, 1, 1e6),
      Number(
          "checkpoint.ranks_per_file", "consecutive ranks whose state one file holds: more ranks, fewer files",
          [](Config & c) -> auto& { return c.checkpoint.ranks_per_file; }, 1, 1e6),
      Flag(
          "checkpoint.asynchronous", "written while training goes on",
          [](Config & c) -> auto& { return c.checkpoint.asynchronous; }),
      Number(
          "checkpoint.final_save_wait",
          "seconds that the last save is tried again for when it fails; then the run ends with exit code 5",
          [](Config & c) -> auto& { return c.checkpoint.final_save_wait; }, 0, 1e9),
      Number(
          "validation.every", "steps between validations; 0: never",
          [](Config & c) -> auto& { return c.validation.every; }, 0, 1e12),
      Number(
          "validation.samples", "samples of a validation", [](Config & c) -> auto& { return c.validation.samples; }, 1,
          1e12),
      Optional(Text(
          "evaluate.tasks", "files, with commas between: *.jsonl of multiple-choice questions, texts for bits per byte",
          [](Config & c) -> auto& { return c.evaluate.tasks; })),
      Number(
          "evaluate.every", "steps between scores of evaluate.tasks; 0: never",
          [](Config & c) -> auto& { return c.evaluate.every; }, 0, 1e12),
      Optional(Text(
          "evaluate.steps", "steps after which the tasks are scored too: 1, 100-103",
          [](Config & c) -> auto& { return c.evaluate.steps; })),
      Number(
          "evaluate.samples", "questions of a task, or windows of a text, at most; 0: all",
          [](Config & c) -> auto& { return c.evaluate.samples; }, 0, 1e9),
      Optional(Text(
          "evaluate.tokenizer", "a tokenizer.json, a directory, or bytes; the one beside data.source when not given",
          [](Config & c) -> auto& { return c.evaluate.tokenizer; })),
      Choice(
          "log.format", "a step's line: short, within 80 columns, or the one that parsers of Megatron's logs read",
          [](Config & c) -> auto& { return c.log.format; }),
      Flag(
          "log.tensorboard", "write event files that TensorBoard reads into the run's tensorboard/",
          [](Config & c) -> auto& { return c.log.tensorboard; }),
      Number(
          "log.histogram_every", "steps between histograms of weights and gradients in the event files; 0: never",
          [](Config & c) -> auto& { return c.log.histogram_every; }, 0, 1e12),
      Optional(Text(
          "log.dump_steps", "weights before and after these steps, a file per rank in the run's dump/: 3, 10-12",
          [](Config & c) -> auto& { return c.log.dump_steps; })),
      Flag(
          "log.timers",
          "CPUs: a line after each step's with rank 0's seconds of data, forward, backward, collectives and optimizer",
          [](Config & c) -> auto& { return c.log.timers; }),
  };
}

}  // namespace

const std::vector<RecipeKey>& RecipeKeys() {
  static const std::vector<RecipeKey> keys = [] {
    std::vector<RecipeKey> all;
    for (const auto& part : {ChangeTime(ModelKeys()), ChangeTime(FirstWeightsKeys()), ChangeTime(AdapterKeys()),
                             ChangeTime(LayoutKeys()), ChangeTime(BatchKeys()), OptimizerKeys(), TrainKeys()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return keys;
}

}  // namespace trireme
