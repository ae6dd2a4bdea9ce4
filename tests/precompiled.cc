// Compiled once so that every test program can share its precompiled headers (see trireme_test in cmake/).
