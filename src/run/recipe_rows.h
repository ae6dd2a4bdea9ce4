// How rows of the table of recipe keys are written, and the parts that the table is put together from.
#pragma once

#include <string>
#include <vector>

#include "run/recipe_keys.h"

namespace trireme {

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

inline RecipeKey Optional(RecipeKey key) {
  key.may_be_empty = true;
  return key;
}

inline RecipeKey Automatic(RecipeKey key) {
  key.default_word = "auto";
  return key;
}

// Keys of [model] and [lora].
std::vector<RecipeKey> ModelKeys();

}  // namespace trireme
