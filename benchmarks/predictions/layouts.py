#!/usr/bin/env python3
"""Predicted against measured seconds of a step on the machine at hand.

Calibrates the machine, trains a small model under many layouts for a few seconds each, and prints for each the median
of the measured steps beside what `trireme train` had predicted, the mean absolute error and Spearman's rank correlation.

  benchmarks/predictions/layouts.py --program build/cpu/trireme
  benchmarks/predictions/layouts.py --program build/cuda/trireme --gpu
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

DEFAULTS = dict(layers=4, hidden=256, heads=4, vocabulary=1024, sequence=128, tensor=1, pipeline=1, data=1, zero=0,
                micro_batch=2, batch=8, schedule="1f1b", chunks=1, recompute="none", dtype="fp32",
                sequence_parallel="false")

CPU = [
    dict(),
    dict(micro_batch=1, hidden=128),
    dict(micro_batch=8),
    dict(recompute="full", hidden=384, heads=6),
    dict(recompute="light", micro_batch=4),
    dict(dtype="bf16", micro_batch=4),
    dict(hidden=512, heads=8, layers=2),
    dict(hidden=512, heads=8, dtype="bf16", micro_batch=4),
    dict(hidden=128, layers=8),
    dict(hidden=384, heads=6, sequence=256, batch=4),
    dict(tensor=2),
    dict(tensor=2, micro_batch=4, dtype="bf16"),
    dict(tensor=2, hidden=512, heads=8, layers=2, sequence_parallel="true"),
    dict(tensor=2, recompute="selective", micro_batch=4, hidden=128),
    dict(pipeline=2),
    dict(pipeline=2, micro_batch=1, hidden=128),
    dict(pipeline=2, schedule="interleaved", chunks=2, hidden=384, heads=6),
    dict(pipeline=2, schedule="zero_bubble"),
    dict(pipeline=2, schedule="gpipe", hidden=512, heads=8, layers=2),
    dict(pipeline=2, dtype="bf16", micro_batch=4),
    dict(data=2),
    dict(data=2, zero=1, micro_batch=4, hidden=384, heads=6),
    dict(data=2, zero=2, hidden=128),
    dict(data=2, zero=3, hidden=512, heads=8, layers=2),
    dict(data=2, zero=1, dtype="bf16", recompute="full"),
    dict(tensor=2, data=2),
    dict(pipeline=2, data=2, zero=1, hidden=128),
    dict(tensor=2, pipeline=2),
    dict(pipeline=4, micro_batch=1),
    dict(data=4, zero=2, hidden=512, heads=8, layers=2),
]

GPU_BASE = dict(layers=12, hidden=768, heads=12, vocabulary=50304, sequence=1024, dtype="bf16", batch=32,
                micro_batch=8)
GPU = [
    dict(),
    dict(micro_batch=4),
    dict(micro_batch=32, recompute="light"),
    dict(recompute="full", micro_batch=16),
    dict(layers=24, hidden=1024, heads=16),
    dict(layers=24, hidden=1024, heads=16, micro_batch=4, recompute="selective"),
    dict(layers=24, hidden=2048, heads=16, micro_batch=4, batch=16),
    dict(layers=24, hidden=2048, heads=16, sequence=2048, micro_batch=4, batch=8, recompute="full"),
    dict(layers=8, hidden=4096, heads=32, sequence=2048, micro_batch=4, batch=8),
    dict(layers=4, hidden=8192, heads=64, sequence=2048, micro_batch=2, batch=8, recompute="light"),
]


def recipe(values):
    return """[model]
family = "gpt2"
layers = {layers}
hidden = {hidden}
heads = {heads}
vocabulary = {vocabulary}
sequence = {sequence}
[layout]
tensor = {tensor}
pipeline = {pipeline}
data = {data}
zero = {zero}
micro_batch = {micro_batch}
schedule = "{schedule}"
chunks = {chunks}
recompute = "{recompute}"
sequence_parallel = {sequence_parallel}
[batch]
global = {batch}
[train]
dtype = "{dtype}"
steps = 100000
[data]
source = "synthetic"
[checkpoint]
every = 0
""".format(**values)


def name(values, base):
    changed = {key: value for key, value in values.items() if value != base[key]}
    return " ".join(f"{key}={value}" for key, value in changed.items()) or "(base)"


def busy():
    """Seconds of the machine's cores so far: given to others by the hypervisor or to any process, and in all."""
    with open("/proc/stat") as file:
        user, nice, system, idle, wait, irq, soft, steal = [int(word) for word in file.readline().split()[1:9]]
    tick = os.sysconf("SC_CLK_TCK")
    used = user + nice + system + irq + soft + steal
    return used / tick, (used + idle + wait) / tick


def measure_undisturbed(options, values, folder, again):
    """The least disturbed of the runs, with the share of the machine that others had meanwhile."""
    best = None
    while best is None or again():
        before, own = busy(), resource.getrusage(resource.RUSAGE_CHILDREN)
        result = measure_steps(options, values, folder) if options.gpu else measure(options, values, options.seconds, folder)
        after, now = busy(), resource.getrusage(resource.RUSAGE_CHILDREN)
        mine = now.ru_utime + now.ru_stime - own.ru_utime - own.ru_stime
        share = max(0.0, after[0] - before[0] - mine) / max(after[1] - before[1], 1e-9)
        if best is None or share < best[0]:
            best = (share, result)
        if share < 0.02:
            break
    return best[1] + (best[0],)


def measure(options, values, seconds, folder):
    """A run that ends after so many seconds, its start included; twice as many where that leaves no step to judge."""
    result = train(options.program, values, folder, ["--walltime", str(seconds), "--exit-before", "0.1"], 2)
    return result or measure(options, values, 2 * seconds, folder)


def measure_steps(options, values, folder):
    """A run of --steps steps. The first half, in which products are chosen and the chip warms up, does not count."""
    return train(options.program, values, folder, ["--steps", str(options.steps)], options.steps // 2)


def train(program, values, folder, limit, warm_up):
    """Predicted and measured seconds, how many steps were judged, and the line of causes; None without a step."""
    path = os.path.join(folder, "recipe.toml")
    run = os.path.join(folder, "run")
    subprocess.run(["rm", "-rf", run], check=True)
    with open(path, "w") as file:
        file.write(recipe(values))
    done = subprocess.run([program, "train", path, "--run", run, "--no-checkpoint", *limit, "--log-every", "1000000"],
                          capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"{name(values, DEFAULTS)}: {done.stderr.strip()}")
    with open(os.path.join(run, "metrics.jsonl")) as file:
        steps = [json.loads(line) for line in file]
    steps = [step for step in steps if "seconds" in step][warm_up:]
    if not steps:
        return None
    causes = [line for line in done.stdout.splitlines() if "by cause" in line]
    return (steps[0]["predicted_seconds"], statistics.median(step["seconds"] for step in steps), len(steps),
            causes[-1].split(":", 1)[1].strip() if causes else "")


def ranks_of(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0.0] * len(values)
    for rank, i in enumerate(order):
        ranks[i] = rank
    return ranks


def spearman(first, second):
    a, b = ranks_of(first), ranks_of(second)
    mean = (len(a) - 1) / 2
    return sum((x - mean) * (y - mean) for x, y in zip(a, b)) / sum((x - mean) ** 2 for x in a)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/cpu/trireme")
    parser.add_argument("--gpu", action="store_true", help="ten layouts of one GPU instead of thirty of the CPU")
    parser.add_argument("--seconds", type=float, default=3, help="of each run on the CPU (3)")
    parser.add_argument("--steps", type=int, default=20, help="of each run on the GPU, the second half counts (20)")
    parser.add_argument("--patience", type=float, default=60,
                        help="seconds from the first run on in which CPU runs that others disturbed are repeated (60)")
    parser.add_argument("--no-calibrate", action="store_true", help="use the calibration that is there")
    parser.add_argument("--causes", action="store_true", help="predicted and measured by cause, where runs tell")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the layouts to run (all)")
    options = parser.parse_args()
    if not options.no_calibrate:
        subprocess.run([options.program, "calibrate", "--device", "cuda" if options.gpu else "cpu"], check=True)
    base = {**DEFAULTS, **(GPU_BASE if options.gpu else {})}
    layouts = [{**base, **change} for change in (GPU if options.gpu else CPU)]
    chosen = options.only if options.only else range(1, len(layouts) + 1)
    predicted, measured = [], []
    began = time.monotonic()

    def again():
        return not options.gpu and time.monotonic() - began < options.patience  # a GPU is not shared with busy cores
    print(f"{'':>3} {'predicted':>10} {'measured':>10} {'error':>8}  steps  others  layout")
    with tempfile.TemporaryDirectory() as folder:
        for number in chosen:
            values = layouts[number - 1]
            expected, seconds, steps, causes, share = measure_undisturbed(options, values, folder, again)
            predicted.append(expected)
            measured.append(seconds)
            print(f"{number:>3} {expected * 1e3:>7.1f} ms {seconds * 1e3:>7.1f} ms {expected / seconds - 1:>+8.1%} "
                  f"{steps:>6} {share:>7.1%}  {name(values, base)}", flush=True)
            if options.causes and causes:
                print("      " + causes)
    errors = [abs(p / m - 1) for p, m in zip(predicted, measured)]
    print(f"{len(errors)} layouts: mean error {statistics.mean(errors):.1%}, worst {max(errors):.1%}, "
          f"Spearman {spearman(predicted, measured) if len(errors) > 1 else 1:.3f}")


if __name__ == "__main__":
    main()
