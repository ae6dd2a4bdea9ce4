#include "checkpoint/hugging_face/files.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/dtype.h"
#include "base/error.h"
#include "checkpoint/format/bounded_json.h"
#include "data/files/input_file.h"
#include "data/files/json_file.h"

namespace trireme {
namespace {

constexpr std::int64_t kLargestIndex = 100'000'000;

float FromHalf(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

float FromBFloat(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::map<std::string, std::string> ReadWeightMap(const std::string& path) {
  const nlohmann::json root = ParseBoundedJson(ReadBoundedFile(path, kLargestIndex), path);
  std::map<std::string, std::string> weight_map;
  for (const auto& [name, file] : ObjectOf(root, "weight_map", path).items()) {
    RequirePlainName(name, path);
    Require(file.is_string(), "'{}': the file of '{}' must be a string", path, name);
    weight_map[name] = file.get<std::string>();
    RequirePlainFileName(weight_map[name], path);
  }
  Require(!weight_map.empty(), "'{}': the weight_map is empty", path);
  return weight_map;
}

}  // namespace

HuggingFaceFiles::HuggingFaceFiles(const std::string& directory) {
  const std::string index = directory + "/model.safetensors.index.json";
  const std::string single = directory + "/model.safetensors";
  if (std::filesystem::exists(index)) {
    const auto weight_map = ReadWeightMap(index);
    std::set<std::string> files;
    for (const auto& [name, file] : weight_map) {
      files.insert(file);
    }
    for (const std::string& file : files) {
      AddFile(directory + "/" + file);
    }
    CheckIndex(weight_map, directory);
    return;
  }
  Require(std::filesystem::exists(single),
          "'{}' has neither model.safetensors nor model.safetensors.index.json; pickled weights (*.bin) are not read",
          directory);
  AddFile(single);
}

void HuggingFaceFiles::AddFile(const std::string& path) {
  const InputFile file(path);
  SafetensorsHeader header = ReadSafetensorsHeader(file);
  for (SafetensorsEntry& entry : header.entries) {
    const std::string name = entry.name;
    const Place place{.path = path, .data_start = header.data_start, .entry = std::move(entry)};
    const auto [known, fresh] = places_.try_emplace(name, place);
    Require(fresh, "the tensor '{}' is in '{}' and in '{}'", name, known->second.path, path);
  }
}

void HuggingFaceFiles::CheckIndex(const std::map<std::string, std::string>& weight_map,
                                  const std::string& directory) const {
  for (const auto& [name, file] : weight_map) {
    const auto place = places_.find(name);
    Require(place != places_.end() && place->second.path == directory + "/" + file,
            "'{}': the index puts '{}' into '{}', which does not have it", directory, name, file);
  }
  for (const auto& [name, place] : places_) {
    Require(weight_map.contains(name), "'{}' holds '{}', which the index does not name", place.path, name);
  }
}

std::vector<std::string> HuggingFaceFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : places_) {
    names.push_back(name);
  }
  return names;
}

const SafetensorsEntry* HuggingFaceFiles::Find(const std::string& name) const {
  const auto place = places_.find(name);
  return place == places_.end() ? nullptr : &place->second.entry;
}

std::vector<float> HuggingFaceFiles::Read(const std::string& name) const {
  std::vector<float> values(static_cast<std::size_t>(places_.at(name).entry.count()));
  Read(name, 0, values);
  return values;
}

void HuggingFaceFiles::Read(const std::string& name, std::int64_t first, std::span<float> out) const {
  const Place& place = places_.at(name);
  const SafetensorsEntry& entry = place.entry;
  const InputFile file(place.path);
  const std::int64_t start = place.data_start + entry.begin;
  if (entry.dtype == "F32") {
    file.Read(start + first * 4, std::as_writable_bytes(out));
    return;
  }
  Require(entry.dtype == "BF16" || entry.dtype == "F16", "'{}': '{}' has the dtype {}; F32, BF16 and F16 are read",
          place.path, name, entry.dtype);
  std::vector<std::uint16_t> words(out.size());
  file.Read(start + first * 2, std::as_writable_bytes(std::span(words)));
  std::transform(words.begin(), words.end(), out.begin(), entry.dtype == "F16" ? FromHalf : FromBFloat);
}

}  // namespace trireme
