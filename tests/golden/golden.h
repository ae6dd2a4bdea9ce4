// Golden files: what the program says today of programs, memory, plans and simulated time, so that a change which is
// meant to leave all that alone can show it. Files are equal on x86-64 and aarch64: whole numbers are exact, others
// have nine digits.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme::golden {

// Fails with a diff unless tests/golden/expected/`name` holds `actual`. With TRIREME_UPDATE_GOLDEN=1, which
// scripts/update-golden sets, the file is written instead. A line that begins with "# ", or with a blank and
// a quote as members of a JSON object do, opens a section of the file.
void ExpectGolden(const std::string& name, const std::string& actual);

// Nine significant digits: more than any table shows, fewer than rounding differs in between machines.
std::string Rounded(double value);
// Every number that is not an integer rounded so.
void RoundNumbers(nlohmann::json& value);

}  // namespace trireme::golden
