#!/usr/bin/env python3
"""Trains the same GPT and Llama shapes with Trireme and with PyTorch, alternating, and prints a table.

    python3 benchmarks/compare_pytorch/compare.py --trireme build/cuda/trireme
    python3 benchmarks/compare_pytorch/compare.py --trireme build/cuda/trireme --shapes "" --curves corpus.txt
    python3 benchmarks/compare_pytorch/compare.py --trireme build/cpu/trireme --device cpu --python /usr/bin/python3

For each shape and program: the best micro batch, found by climbing from the shape's own (twice as large as long as that
is faster and fits, then half), which is the first round; in each further one the programs run one after another at it.
Told are the median tokens/s of the rounds, model TFLOP/s and the ratio to PyTorch (on a GPU torch.compile, on a CPU the
fastest of its ways); then peak memory at the shape's own micro batch (or the one that was asked for), for all programs
alike, and its ratio. All read random tokens: only the step is measured. A line on standard error tells of each run.

--device cpu compares at the shape's own micro batch with --threads threads, in each type of --dtype, and tells the share
of the fastest product that `trireme machine` measures. PyTorch runs eagerly and, from 2.0 on, compiled; bf16 both under
autocast, as Trireme keeps its weights, and wholly in bf16 with bf16 weights and moments, which is less work.

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

from programs import Setting, product_peak, run_torch, run_trireme, torch_version
from shapes import SHAPES


def gpu_programs(path, keys, setting):
    def torch(compiled):
        return lambda shape, micro_batch, steps: run_torch(setting, shape, micro_batch, steps, compiled, "autocast")

    def trireme(*own):
        return lambda shape, micro_batch, steps: run_trireme(setting, path, shape, micro_batch, steps, [*own, *keys])

    return {
        "torch.compile": torch(True),
        "torch eager": torch(False),
        "trireme": trireme(),
        "trireme none": trireme("layout.recompute=none"),
        "trireme light": trireme("layout.recompute=light"),
        "trireme fp8": trireme("train.dtype=fp8"),
        "bf16 moments": trireme("optimizer.moments=bf16"),
        "deterministic": trireme("train.deterministic=true"),
    }


def cpu_programs(path, keys, setting, version):
    def torch(compiled, precision):
        return lambda shape, micro_batch, steps: run_torch(setting, shape, micro_batch, steps, compiled, precision)

    chosen = {}
    for precision in ["fp32"] if setting.dtype == "fp32" else ["autocast", "bf16"]:
        chosen[f"torch {precision}"] = torch(False, precision)
        if int(version.split(".")[0]) >= 2:
            chosen[f"compile {precision}"] = torch(True, precision)
    chosen["trireme"] = lambda shape, micro_batch, steps: run_trireme(setting, path, shape, micro_batch, steps, keys)
    return chosen


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


def best_torch(entries, device):
    """The entry that ratios refer to; None where no PyTorch took part."""
    if device == "cuda":
        return entries.get("torch.compile")
    torch = [entry for program, entry in entries.items() if program != "trireme"]
    return max(torch, key=lambda entry: statistics.median(entry.tokens), default=None)


def compare(name, shape, chosen, arguments):
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
    base = best_torch(entries, arguments.device)
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
        share = f" {100 * row['peak_share']:5.0f} %" if row.get("peak_share") else ""
        print(f"{row['shape']:13s} {row['program']:16s} {row['micro_batch']:4d} {row['tokens_per_second']:10.0f} "
              f"{row['tflops']:8.3g} {row['ratio']:6.2f} {row['equal_memory_gb']:9.1f} {row['memory_ratio']:6.2f}{share}",
              flush=True)
    rates = {row["program"]: row["tokens_per_second"] for row in rows}
    if "deterministic" in rates and "trireme" in rates:
        print(f"{'':13s} train.deterministic costs {100 * (1 - rates['deterministic'] / rates['trireme']):.1f} %")


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True, help="the program; built with CUDA for --device cuda")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shapes", help="a list; all of the device when not given")
    parser.add_argument("--programs", help="a list; all when not given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="measured in each run (20; on a CPU 5)")
    parser.add_argument("--micro-batch", help="best: each program's (on a GPU); own: the shape's own (on a CPU); or a number")
    parser.add_argument("--dtype", default="fp32,bf16", help="on a CPU: a list of fp32 and bf16")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="on a CPU, for all programs (all)")
    parser.add_argument("--level", default="", help="on a CPU: TRIREME_CPU_LEVEL for Trireme, such as avx2")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch (this one)")
    parser.add_argument("--set", action="append", default=[], help="a key for Trireme, such as train.graphs=false")
    parser.add_argument("--curves", help="on a GPU: a text or a prepared .bin: compare losses")
    parser.add_argument("--curve-steps", type=int, default=500)
    parser.add_argument("--output", default="compare", help="folder for results.json, losses.csv and losses.svg")
    arguments = parser.parse_args()
    on_cpu = arguments.device == "cpu"
    arguments.steps = arguments.steps or (5 if on_cpu else 20)
    arguments.micro_batch = arguments.micro_batch or ("own" if on_cpu else "best")
    known = SHAPES[arguments.device]
    arguments.shapes = [name for name in (",".join(known) if arguments.shapes is None else arguments.shapes).split(",") if name]
    for name in arguments.shapes:
        if name not in known:
            parser.error(f"--shapes {name}: known for {arguments.device} are {', '.join(known)}")
    for dtype in arguments.dtype.split(","):
        if dtype not in ("fp32", "bf16"):
            parser.error(f"--dtype {dtype}: fp32 and bf16 are known")
    if arguments.micro_batch not in ("best", "own") and not arguments.micro_batch.isdigit():
        parser.error(f"--micro-batch {arguments.micro_batch}: best, own or a number")
    if on_cpu and arguments.curves:
        parser.error("--curves needs --device cuda")
    return arguments


def settings(arguments):
    if arguments.device == "cuda":
        return [Setting(python=arguments.python)]
    return [Setting("cpu", dtype, arguments.threads, arguments.level, arguments.python, 2)
            for dtype in arguments.dtype.split(",")]


def chosen_programs(arguments, setting, version):
    path = os.path.abspath(arguments.trireme)
    if arguments.device == "cuda":
        chosen = gpu_programs(path, arguments.set, setting)
    else:
        chosen = cpu_programs(path, arguments.set, setting, version)
    if arguments.programs:
        unknown = [name for name in arguments.programs.split(",") if name not in chosen]
        if unknown:
            raise SystemExit(f"--programs {unknown[0]}: known here are {', '.join(chosen)}")
        chosen = {name: chosen[name] for name in arguments.programs.split(",")}
    return chosen


def main():
    arguments = read_arguments()
    os.makedirs(arguments.output, exist_ok=True)
    results = []
    for setting in settings(arguments) if arguments.shapes else []:
        version = torch_version(setting)
        if not version:
            raise SystemExit(f"{setting.python} has no PyTorch; --python names one that has")
        peak = 0
        about = f"PyTorch {version}"
        if setting.device == "cpu":
            peak = product_peak(os.path.abspath(arguments.trireme), setting)
            about += f", {setting.dtype}, {setting.threads} threads"
            about += f", level {setting.level}" if setting.level else ""
            about += f", products at {peak / 1e12:.3g} TFLOP/s" if peak else ""
        print(about)
        print("shape         program           mbs   tokens/s  TFLOP/s  ratio  equal GB  ratio" + ("  of peak" if peak else ""))
        for name in arguments.shapes:
            rows = compare(name, SHAPES[arguments.device][name], chosen_programs(arguments, setting, version), arguments)
            for row in rows:
                row.update(dtype=setting.dtype, threads=setting.threads, level=setting.level, torch=version)
                row["peak_share"] = row["tflops"] * 1e12 / peak if peak else 0
            show(rows)
            results += rows
            with open(os.path.join(arguments.output, "results.json"), "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    if arguments.curves:
        with tempfile.TemporaryDirectory() as folder:
            from curves import run_curves  # takes numpy, which speeds go without

            run_curves(arguments, SHAPES["cuda"]["124m"], folder)


if __name__ == "__main__":
    sys.exit(main())
