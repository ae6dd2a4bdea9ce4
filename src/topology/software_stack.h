// Whose software runs: what it makes of a machine. A file in stacks/ holds its features, its way of doing things
// (bytes a parameter, attention kernel, what overlaps), efficiencies to start from, and a calibrated set of
// efficiencies for each cluster where runs were measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/cluster.h"

namespace trireme {

// The few numbers that are calibrated once a (cluster, stack). Fractions are of what the cluster file states.
struct Efficiencies {
  double matmul = 0.75;               // of peak: large matrix products
  double attention = 0.4;             // of peak: products of unfused attention
  double attention_unaligned = 0.04;  // of peak: the same with a head size that the stack's rule refuses
  double flash = 0.5;                 // of peak: fused attention
  double memory = 0.8;                // of memory bandwidth: kernels that only move data
  double tensor_link = 0.7;           // of the device link: tensor collectives inside a node
  double tensor_node_link = 0.5;      // of the node's cards: tensor collectives across nodes
  double data_device_link = 0.6;      // of the device link: data collectives inside a node
  double data_link = 0.4;             // of the node's cards: data collectives across nodes
  double message_link = 0.5;          // of the node's cards: messages between stages
  double host_link = 0.8;             // of the host link
  double host_memory = 0.3;           // of host bandwidth: the optimizer on the host
  double layer_seconds = 1e-3;        // of the host: to issue a layer's forward and backward of one micro batch
  double stall_seconds = 2e-5;        // of the host, a layer and rank of the tensor group, while a pipeline runs
  double node_latency = 1;            // times the node link's latency: what the library makes of it
  double step_seconds = 0.1;          // of a step beyond its parts
  double slowdown = 1.05;             // during a revision marked `slow`
};

struct EfficiencyField {
  const char* name;
  double Efficiencies::*member;
  double deviation;  // how far, as a logarithm, a calibration may move it without strong evidence
};
const std::vector<EfficiencyField>& EfficiencyFields();

// How the stack does what costs time.
struct TimeTraits {
  bool flash = true;          // fused attention; else scores go through memory
  bool flash_old = false;     // fused by the instructions of A100, which later chips run below their peak
  double flash_share = 1;     // of Efficiencies::flash: kernels of the first generation, written in Triton, reach less
  int head_multiple = 8;      // head sizes of other multiples run at attention_unaligned
  double score_bytes = 13;    // moved for each score in one pass of unfused attention
  int softmax_multiple = 0;   // above 0: heads of a rank times micro batch that its fused softmax needs a multiple of
  double outside_bytes = 20;  // moved by element-wise kernels for each token and hidden element, whole on every rank
  double inside_bytes = 34;   // likewise, cut by the tensor axis
  double backward_bytes = 2;  // of forward's bytes, what element-wise kernels move in backward
  double selective_products = 0;     // share of products that selective recomputation repeats
  double selective_memory = 0;       // share of element-wise kernels that it repeats
  bool selective_attention = true;   // whether it repeats attention
  bool broadcasts_shards = false;    // ZeRO 1: each owner in turn broadcasts what it updated; else one gather
  double collective_seconds = 3e-5;  // of the host: to issue a collective
  double logit_bytes = 20;           // moved for each logit beyond its products
  double wave_weight = 1;            // how much of the tile and wave quantisation shows
  int vocabulary_multiple = 8;       // times the tensor degree
  bool recompute_whole = true;       // full recomputation repeats the last product too
  bool scatter_messages = false;     // tensor ranks send a part of a message each
  double tensor_overlap = 0;         // share of the tensor collectives that products hide
  // Under sequence parallelism products that wait for an all-gather are made in parts: of the rank's own tokens
  // meanwhile, of those before and after them then.
  bool products_in_parts = false;
  double cast_bytes = 4;           // moved for each element that is cast to fp8 with one scale a tensor
  double mx_cast_bytes = 0;        // likewise to mxfp8; 0: as cast_bytes
  double fp4_cast_bytes = 0;       // likewise to nvfp4; 0: as mx_cast_bytes
  bool blocking = false;           // the host waits for every kernel: issuing and running add up
  double gradient_bytes = 2;       // sent for each parameter and reduction
  double parameter_bytes = 2;      // gathered for each parameter
  double gradient_bytes_bf16 = 0;  // when above 0, instead, under bf16 with fp32 accumulation
  double accumulate_bytes = 0;     // moved for each parameter and micro batch by that accumulation
  bool half_accumulates = false;   // fp16 accumulates as bf16 does
  double optimizer_bytes = 30;     // moved for each owned parameter by the update
  double data_overlap = 0;         // share of the data collectives that backward hides
  double bucket_bytes = 0;         // gradients of a stage are reduced in calls of so many bytes; 0: in one
  // ZeRO 1 where the program keeps each tensor's shards apart: kernels for each tensor and rank of the data group that
  // copy a shard, and bytes moved for each parameter by all such copies. Nothing hides either.
  double shard_kernels = 0;
  double shard_copy_bytes = 0;
  double layer_tensors = 8;   // trained tensors of a layer
  bool gather_again = false;  // ZeRO 3 gathers weights for recomputation, and once more for backward
  // Experts that an axis divides: products of so many of them run at once (0: of all); moved for each row and hidden
  // element by the kernels that permute rows before and after an exchange; of the host, to issue what a layer with
  // experts has besides products, and each product; how much experts differ in their share of tokens, as a standard
  // deviation over the mean; share of the exchanges that other work hides.
  double expert_streams = 0;
  double expert_row_bytes = 14;
  double expert_layer_seconds = 0;
  double expert_product_seconds = 0;
  double expert_variation = 0;
  double expert_overlap = 0;
  bool sends_tokens_once = false;  // a token goes once to each rank that has experts of it, not once for each expert
  // Share of ZeRO 3's gathers and reductions, and of copies to and from the host, that compute hides: in a file
  // time.gather_overlap.
  double shard_overlap = 0;
  bool host_optimizer = false;    // optimizer state lives on the host; gradients go there each micro batch
  bool nvme_offload = false;      // what the host cannot hold of offloaded state goes to NVMe
  double power_sgd_seconds = 0;   // of compression, for each parameter and reduction
  double power_sgd_share = 0.25;  // of the bytes that remain
};

// What the stack holds, in bytes. Under policy.counted_costs the trainer's own account counts instead.
struct MemoryTraits {
  double fixed = 2.0 * 1024 * 1024 * 1024;  // communication buffers, workspaces, and the context of kContextUnits units
  double unsharded = 4;                     // a parameter: weights and gradients
  double sharded = 14;                      // a parameter: what ZeRO 1 divides over the data axis
  double accumulation = 0;                  // a parameter, unsharded, under bf16
  double activation_factor = 1.1;           // real over textbook: fragmentation, temporaries
  double layer_factor = 1;                  // working set of one layer under full recomputation, in layers
  double mask_bytes = 2;                    // a token and hidden element of a layer: masks of dropout
  double gated_bytes = 6;                   // kept of a gated feed-forward, a token and element of its width
  double selective_share = 1;               // of a layer's kept bytes, what selective recomputation leaves
  bool float8_inputs = false;               // under fp8 products keep their inputs in 8 bits for backward
  double late_gradients = 0;  // bytes per parameter of gradients that wait for the end of a backward to be added
  // Bytes per parameter of copies in which ZeRO 1 reduces gradients, once a backward is over and all that it kept is
  // gone.
  double reduced_copies = 0;
  double ddp_buckets = 0;            // bytes per parameter of buffers that data ranks without ZeRO send gradients from
  double logit_bytes = 10;           // for each logit of a micro batch
  bool activations_on_host = false;  // kept inputs of recomputed layers leave the device
  double host_buffers = 1;  // times offloaded state: what the program's own estimate has for pinned and other buffers
  // A parameter, of offloaded state that lies in one pinned buffer: PyTorch 1.11 and later round such up to a power of
  // two (its issues 95823 and 150517).
  double pinned = 0;
  double host_process = 0;            // bytes of a process that offloads: libraries, the device's context, the loader
  bool first_stage_reported = false;  // its logs tell the memory of the first stage
  // What its logs count: all of the device, what the allocator reserved, or what tensors occupy.
  enum class Reported : std::uint8_t { kDevice, kReserved, kAllocated } reported = Reported::kDevice;
};

struct MemoryField {
  const char* name;
  double MemoryTraits::*member;
  double deviation;  // as EfficiencyField's
};
const std::vector<MemoryField>& MemoryFields();

struct StackFeatures {
  std::vector<int> zero = {0, 1};
  std::vector<std::string> schedules = {"1f1b"};
  std::vector<std::string> recompute = {"none", "full"};
  std::vector<std::string> offload = {"none"};
  std::vector<std::string> partitions = {"uniform"};
  bool tensor = true;
  bool pipeline = true;
  bool context = false;  // cuts sequences over ranks that exchange keys and values
  bool sequence_parallel = false;
  bool experts = false;  // divides experts over an axis of their own, each whole on a rank
  int most_chunks = 1;
};

// How a program is priced where programs differ in kind: [policy] of its file. All is off for programs that are known
// by their publications only.
struct StackPolicy {
  bool counted_costs = false;     // FLOPs, bytes and memory are those that our trainer counts (cost/), not formulas
  bool strict_partition = false;  // layers are cut by StagePartition, which refuses what does not divide
  bool any_schedule = false;      // trains with any schedule, also a file's, and any ZeRO stage: features tell a search
  bool staged_offload = false;    // offloaded weights come module by module, state passes through the device in pieces
  bool bf16_moments = false;      // the optimizer's moments may be bf16
  bool measured_rates = false;    // on a calibrated machine priced by the laws of its own operations
  bool inline_on_host = false;    // on a host's cores collectives run where they are asked for, overlapping nothing
  bool operator==(const StackPolicy&) const = default;
};

struct StackCalibration {
  std::string cluster;  // its site
  Efficiencies efficiencies;
  MemoryTraits memory;
  double spread = 0.1;          // half of an 80 % interval of seconds, relative
  double memory_spread = 0.1;   // likewise of peak memory
  double paired_spread = 0.04;  // of the ratio of two layouts' seconds in one decision: closer ones are ties
  int runs = 0;                 // measured ones behind it
};

// A number of a stack that a revision replaces.
struct ChangedTime {
  double TimeTraits::*member;
  double value;
};
struct ChangedEfficiency {
  double Efficiencies::*member;
  double factor;  // of the stack's own, so that it holds for calibrated numbers too
};

// What differs from the stack's numbers: the software or the site in a stretch of time, or a run of another kind (a
// flag of the program that tables tell in their notes). A revision with a note holds for runs alone whose note has it.
struct StackRevision {
  std::string cluster;  // empty: everywhere
  std::string since;    // ISO dates; empty: open. Without both it holds for runs of any date
  std::string until;
  std::string note;         // part of the run's note, in any case; empty: any run
  bool slow = false;        // Efficiencies::slowdown holds
  bool blocking = false;    // TimeTraits::blocking holds
  bool accumulates = true;  // false: bf16 without fp32 accumulation yet
  std::vector<ChangedTime> time;
  std::vector<ChangedEfficiency> efficiencies;
  std::string reason;
};

struct SoftwareStack {
  std::string name;
  std::string description;
  StackPolicy policy;
  std::vector<std::string> systems;       // as tables of runs name it
  std::vector<std::string> accelerators;  // empty: any
  std::vector<std::string> run_clusters;  // empty: any
  std::vector<std::string> run_sources;   // parts of the name of a source or a system; empty: any
  StackFeatures features;
  TimeTraits time;
  MemoryTraits memory;
  Efficiencies defaults;
  double default_spread = 0.25;
  double default_paired_spread = 0.04;
  // What measured runs that do not say it are taken to use.
  std::string assumed_recompute = "none";
  std::string assumed_partition;  // empty: uniform
  int assumed_zero = 0;
  bool assumed_sequence_parallel = false;
  int assumed_expert_tensor = 0;  // ParallelLayout::expert_tensor
  std::string assumed_dtype;      // where the device multiplies in it; empty: bf16
  int assumed_chunk_layers = 0;   // above 0: pipelines are interleaved by chunks of about so many layers
  std::vector<StackCalibration> calibrations;
  std::vector<StackRevision> revisions;
};

// A run of a stack: what its revisions depend on.
struct StackUse {
  std::string date;  // ISO, may be shortened; empty: today
  std::string note;
};

// A stack on a cluster: what the planner prices with.
struct StackState {
  Efficiencies efficiencies;
  TimeTraits time;
  MemoryTraits memory;
  StackPolicy policy;
  bool slowed = false;
  double spread = 0.25;
  double memory_spread = 0.15;
  double paired_spread = 0.04;
  bool calibrated = false;
};
// `calibration`: instead of those of the stack's file.
StackState Resolve(const SoftwareStack& stack, const Cluster& cluster, const StackUse& use,
                   const StackCalibration* calibration = nullptr);
inline StackState Resolve(const SoftwareStack& stack, const Cluster& cluster, const std::string& date) {
  return Resolve(stack, cluster, StackUse{.date = date, .note = ""});
}

SoftwareStack ParseStack(const std::string& text, const std::string& origin);
SoftwareStack LoadStack(const std::string& name, const std::string& folder);
std::vector<SoftwareStack> LoadStacks(const std::string& folder);
// A [[calibration]] section for a stack file.
std::string ToToml(const StackCalibration& calibration);

}  // namespace trireme
