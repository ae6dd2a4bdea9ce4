#include "run/recipe_rows.h"

namespace trireme {

std::vector<RecipeKey> OptimizerKeys() {
  using Config = RunConfig;
  return {
      ChangesTime(Choice(
          "optimizer.name", "muon updates the matrices of blocks, and the rest as adamw",
          [](Config & c) -> auto& { return c.optimizer.kind; })),
      Number(
          "optimizer.learning_rate", "at its highest", [](Config & c) -> auto& { return c.optimizer.learning_rate; }, 0,
          1e6),
      Number(
          "optimizer.weight_decay", "of weights and tables; gains and biases do not decay",
          [](Config & c) -> auto& { return c.optimizer.weight_decay; }, 0, 1e6),
      Number(
          "optimizer.clip", "largest norm of the gradient; 0: no clipping",
          [](Config & c) -> auto& { return c.optimizer.clip; }, 0, 1e12),
      Number(
          "optimizer.beta1", "decay of the first moment", [](Config & c) -> auto& { return c.optimizer.beta1; }, 0,
          0.9999999),
      Number(
          "optimizer.beta2", "decay of the second moment", [](Config & c) -> auto& { return c.optimizer.beta2; }, 0,
          0.9999999),
      Number(
          "optimizer.epsilon", "added to the root of the second moment",
          [](Config & c) -> auto& { return c.optimizer.epsilon; }, 1e-30, 1),
      ChangesTime(Text("optimizer.moments", "type of both moments; bf16: 4 bytes less a parameter, rounded at random",
                       [](Config & c) -> auto& { return c.optimizer.moments; }, {"fp32", "bf16"})),
      Number(
          "optimizer.momentum", "of sgd and muon", [](Config & c) -> auto& { return c.optimizer.momentum; }, 0,
          0.9999999),
      Flag(
          "optimizer.nesterov", "sgd and muon look one step of momentum ahead",
          [](Config & c) -> auto& { return c.optimizer.nesterov; }),
      Number(
          "optimizer.muon.iterations", "of Newton and Schulz, on each whole matrix",
          [](Config & c) -> auto& { return c.optimizer.muon_iterations; }, 1, 100),
      Choice(
          "optimizer.muon.dtype", "operands of the iterations; auto: fp32 in fp32 and tf32 runs, else bf16",
          [](Config & c) -> auto& { return c.optimizer.muon_type; }),
      Choice(
          "optimizer.muon.adjust",
          "rate of a matrix: times 0.2 sqrt(longer side), as large as AdamW's; original: sqrt(max(1, rows / columns))",
          [](Config & c) -> auto& { return c.optimizer.muon_rate; }),
      Flag(
          "optimizer.adafactor.relative_step", "the rate is min(0.01, 1 / sqrt(step)); learning_rate is not used",
          [](Config & c) -> auto& { return c.optimizer.adafactor_relative_step; }),
      Flag(
          "optimizer.adafactor.scale_parameter", "the rate is a multiple of each parameter's root mean square",
          [](Config & c) -> auto& { return c.optimizer.adafactor_scale_parameter; }),
      ChangesTime(Number(
          "optimizer.powersgd.rank",
          "data ranks reduce gradient matrices as two factors of this rank, with zero 0 or 1; 0: whole",
          [](Config & c) -> auto& { return c.optimizer.powersgd_rank; }, 0, 1 << 20)),
      Number(
          "optimizer.powersgd.start", "steps that reduce whole gradients before PowerSGD begins",
          [](Config & c) -> auto& { return c.optimizer.powersgd_start; }, 0, 1e12),
      Number(
          "optimizer.tables.rate", "of token and position tables, as a multiple of the learning rate",
          [](Config & c) -> auto& { return c.optimizer.tables.rate; }, 0, 1e6),
      Number(
          "optimizer.tables.weight_decay", "of tables; below 0: optimizer.weight_decay",
          [](Config & c) -> auto& { return c.optimizer.tables.weight_decay; }, -1, 1e6),
      Number(
          "optimizer.matrices.rate", "of the blocks' matrices, as a multiple of the learning rate",
          [](Config & c) -> auto& { return c.optimizer.matrices.rate; }, 0, 1e6),
      Number(
          "optimizer.matrices.weight_decay", "of the blocks' matrices; below 0: optimizer.weight_decay",
          [](Config & c) -> auto& { return c.optimizer.matrices.weight_decay; }, -1, 1e6),
      Number(
          "optimizer.head.rate", "of an untied output projection, as a multiple of the learning rate",
          [](Config & c) -> auto& { return c.optimizer.head.rate; }, 0, 1e6),
      Number(
          "optimizer.head.weight_decay", "of the output projection; below 0: optimizer.weight_decay",
          [](Config & c) -> auto& { return c.optimizer.head.weight_decay; }, -1, 1e6),
      Number(
          "optimizer.vectors.rate", "of gains and biases, as a multiple of the learning rate",
          [](Config & c) -> auto& { return c.optimizer.vectors.rate; }, 0, 1e6),
      Number(
          "optimizer.vectors.weight_decay", "of gains and biases; below 0: none",
          [](Config & c) -> auto& { return c.optimizer.vectors.weight_decay; }, -1, 1e6),
      Choice(
          "optimizer.schedule.kind", "course of the learning rate after warm-up",
          [](Config & c) -> auto& { return c.optimizer.schedule; }),
      Number(
          "optimizer.schedule.warmup_samples", "samples of linear warm-up",
          [](Config & c) -> auto& { return c.optimizer.warmup_samples; }, 0, kMostSamples),
      Number(
          "optimizer.schedule.decay_samples",
          "cosine, linear: samples at which the decay ends; wsd: length of the decay at the end of the run; 0: the "
          "whole run (wsd: its last tenth)",
          [](Config & c) -> auto& { return c.optimizer.decay_samples; }, 0, kMostSamples),
      Number(
          "optimizer.schedule.final", "share of the learning rate left at the end of the decay",
          [](Config & c) -> auto& { return c.optimizer.final_fraction; }, 0, 1),
      Choice(
          "optimizer.schedule.on_resume",
          "after a resume with a changed recipe the learning rate goes on from where it was (continue) or is at once "
          "what the recipe says (recipe)",
          [](Config & c) -> auto& { return c.optimizer.on_resume; }),
      Number(
          "optimizer.schedule.bridge_samples",
          "continue: samples over which a changed rate is reached; 0: as many as warm-up, or a twentieth of the rest",
          [](Config & c) -> auto& { return c.optimizer.bridge_samples; }, 0, kMostSamples),
  };
}

}  // namespace trireme
