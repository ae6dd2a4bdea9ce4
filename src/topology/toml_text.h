// TOML from text. Everything in the program that reads TOML does so here.
#pragma once

// toml++ 3.3 asserts on some malformed keys that it then reports properly: damaged text must not end a debug build.
#define TOML_ASSERT(expression) static_cast<void>(0)
#include <toml++/toml.h>

#include <stdexcept>
#include <string>

namespace trireme {

// How many parts a dotted key may have, and how deep brackets may be nested. Trees are walked and freed by recursion:
// depth costs stack.
inline constexpr int kMostKeyParts = 16;
inline constexpr int kDeepestToml = 16;

// What is wrong with a text, and where.
struct TomlFault : std::runtime_error {
  TomlFault(const std::string& what, int at) : std::runtime_error(what), line(at) {}
  int line;
};

// The tables that `text` holds. Throws TomlFault where it is malformed or nested too deep.
toml::table ParseToml(const std::string& text);

}  // namespace trireme
