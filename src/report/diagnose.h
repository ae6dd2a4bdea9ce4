// `trireme diagnose DIR`: the flight records of a run, told in words, with a timeline, and as JSON.
#pragma once

#include <string>

#include "operate/flight_report.h"

namespace trireme {

struct Diagnosis {
  // 0: every rank finished or stopped on request; 1: one did not, or is still running.
  int status = 0;
  std::string text;
  std::string json;  // one object
};

// What the text says of the ranks: a line each of up to 16; of more, one for ranks that are alike, so that it fits a
// screen however many they are.
std::string DescribeFlight(const FlightReport& report);

// `path` is a run's folder, its flight/, or a folder with ledgers such as flight/death-001. An Error when there is no
// ledger.
Diagnosis Diagnose(const std::string& path);

}  // namespace trireme
