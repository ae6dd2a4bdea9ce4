// Measured seconds against predicted ones in words: the one form that terminals and pages use.
#pragma once

#include <string>

namespace trireme {

// "1.8× slower than predicted", "1.2× faster than predicted"; "as predicted" within 5 %; "" where one is not above 0.
std::string AgainstPrediction(double measured, double predicted);

}  // namespace trireme
