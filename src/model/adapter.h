// LoRA adapters: a product with the matrix W gets two more, A [rank, in] and B [out, rank], and becomes
// x W^T + (alpha / rank) (x A^T) B^T. A model with adapters trains A and B alone: every other parameter is frozen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

struct AdapterConfig {
  std::int64_t rank = 0;        // 0: no adapters, every parameter is trained
  double alpha = 0;             // 0: as large as rank
  std::string targets = "all";  // products with adapters, separated by commas: see AdapterTargets

  bool any() const { return rank > 0; }
  double scale() const { return any() && alpha > 0 ? alpha / static_cast<double>(rank) : 1; }
  // Whether the product of that name ("attention.qkv") has an adapter.
  bool On(std::string_view product) const;
  bool operator==(const AdapterConfig&) const = default;
};

// "attention.qkv, attention.out, mlp.in, mlp.out".
std::string AdapterTargets();

// An Error unless rank is at most `hidden`, alpha a finite number of at least 0 and every target a product of a block.
void RequireAdapter(const AdapterConfig& adapter, std::int64_t hidden);

}  // namespace trireme
