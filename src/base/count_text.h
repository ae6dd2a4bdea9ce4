// Numbers as people write them: "300B", "2k", "1.5T".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trireme {

// The number of a text with a decimal unit at its end (k, M, B or T of either case); nothing where the text is no
// number with a unit, plain numbers among them.
std::optional<double> NumberWithUnit(const std::string& text);

// The digits that a text with a unit stands for, "300000000000"; any other text as it is.
std::string WithoutUnit(const std::string& text);

// "300,000,000,000"
std::string GroupedDigits(const std::string& digits);

}  // namespace trireme
