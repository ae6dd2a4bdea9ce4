// What the commands share about their command lines: checks of numbers, and one line about what cannot be understood.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "planner/queries/run_table.h"

namespace trireme {

// Checks of an option's number. What is no number at all is left to CLI11.
CLI::Validator AboveZero();
CLI::Validator NotNegative();

// Lets every option of the command and those below it that takes a number take one with a unit too: 2k, 300B. The
// number that was read goes to standard error.
void AcceptUnits(CLI::App& app);

// Options of a table of runs: --price and --relative-to.
void AddTableOptions(CLI::App& app, TableOptions& options);
// A table in one of the formats markdown, csv, json; else as text.
std::string Formatted(const RunTable& table, const std::string& format);

// The path of a recipe: one that comes with the program may be given by its name alone.
std::string RecipePath(const std::string& told);

// The message about a command line that `app` could not parse: the word, what was expected, the nearest known name.
std::string ExplainParseError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace trireme
