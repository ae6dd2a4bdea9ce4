#include "model/float8_products.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, kBlockLinears> kLinearNames = {"qkv", "attention_out", "ffn_in", "ffn_out"};

}  // namespace

LinearSet ParseFloat8Products(const std::string& text) {
  if (text == "auto" || text == "all" || text == "none") {
    return text == "none" ? LinearSet{0} : kAllLinears;
  }
  unsigned set = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view name = std::string_view(text).substr(begin, end - begin);
    unsigned found = 0;
    for (std::size_t i = 0; i < kLinearNames.size(); ++i) {
      found |= name == kLinearNames[i] ? 1U << i : 0U;
    }
    Require(found != 0,
            "train.fp8_products = '{}': '{}' is no product of a block; give auto, all, none, or some of qkv, "
            "attention_out, ffn_in and ffn_out with commas between them",
            text, name);
    set |= found;
    begin = end + 1;
  }
  return static_cast<LinearSet>(set);
}

std::string Float8ProductsText(LinearSet set) {
  if (set == kAllLinears || set == 0) {
    return set == 0 ? "none" : "all";
  }
  std::string text;
  for (std::size_t i = 0; i < kLinearNames.size(); ++i) {
    if ((set >> i & 1) != 0) {
      text += text.empty() ? "" : ",";
      text += kLinearNames[i];
    }
  }
  return text;
}

}  // namespace trireme
