// JSON from untrusted files. The readers below name the file and the key in every Error, and never convert one type to
// another.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.h"

namespace trireme {

// Metadata of checkpoints: shallow, and each key once.
inline constexpr JsonLimits kMetadataLimits = {.depth = 8, .values = 5'000'000, .unique_keys = true};

// As ParseJson; `origin` names the source in errors.
nlohmann::json ParseBoundedJson(std::string_view text, const std::string& origin,
                                const JsonLimits& limits = kMetadataLimits);

// The member `key` of `object`, of exactly this kind; an Error otherwise.
const nlohmann::json& MemberOf(const nlohmann::json& object, const char* key, const std::string& origin);
const nlohmann::json& ObjectOf(const nlohmann::json& object, const char* key, const std::string& origin);
const nlohmann::json& ArrayOf(const nlohmann::json& object, const char* key, const std::string& origin);
std::string TextOf(const nlohmann::json& object, const char* key, const std::string& origin);
// An integer from 0 up to 2^53.
std::int64_t CountOf(const nlohmann::json& object, const char* key, const std::string& origin);
// Any finite number.
double NumberOf(const nlohmann::json& object, const char* key, const std::string& origin);
bool FlagOf(const nlohmann::json& object, const char* key, const std::string& origin);
// A list of counts; `what` names it in errors.
std::vector<std::int64_t> CountsOf(const nlohmann::json& list, const std::string& what, const std::string& origin);

// A name as files may give it: 1 to 4096 bytes, no control characters.
void RequirePlainName(const std::string& name, const std::string& origin);
// A file beside the one that names it: no directory part, not hidden, at most 255 bytes.
void RequirePlainFileName(const std::string& name, const std::string& origin);

}  // namespace trireme
