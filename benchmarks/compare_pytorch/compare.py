#!/usr/bin/env python3
"""Trains the same GPT shapes with Trireme and with PyTorch on one GPU, alternating, and prints a table.

    python3 benchmarks/compare_pytorch/compare.py --trireme build/cuda/trireme
    python3 benchmarks/compare_pytorch/compare.py --trireme build/cuda/trireme --shapes "" --curves corpus.txt

For each shape and program: the best micro batch, found by climbing from the shape's own (twice as large as long as that
is faster and fits, then half), which is the first round; in each further one the programs run one after another at it.
Told are the median tokens/s of the rounds, model TFLOP/s and the ratio to torch.compile; then peak memory at the
shape's own micro batch (or the one that was asked for), for all programs alike, and its ratio. All read random tokens:
only the step is measured. A line on standard error tells of each run.

--curves FILE (text, whose bytes are the tokens, or a prepared FILE.bin) trains the 124M shape for --curve-steps steps of
32 sequences from the same weights over the same samples, and overlays the losses.
"""
import argparse
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time

from curves import run_curves
from programs import Shape, run_torch, run_trireme

SHAPES = {
    "124m": Shape(12, 768, 12, 50304, 1024, 64),
    "1.3b": Shape(24, 2048, 16, 50304, 2048, 16),
    "176b-2layers": Shape(2, 14336, 112, 50304, 2048, 4),
    "gpt2-1558m": Shape(48, 1600, 25, 50304, 1024, 16),
    "124m-t4096": Shape(12, 768, 12, 50304, 4096, 16),
    "llama-1b": Shape(16, 2048, 16, 50304, 2048, 16, "llama"),
}


def programs(path, keys):
    def trireme(*own):
        return lambda shape, micro_batch, steps: run_trireme(path, shape, micro_batch, steps, [*own, *keys])

    return {
        "torch.compile": lambda shape, micro_batch, steps: run_torch(shape, micro_batch, steps, True),
        "torch eager": lambda shape, micro_batch, steps: run_torch(shape, micro_batch, steps, False),
        "trireme": trireme(),
        "trireme none": trireme("layout.recompute=none"),
        "trireme light": trireme("layout.recompute=light"),
        "trireme fp8": trireme("train.dtype=fp8"),
        "bf16 moments": trireme("optimizer.moments=bf16"),
        "deterministic": trireme("train.deterministic=true"),
    }


class Entry:
    """What is known of one program on one shape."""

    def __init__(self, name, run, shape):
        self.name, self.run, self.shape = name, run, shape
        self.tried = {}  # by micro batch; None where memory ran out
        self.best = shape.micro_batch
        self.tokens = []

    def measure(self, micro_batch, steps):
        start = time.time()
        result = self.run(self.shape, micro_batch, steps)
        told = f"{result['tokens']:.0f} tokens/s, {result['memory'] / 1e9:.1f} GB" if result else "out of memory"
        print(f"  {self.name}, micro batch {micro_batch}: {told} ({time.time() - start:.0f} s)", file=sys.stderr, flush=True)
        return result

    def rate(self, micro_batch, steps):
        if micro_batch not in self.tried:
            self.tried[micro_batch] = self.measure(micro_batch, steps)
        return self.tried[micro_batch]["tokens"] if self.tried[micro_batch] else 0

    def search(self, steps):
        """Climbs by factors of two, first up, then down, to a micro batch that both neighbours do not beat by 0.5 %."""
        self.rate(self.best, steps)
        for larger in (True, False):
            while larger or self.best > 1:
                following = self.best * 2 if larger else self.best // 2
                if self.rate(following, steps) <= 1.005 * self.rate(self.best, steps):
                    break
                self.best = following

    def first_round(self, steps):
        if self.rate(self.best, steps) == 0:
            raise SystemExit(f"{self.name}: micro batch {self.best} does not fit")
        self.tokens.append(self.rate(self.best, steps))

    def round(self, steps):
        self.tokens.append(self.measure(self.best, steps)["tokens"])

    def equal_memory(self):
        own = self.tried.get(self.shape.micro_batch)
        return own["memory"] if own else 0


def compare(name, chosen, arguments):
    shape = SHAPES[name]
    if arguments.micro_batch.isdigit():
        shape = dataclasses.replace(shape, micro_batch=int(arguments.micro_batch))
    entries = {program: Entry(f"{name} {program}", run, shape) for program, run in chosen.items()}
    for entry in entries.values():
        if arguments.micro_batch == "best":
            entry.search(arguments.steps)
        entry.first_round(arguments.steps)
    for _ in range(arguments.rounds - 1):
        for entry in entries.values():
            entry.round(arguments.steps)
    base = entries.get("torch.compile")
    rows = []
    for program, entry in entries.items():
        tokens = statistics.median(entry.tokens)
        memory = entry.equal_memory()
        rows.append({
            "shape": name, "program": program, "micro_batch": entry.best, "tokens_per_second": tokens,
            "tflops": tokens * shape.flops_per_token() / 1e12,
            "ratio": tokens / statistics.median(base.tokens) if base else 0,
            "equal_memory_gb": memory / 1e9,
            "memory_ratio": memory / base.equal_memory() if base and base.equal_memory() else 0,
            "all_rounds": entry.tokens,
            "tried": {size: result and result["tokens"] for size, result in entry.tried.items()}})
    return rows


def show(rows):
    for row in rows:
        print(f"{row['shape']:13s} {row['program']:14s} {row['micro_batch']:4d} {row['tokens_per_second']:10.0f} "
              f"{row['tflops']:8.1f} {row['ratio']:6.2f} {row['equal_memory_gb']:9.1f} {row['memory_ratio']:6.2f}",
              flush=True)
    rates = {row["program"]: row["tokens_per_second"] for row in rows}
    if "deterministic" in rates and "trireme" in rates:
        print(f"{'':13s} train.deterministic costs {100 * (1 - rates['deterministic'] / rates['trireme']):.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True, help="the program, built with CUDA")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="a list; all when not given")
    parser.add_argument("--programs", help="a list; all when not given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--micro-batch", default="best", help="best: each program's; own: the shape's own; or a number")
    parser.add_argument("--set", action="append", default=[], help="a key for Trireme, such as train.graphs=false")
    parser.add_argument("--curves", help="a text or a prepared .bin: compare losses")
    parser.add_argument("--curve-steps", type=int, default=500)
    parser.add_argument("--output", default="compare", help="folder for results.json, losses.csv and losses.svg")
    arguments = parser.parse_args()
    if arguments.micro_batch not in ("best", "own") and not arguments.micro_batch.isdigit():
        parser.error(f"--micro-batch {arguments.micro_batch}: best, own or a number")
    os.makedirs(arguments.output, exist_ok=True)
    chosen = programs(os.path.abspath(arguments.trireme), arguments.set)
    if arguments.programs:
        chosen = {name: chosen[name] for name in arguments.programs.split(",")}
    results = []
    names = [name for name in arguments.shapes.split(",") if name]
    if names:
        print("shape         program         mbs   tokens/s  TFLOP/s  ratio  equal GB  ratio")
    for name in names:
        rows = compare(name, chosen, arguments)
        show(rows)
        results += rows
        with open(os.path.join(arguments.output, "results.json"), "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    if arguments.curves:
        with tempfile.TemporaryDirectory() as folder:
            run_curves(arguments, SHAPES["124m"], folder)


if __name__ == "__main__":
    sys.exit(main())
