// The fixtures of make_families.py and make_formulas.py: models of every family whose weights follow from the names of
// their tensors, and what transformers computes of them, or formulas that agree with transformers on its models.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "infer/generate.h"

namespace trireme::oracle {

// Tolerance of a logit: fp32 against fp32 in different orders of sums; logits are of the order of 1.
inline constexpr double kTolerance = 1e-4;

// By name: config, crc32, tensors, tokens, logits, greedy.
const nlohmann::json& Models();
std::vector<std::string> ModelNames();

using Tensors = std::map<std::string, std::vector<float>>;
Tensors ValuesOf(const nlohmann::json& model);
// model.safetensors of these values.
std::string SafetensorsOf(const nlohmann::json& model, const Tensors& tensors);
std::uint32_t Crc32(const std::string& bytes);
void WriteDirectory(const std::string& path, const nlohmann::json& model, const Tensors& tensors,
                    const std::string& config);

// The logits of every token by this program on `ranks` tensor ranks, and the tokens that follow greedily.
std::vector<float> LogitsOf(const std::string& path, const TokenList& tokens, int ranks);
// Logits by the forward pass of training on 2 tensor x 2 pipeline ranks.
std::vector<float> StagedLogitsOf(const std::string& path, const TokenList& tokens);
TokenList GreedyTokens(const std::string& path, const TokenList& tokens, std::int64_t count);
// Largest difference from those of transformers.
double DifferenceFrom(const nlohmann::json& model, const std::vector<float>& logits);

}  // namespace trireme::oracle
