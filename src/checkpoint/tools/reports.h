// What `trireme checkpoint inspect | verify | diff | convert` do, for people (text), programs (JSON) and scripts (exit
// status). A `path` is a checkpoint's folder, a run's folder, or a run's checkpoints/; see ResolveCheckpoint.
#pragma once

#include <cstdint>
#include <string>

#include "base/checksum.h"
#include "checkpoint/read/checkpoint_reader.h"

namespace trireme {

struct Report {
  int status = 0;  // 0: as it should be; 1: damaged, or different
  std::string text;
  std::string json;  // one object
};

// One digest of the whole state (every tensor in global order, step, samples, updates, loss scale, seed): equal for
// equal states whatever layout saved them.
Digest DigestOfState(const CheckpointReader& reader);

// What the checkpoint holds: run state, and for each tensor name, kind, global shape, dtype and digest. Reads and
// checks all data.
Report InspectCheckpoint(const std::string& path);

// Every byte of every shard against its digests; of a run's folder, every checkpoint. Lists each fault with file,
// tensor and byte offset, and does not stop at the first. `mend`: where nothing but the index is missing or damaged, it
// is made anew from the shards.
Report VerifyCheckpoint(const std::string& path, bool mend = false);

// Adds to a report what a resume of the path's newest good checkpoint under `config` drops of its state
// (FindDroppedState); status 1 when anything is, or when no resume is possible. `recipe` is the recipe's name in words.
void AddDroppedState(const std::string& path, const std::string& recipe, const RunConfig& config, Report& report);

// Run state, configuration and tensors of two checkpoints, element by element (bit for bit: a NaN equals itself). Of
// two dumps of weights (log.dump_steps), or two folders of them, the tensors alone.
Report DiffCheckpoints(const std::string& path_a, const std::string& path_b);

struct ConvertOptions {
  std::int64_t shards = 1;
  bool weights_only = false;  // drop the optimizer state; the result starts a new run at step 0
};
// Writes the checkpoint again into folder `to` (of checkpoints), cut evenly over a number of shards. Status 0.
Report ConvertCheckpoint(const std::string& path, const std::string& to, const ConvertOptions& options);

}  // namespace trireme
