#!/usr/bin/env python3
"""Trains the same GPT shapes with Trireme and with PyTorch on one GPU, alternating, and prints a table.

    python3 benchmarks/compare_pytorch/compare.py --trireme build/cuda/trireme
    python3 benchmarks/compare_pytorch/compare.py --trireme build/cuda/trireme --shapes "" --curves corpus.txt

For each shape and program: the best micro batch of those tried (the shape's own, half and twice it, where they fit),
the median tokens/s of all rounds at it, model TFLOP/s, and the ratio to torch.compile; then peak memory at the shape's
own micro batch, for all programs alike, and its ratio. Both programs read random tokens: only the step is measured.

--curves FILE (text, whose bytes are the tokens, or a prepared FILE.bin) trains the 124M shape for --curve-steps steps of
32 sequences from the same weights over the same samples, and overlays the losses.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from curves import run_curves
from programs import Shape, run_torch, run_trireme

SHAPES = {
    "124m": Shape(12, 768, 12, 50304, 1024, 64),
    "1.3b": Shape(24, 2048, 16, 50304, 2048, 16),
    "176b-2layers": Shape(2, 14336, 112, 50304, 2048, 4),
    "gpt2-1558m": Shape(48, 1600, 25, 50304, 1024, 16),
    "124m-t4096": Shape(12, 768, 12, 50304, 4096, 16),
}


def programs(path, keys):
    def trireme(*own):
        return lambda shape, micro_batch, steps: run_trireme(path, shape, micro_batch, steps, [*own, *keys])

    return {
        "torch.compile": lambda shape, micro_batch, steps: run_torch(shape, micro_batch, steps, True),
        "torch eager": lambda shape, micro_batch, steps: run_torch(shape, micro_batch, steps, False),
        "trireme": trireme(),
        "trireme light": trireme("layout.recompute=light"),
        "trireme fp8": trireme("train.dtype=fp8"),
        "deterministic": trireme("train.deterministic=true"),
    }


class Entry:
    """What is known of one program on one shape."""

    def __init__(self, run, shape, candidates, steps):
        self.run, self.shape, self.candidates, self.steps = run, shape, candidates, steps
        self.best = None
        self.tokens = []
        self.equal_memory = None

    def round(self):
        if self.best is not None:
            self.tokens.append(self.run(self.shape, self.best, self.steps)["tokens"])
            return
        results = {}
        for micro_batch in self.candidates:
            result = self.run(self.shape, micro_batch, self.steps)
            if result is not None:
                results[micro_batch] = result
        if not results:
            raise SystemExit(f"none of the micro batches {self.candidates} fits")
        self.best = max(results, key=lambda size: results[size]["tokens"])
        self.tokens.append(results[self.best]["tokens"])
        if self.shape.micro_batch in results:
            self.equal_memory = results[self.shape.micro_batch]["memory"]


def compare(name, chosen, arguments):
    shape = SHAPES[name]
    own = shape.micro_batch
    candidates = [own] if arguments.own_micro_batch else [own, 2 * own] + ([own // 2] if own > 1 else [])
    entries = {program: Entry(run, shape, candidates, arguments.steps) for program, run in chosen.items()}
    for _ in range(arguments.rounds):
        for entry in entries.values():
            entry.round()
    base = entries.get("torch.compile")
    rows = []
    for program, entry in entries.items():
        tokens = statistics.median(entry.tokens)
        rows.append({
            "shape": name, "program": program, "micro_batch": entry.best, "tokens_per_second": tokens,
            "tflops": tokens * shape.flops_per_token() / 1e12,
            "ratio": tokens / statistics.median(base.tokens) if base else 0,
            "equal_memory_gb": (entry.equal_memory or 0) / 1e9,
            "memory_ratio": entry.equal_memory / base.equal_memory
            if base and entry.equal_memory and base.equal_memory else 0,
            "all_rounds": entry.tokens})
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
    parser.add_argument("--shapes", default="124m,1.3b", help="of " + ", ".join(SHAPES))
    parser.add_argument("--programs", help="a list; all when not given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--own-micro-batch", action="store_true", help="try the shape's own micro batch only")
    parser.add_argument("--set", action="append", default=[], help="a key for Trireme, such as train.graphs=false")
    parser.add_argument("--curves", help="a text or a prepared .bin: compare losses")
    parser.add_argument("--curve-steps", type=int, default=500)
    parser.add_argument("--output", default="compare", help="folder for results.json, losses.csv and losses.svg")
    arguments = parser.parse_args()
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
