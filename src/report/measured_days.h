// Days that measured runs would take for a training, for a plot of predicted ones.
#pragma once

#include <string>
#include <vector>

#include "planner/queries/days_plot.h"

namespace trireme {

// Reads a run's folder, or the runs right below a folder: the medians of its steps; a folder of `bench`: its table; of
// a CSV file: see ParseDaysPoints. An Error where there is nothing measured.
std::vector<DaysCurve> ReadMeasuredDays(const std::string& path, double tokens);

// The measured points of a CSV with the columns devices (or GPUs), days (or days/100B as `bench` writes it, which is
// brought to `tokens`), and optionally name (or system); a curve a name, else one named `otherwise`. Rows without days
// are passed over. An Error names the columns that are missing.
std::vector<DaysCurve> ParseDaysPoints(const std::string& csv, const std::string& origin, double tokens,
                                       const std::string& otherwise);

}  // namespace trireme
