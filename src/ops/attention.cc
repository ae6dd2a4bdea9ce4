#include "ops/attention.h"

namespace trireme {

std::int64_t AttentionForwardFlops(const AttentionArgs& args) {
  if (args.weights.given()) {
    return args.batch * args.heads * args.sequence * args.keys() * 4 * args.head_size;
  }
  if (!args.kv.given()) {
    return AttentionForwardFlops(args.batch, args.sequence, args.heads, args.head_size, args.window);
  }
  std::int64_t pairs = 0;
  for (const std::int64_t query : args.query_chunks) {
    for (const KeyChunk& key : args.key_chunks) {
      pairs += CausalPairsBetween(query, key.position, args.chunk(), args.window);
    }
  }
  return args.batch * args.heads * pairs * 4 * args.head_size;
}

}  // namespace trireme
