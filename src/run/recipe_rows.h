// How rows of the table of recipe keys are written, and the parts that the table is put together from.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/words.h"
#include "run/recipe_keys.h"

namespace trireme {

inline constexpr double kMostSamples = 1e15;

// Rows of the table: `member` is a lambda without captures that returns a reference.
template <typename Member>
RecipeKey Number(const char* name, const char* help, Member member, double least, double most) {
  return {.name = name, .help = help, .member = +member, .least = least, .most = most, .words = {}};
}
template <typename Member>
RecipeKey Flag(const char* name, const char* help, Member member) {
  return {.name = name, .help = help, .member = +member, .words = {}};
}
template <typename Member>
RecipeKey Text(const char* name, const char* help, Member member, const std::vector<std::string>& words = {}) {
  return {.name = name, .help = help, .member = +member, .words = words};
}
// The member is an enumeration, whose words are the values.
template <typename Member>
RecipeKey Choice(const char* name, const char* help, Member /*member*/) {
  using Value = std::remove_reference_t<std::invoke_result_t<Member, RunConfig&>>;
  constexpr WordMember kMember = {
      .get = [](RunConfig& config) { return Name(Member{}(config)); },
      .set = [](RunConfig& config, const std::string& word) { Member{}(config) = FromWord<Value>("value", word); }};
  return {.name = name, .help = help, .member = kMember, .words = NamesOf<Value>()};
}

inline RecipeKey Optional(RecipeKey key) {
  key.may_be_empty = true;
  return key;
}

inline RecipeKey Automatic(RecipeKey key) {
  key.default_word = "auto";
  if (key.words.empty() || key.words.front() != "auto") {
    key.words.insert(key.words.begin(), "auto");
  }
  return key;
}

inline RecipeKey ChangesTime(RecipeKey key, TimeEffect effect = TimeEffect::kAlways) {
  key.time = effect;
  return key;
}

inline std::vector<RecipeKey> ChangeTime(std::vector<RecipeKey> keys) {
  for (RecipeKey& key : keys) {
    key.time = TimeEffect::kAlways;
  }
  return keys;
}

inline RecipeKey MayChange(RecipeKey key) {
  key.may_change = true;
  return key;
}

inline RecipeKey InEveryManifest(RecipeKey key) {
  key.in_every_manifest = true;
  return key;
}

inline RecipeKey StoredAs(const char* name, RecipeKey key) {
  key.stored_as = name;
  return key;
}

// Keys of [optimizer].
std::vector<RecipeKey> OptimizerKeys();

}  // namespace trireme
