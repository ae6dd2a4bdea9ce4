"""The two programs under comparison, each run in a process of its own."""
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclasses.dataclass
class Shape:
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    micro_batch: int
    family: str = "gpt2"

    def flops_per_token(self):
        """Forward and backward; causal attention counts half of the pairs."""
        unit = 256 if self.hidden >= 1024 else 8
        ffn = -(-(-(-8 * self.hidden // 3)) // unit) * unit
        matrices = 4 * self.hidden * self.hidden
        matrices += 3 * self.hidden * ffn if self.family == "llama" else 8 * self.hidden * self.hidden
        blocks = self.layers * (6 * matrices + 6 * self.sequence * self.hidden)
        return blocks + 6 * self.hidden * self.vocabulary


def start_torch(job):
    """The job's result; None when memory runs out."""
    done = subprocess.run([sys.executable, os.path.join(HERE, "torch_program.py"), json.dumps(job)], capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout.strip().splitlines()[-1])
    if "OutOfMemory" in done.stderr:
        return None
    raise SystemExit(done.stderr[-2000:])


def torch_job(shape, compiled):
    job = dataclasses.asdict(shape)
    job["compile"] = compiled
    return job


def run_torch(shape, micro_batch, steps, compiled):
    return start_torch({**torch_job(shape, compiled), "micro_batch": micro_batch, "steps": steps})


def start_trireme(program, shape, run_folder, keys, checkpoints=False):
    """The metrics of every step; None when memory runs out."""
    recipe = run_folder + ".toml"
    with open(recipe, "w", encoding="utf-8") as file:
        file.write(f'[model]\nfamily = "{shape.family}"\nlayers = {shape.layers}\nhidden = {shape.hidden}\n'
                   f"heads = {shape.heads}\nvocabulary = {shape.vocabulary}\nsequence = {shape.sequence}\n"
                   '[train]\ndtype = "bf16"\ndevice = "cuda"\n[data]\nsource = "synthetic"\n')
    command = [program, "train", recipe, "--run", run_folder] + ([] if checkpoints else ["--no-checkpoint"])
    for key in keys:
        command += ["--set", key]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        if "of memory left" in done.stderr or "out of memory" in done.stderr:
            return None
        raise SystemExit(" ".join(command) + "\n" + done.stdout[-1000:] + done.stderr[-2000:])
    with open(os.path.join(run_folder, "metrics.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row for row in rows if "loss" in row and "tokens_per_second" in row]


def run_trireme(program, shape, micro_batch, steps, keys):
    own = [f"layout.micro_batch={micro_batch}", f"batch.global={micro_batch}", f"train.steps={steps + 5}"]
    with tempfile.TemporaryDirectory() as folder:
        rows = start_trireme(program, shape, os.path.join(folder, "run"), own + keys)
    if rows is None:
        return None
    return {"tokens": statistics.median(row["tokens_per_second"] for row in rows[5:]), "memory": rows[-1]["memory_bytes"]}
