// How long threads of a CPU device spin for each other before they sleep.
#pragma once

namespace trireme {

// Threads of one rank wait for each other some thousand times a step. By default those of libgomp spin for up to 20 ms
// each time, and where other processes want the cores, the thread that is waited for does not run meanwhile: steps take
// ten times as long. With a short spin they take as long as on a quiet machine, given the cores that are left.
// libgomp reads its settings when it is loaded, so this starts the program again with GOMP_SPINCOUNT set, unless that
// or OMP_WAIT_POLICY is set already. For commands that compute; does nothing where the program cannot be started again.
void SpinBriefly(int argc, char** argv);

}  // namespace trireme
