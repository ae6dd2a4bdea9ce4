#include "checkpoint/format/checkpoint_index.h"

#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] {
    FuzzInput input(data, size);
    const auto bytes = std::make_shared<const std::string>(input.Rest());
    const CheckpointIndex index(bytes, "input");
    for (std::int64_t shard = 0; shard < index.shards(); ++shard) {
      index.Shard(shard);
      index.DeviceChoices(shard);
    }
    CheckpointIndexBuilder builder(index.step(), index.attempt(), index.first_shard());
    for (std::int64_t tensor = 0; tensor < index.tensors(); ++tensor) {
      for (const StoredSlice& stored : index.Slices(tensor)) {
        const ManifestShard shard = index.Shard(stored.shard - index.first_shard());
        if (stored.slice.offset + stored.slice.bytes() > shard.bytes ||
            HighestOf(stored.slice.pieces) > stored.slice.shape.count()) {
          __builtin_trap();
        }
      }
    }
    builder.AddPart(index);
    const CheckpointIndex again(std::make_shared<const std::string>(builder.Format()), "again");
    again.CheckDigest();
    if (again.shards() != index.shards()) {
      __builtin_trap();
    }
  });
}
