// What the commands share about their command lines: checks of numbers, and one line about what cannot be understood.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace trireme {

// Checks of an option's number. What is no number at all is left to CLI11.
CLI::Validator AboveZero();
CLI::Validator NotNegative();

// The path of a recipe: one that comes with the program may be given by its name alone.
std::string RecipePath(const std::string& told);

// The message about a command line that `app` could not parse: the word, what was expected, the nearest known name.
std::string ExplainParseError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace trireme
