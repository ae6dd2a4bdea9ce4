#!/usr/bin/env python3
"""Tokens/s of one build of Trireme against another's: the release's tarball against the normal build, say.

    builds.py BUILD REFERENCE [--shape 30m] [--dtype bf16 fp32] [--threads 2] [--rounds 4] [--steps 5]

A build is a program, or a tarball of `cmake --workflow --preset release`, which is unpacked into a temporary folder. The two
take turns, one process after the other, so that a machine that slows down slows both. Of each run the median step after the
first two counts, of the rounds the median; ranges show how far rounds differ. Prints the ratio for each type, and ends with
code 1 where it is below --least.
"""
import argparse
import glob
import os
import statistics
import sys
import tarfile
import tempfile

import programs
import shapes


def unpacked(build, folder):
    """The program of a tarball; a program as it is."""
    if not build.endswith(".tar.gz"):
        return os.path.abspath(build)
    with tarfile.open(build) as archive:
        archive.extractall(folder)
    found = glob.glob(os.path.join(folder, "*/bin/trireme"))
    if len(found) != 1:
        raise SystemExit(f"{build} holds {len(found)} files bin/trireme, not one")
    return found[0]


def tokens_per_second(program, shape, setting, steps):
    measured = programs.run_trireme(setting, program, shape, shape.micro_batch, steps, [])
    if measured is None:
        raise SystemExit(f"{program} ran out of memory")
    return measured["tokens"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("reference")
    parser.add_argument("--shape", default="30m", choices=shapes.SHAPES["cpu"])
    parser.add_argument("--dtype", nargs="+", default=["bf16", "fp32"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--least", type=float, default=0.95)
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.rounds < 1:
        parser.error("--steps and --rounds must be at least 1")
    shape = shapes.SHAPES["cpu"][arguments.shape]
    enough = True
    with tempfile.TemporaryDirectory() as folder:
        builds = [unpacked(arguments.build, folder), unpacked(arguments.reference, folder)]
        for dtype in arguments.dtype:
            setting = programs.Setting(device="cpu", dtype=dtype, threads=arguments.threads, warm_up=2)
            rates = [[], []]
            for _ in range(arguments.rounds):
                for which in (0, 1):
                    rates[which].append(tokens_per_second(builds[which], shape, setting, arguments.steps))
            ratio = statistics.median(rates[0]) / statistics.median(rates[1])
            enough = enough and ratio >= arguments.least
            words = [f"{statistics.median(rate):,.0f} ({min(rate):,.0f} to {max(rate):,.0f})" for rate in rates]
            print(f"{arguments.shape} {dtype}, {arguments.threads} threads: {words[0]} tokens/s against {words[1]}: "
                  f"{100 * ratio:.1f} %", flush=True)
    sys.exit(0 if enough else 1)


if __name__ == "__main__":
    main()
