// Factors between the units of files of clusters and stacks and this program's bytes, seconds and FLOP/s.
#pragma once

namespace trireme {

inline constexpr double kMicro = 1e-6;
inline constexpr double kGiga = 1e9;
inline constexpr double kTera = 1e12;

}  // namespace trireme
