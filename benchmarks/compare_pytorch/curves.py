"""Losses of both programs from the same weights over the same samples."""
import json
import os
import statistics
import subprocess

import numpy

from programs import start_torch, start_trireme, torch_job

SEQUENCES = 32
MASK = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def combine(a, b):
    return mix(a ^ mix(b))


def order_key(seed):
    value = 0xCBF29CE484222325
    for letter in b"data window order":
        value = ((value ^ letter) * 0x100000001B3) & MASK
    return combine(seed, value)


class Shuffle:
    """The permutation of src/data/samples/keyed_permutation.h."""

    def __init__(self, size, key):
        self.size, self.key = size, key
        self.half = max(1, ((size - 1).bit_length() + 1) // 2)

    def __call__(self, value):
        mask = (1 << self.half) - 1
        while True:
            left, right = value >> self.half, value & mask
            for number in range(4):
                mixed = mix((self.key + number + mix(right)) & MASK) & mask
                left, right = right, left ^ mixed
            value = (left << self.half) | right
            if value < self.size:
                return value


def tokens_of(path):
    return numpy.memmap(path, dtype=numpy.uint16 if path.endswith(".bin") else numpy.uint8, mode="r")


def write_batches(source, sequence, steps, path, seed=1):
    """The samples that Trireme takes with data.split = "1,0,0", as [steps, SEQUENCES, sequence + 1]."""
    tokens = tokens_of(source)
    windows = (len(tokens) - 1) // sequence
    key = order_key(seed)
    batches = numpy.lib.format.open_memmap(path, "w+", numpy.int32, (steps, SEQUENCES, sequence + 1))
    for step in range(steps):
        for row in range(SEQUENCES):
            epoch, position = divmod(step * SEQUENCES + row, windows)
            first = Shuffle(windows, combine(key, epoch))(position) * sequence
            batches[step, row] = tokens[first:first + sequence + 1]
    batches.flush()


def export_initial_weights(program, shape, folder, keys):
    """The weights before the first step, in Hugging Face's form: one step that learns nothing leaves them."""
    run = os.path.join(folder, "initial")
    start_trireme(program, shape, run, keys + ["train.steps=1", "optimizer.learning_rate=1e-30"], checkpoints=True)
    target = os.path.join(folder, "exported")
    subprocess.run([program, "checkpoint", "export", run, target], check=True, capture_output=True)
    return os.path.join(target, "model.safetensors")


def draw(curves, path):
    """An overlay as SVG."""
    width, height, margin = 720, 400, 40
    colours = ["#444444", "#d62728", "#1f77b4", "#2ca02c"]
    longest = max(len(losses) for losses in curves.values())
    highest = max(max(losses) for losses in curves.values())
    lowest = min(min(losses) for losses in curves.values())
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
             f'font-size="12"><rect width="{width}" height="{height}" fill="white"/>']
    for number, (name, losses) in enumerate(curves.items()):
        points = " ".join(
            f"{margin + (width - 2 * margin) * i / max(longest - 1, 1):.1f},"
            f"{height - margin - (height - 2 * margin) * (loss - lowest) / (highest - lowest):.1f}"
            for i, loss in enumerate(losses))
        colour = colours[number % len(colours)]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1" points="{points}"/>')
        parts.append(f'<text x="{width - 220}" y="{margin + 18 * number}" fill="{colour}">{name}</text>')
    parts.append(f'<text x="{margin}" y="{height - 12}">steps 1 to {longest}</text>')
    parts.append(f'<text x="4" y="{margin}">{highest:.2f}</text><text x="4" y="{height - margin}">{lowest:.2f}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts) + "</svg>\n")


def report(curves, output):
    with open(os.path.join(output, "losses.csv"), "w", encoding="utf-8") as file:
        file.write("step," + ",".join(curves) + "\n")
        for i, row in enumerate(zip(*curves.values())):
            file.write(f"{i + 1}," + ",".join(f"{loss:.5f}" for loss in row) + "\n")
    draw(curves, os.path.join(output, "losses.svg"))
    base_name, base = next(iter(curves.items()))
    steps = len(base)
    print("step   " + " ".join(f"{name:>18s}" for name in curves))
    for i in sorted({*range(0, steps, max(steps // 10, 1)), steps - 1}):
        print(f"{i + 1:5d}  " + " ".join(f"{losses[i]:18.4f}" for losses in curves.values()))
    for name, losses in list(curves.items())[1:]:
        apart = [abs(a / b - 1) * 100 for a, b in zip(losses, base)]
        print(f"{name} against {base_name}: largest difference {max(apart):.2f} % at step {apart.index(max(apart)) + 1}, "
              f"median {statistics.median(apart):.2f} %, last {apart[-1]:.2f} %")


def run_curves(arguments, shape, folder):
    program = os.path.abspath(arguments.trireme)
    source = os.path.abspath(arguments.curves)
    steps = arguments.curve_steps
    keys = [f'data.source="{source}"', 'data.split="1,0,0"', f"layout.micro_batch={SEQUENCES}",
            f"batch.global={SEQUENCES}", "optimizer.learning_rate=6e-4",
            f"optimizer.schedule.warmup_samples={SEQUENCES * min(100, steps // 5)}"]
    weights = export_initial_weights(program, shape, folder, keys)
    batches = os.path.join(folder, "batches.npy")
    write_batches(source, shape.sequence, steps, batches)
    curves, rates = {"torch.compile bf16": []}, []
    for name, own in (("bf16", []), ("fp8", ["train.dtype=fp8"]), ("bf16 moments", ["optimizer.moments=bf16"])):
        rows = start_trireme(program, shape, os.path.join(folder, name),
                             keys + [f"train.steps={steps}"] + own + arguments.set)
        curves["trireme " + name] = [row["loss"] for row in rows]
        rates = [row["learning_rate"] for row in rows]
    job = {**torch_job(shape, True), "weights": weights, "batches": batches, "learning_rates": rates}
    curves["torch.compile bf16"] = start_torch(job)["losses"]
    with open(os.path.join(arguments.output, "losses.json"), "w", encoding="utf-8") as file:
        json.dump(curves, file)
    report(curves, arguments.output)
