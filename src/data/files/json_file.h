// Whole small files, and the JSON in them: bounded in size and depth, faults named by file.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme {

// Contents of a file of at most `most_bytes`. Links are followed: model hubs keep their files behind them.
std::string ReadBoundedFile(const std::string& path, std::int64_t most_bytes);
// `origin` names the text in Errors.
nlohmann::json ParseHostileJson(std::string_view text, const std::string& origin);
nlohmann::json ReadHostileJson(const std::string& path, std::int64_t most_bytes);

}  // namespace trireme
