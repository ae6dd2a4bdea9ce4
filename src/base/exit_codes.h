// What the program's exit codes say; 0: done. docs/hangs.md has those of a run.
#pragma once

namespace trireme {

inline constexpr int kExitFailed = 1;    // the work failed, or found something wrong
inline constexpr int kExitBadInput = 2;  // the input cannot be used; nothing was written
inline constexpr int kExitStopped = 3;   // stopped on request, and nothing is lost
inline constexpr int kExitGaveUp = 4;    // the supervisor's: the job died again and again
inline constexpr int kExitUnsaved = 5;   // a run's last save failed: no start would go further while the disk is full

}  // namespace trireme
