#include "checkpoint/format/bounded_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr std::int64_t kLargestCount = std::int64_t{1} << 53;

std::int64_t AsCount(const json& value, const std::string& what, const std::string& origin) {
  const bool counts = value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  Require(counts && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kLargestCount),
          "'{}': '{}' must be an integer from 0 to 2^53", origin, what);
  return value.get<std::int64_t>();
}

}  // namespace

json ParseBoundedJson(std::string_view text, const std::string& origin, const JsonLimits& limits) {
  try {
    return ParseJson(text, limits);
  } catch (const Error& error) {
    Fail("'{}': {}", origin, error.what());
  }
}

const json& MemberOf(const json& object, const char* key, const std::string& origin) {
  Require(object.is_object(), "'{}': an object with '{}' was expected", origin, key);
  const auto member = object.find(key);
  Require(member != object.end(), "'{}': '{}' is missing", origin, key);
  return *member;
}

const json& ObjectOf(const json& object, const char* key, const std::string& origin) {
  const json& member = MemberOf(object, key, origin);
  Require(member.is_object(), "'{}': '{}' must be an object", origin, key);
  return member;
}

const json& ArrayOf(const json& object, const char* key, const std::string& origin) {
  const json& member = MemberOf(object, key, origin);
  Require(member.is_array(), "'{}': '{}' must be an array", origin, key);
  return member;
}

std::string TextOf(const json& object, const char* key, const std::string& origin) {
  const json& member = MemberOf(object, key, origin);
  Require(member.is_string(), "'{}': '{}' must be a string", origin, key);
  return member.get<std::string>();
}

std::int64_t CountOf(const json& object, const char* key, const std::string& origin) {
  return AsCount(MemberOf(object, key, origin), key, origin);
}

double NumberOf(const json& object, const char* key, const std::string& origin) {
  const json& member = MemberOf(object, key, origin);
  Require(member.is_number() && std::isfinite(member.get<double>()), "'{}': '{}' must be a finite number", origin, key);
  return member.get<double>();
}

bool FlagOf(const json& object, const char* key, const std::string& origin) {
  const json& member = MemberOf(object, key, origin);
  Require(member.is_boolean(), "'{}': '{}' must be true or false", origin, key);
  return member.get<bool>();
}

std::vector<std::int64_t> CountsOf(const json& list, const std::string& what, const std::string& origin) {
  Require(list.is_array(), "'{}': '{}' must be an array of integers", origin, what);
  std::vector<std::int64_t> counts;
  for (const json& value : list) {
    counts.push_back(AsCount(value, what, origin));
  }
  return counts;
}

void RequirePlainName(const std::string& name, const std::string& origin) {
  Require(!name.empty() && name.size() <= 4096, "'{}': a name of {} bytes; names have 1 to 4096", origin, name.size());
  for (const char letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    Require(byte >= 0x20 && byte != 0x7f, "'{}': a name holds the control character {}", origin, int{byte});
  }
}

void RequirePlainFileName(const std::string& name, const std::string& origin) {
  RequirePlainName(name, origin);
  Require(name.size() <= 255 && name.front() != '.' && name.find_first_of("/\\") == std::string::npos,
          "'{}': '{}' is not the plain name of a file beside it", origin, name);
}

}  // namespace trireme
