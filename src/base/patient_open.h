// Opening files for reading on file systems that thousands of processes ask at once.
#pragma once

namespace trireme {

// open(), asked again a few times where the file system is busy for now (EAGAIN, ETIMEDOUT) or has lost its handle
// (ESTALE). Pauses grow to a fifth of a second and differ between threads and processes, so that those which were
// refused together do not come back together.
int OpenPatiently(const char* path, int flags);

}  // namespace trireme
