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
class Setting:
    """What a comparison holds equal for all programs, and where they are."""

    device: str = "cuda"
    dtype: str = "bf16"
    threads: int = 0  # on a CPU
    level: str = ""  # TRIREME_CPU_LEVEL; empty: the highest
    python: str = sys.executable
    warm_up: int = 5

    def environment(self):
        own = dict(os.environ)
        if self.threads:
            own["OMP_NUM_THREADS"] = str(self.threads)
        if self.level:
            own["TRIREME_CPU_LEVEL"] = self.level
        return own


def start_torch(job, setting=Setting()):
    """The job's result; None when memory runs out or this PyTorch cannot do it."""
    job = {"device": setting.device, "threads": setting.threads, "warm_up": setting.warm_up, **job}
    done = subprocess.run([setting.python, os.path.join(HERE, "torch_program.py"), json.dumps(job)], capture_output=True,
                          text=True, env=setting.environment())
    if done.returncode == 0:
        return json.loads(done.stdout.strip().splitlines()[-1])
    if "OutOfMemory" in done.stderr:
        return None
    raise SystemExit(done.stderr[-2000:])


def torch_version(setting):
    """Of the PyTorch that `python` finds; empty where there is none."""
    done = subprocess.run([setting.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def torch_job(shape, compiled, precision="autocast"):
    job = dataclasses.asdict(shape)
    job.update(compile=compiled, precision=precision)
    return job


def run_torch(setting, shape, micro_batch, steps, compiled, precision):
    return start_torch({**torch_job(shape, compiled, precision), "micro_batch": micro_batch, "steps": steps}, setting)


def start_trireme(program, shape, run_folder, keys, checkpoints=False, setting=Setting()):
    """The metrics of every step; None when memory runs out."""
    recipe = run_folder + ".toml"
    with open(recipe, "w", encoding="utf-8") as file:
        file.write(f'[model]\nfamily = "{shape.family}"\nlayers = {shape.layers}\nhidden = {shape.hidden}\n'
                   f"heads = {shape.heads}\nvocabulary = {shape.vocabulary}\nsequence = {shape.sequence}\n"
                   f"kv_heads = {shape.kv_heads}\nffn = {shape.ffn}\n"
                   + (f"tie_embeddings = {str(shape.tied).lower()}\n" if shape.family == "llama" else "") +
                   f'[train]\ndtype = "{setting.dtype}"\ndevice = "{setting.device}"\nthreads = {setting.threads}\n'
                   '[data]\nsource = "synthetic"\n')
    command = [program, "train", recipe, "--run", run_folder] + ([] if checkpoints else ["--no-checkpoint"])
    for key in keys:
        command += ["--set", key]
    done = subprocess.run(command, capture_output=True, text=True, env=setting.environment())
    if done.returncode != 0:
        if "of memory left" in done.stderr or "out of memory" in done.stderr:
            return None
        raise SystemExit(" ".join(command) + "\n" + done.stdout[-1000:] + done.stderr[-2000:])
    # The layout and, on a CPU, the engines that multiply.
    for line in done.stdout.splitlines() + done.stderr.splitlines():
        if ", device " in line:
            print(f"  {line}", file=sys.stderr, flush=True)
    with open(os.path.join(run_folder, "metrics.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row for row in rows if "loss" in row and "tokens_per_second" in row]


def run_trireme(setting, program, shape, micro_batch, steps, keys):
    own = [f"layout.micro_batch={micro_batch}", f"batch.global={micro_batch * shape.micro_batches}",
           f"train.steps={steps + setting.warm_up}"]
    with tempfile.TemporaryDirectory() as folder:
        rows = start_trireme(program, shape, os.path.join(folder, "run"), own + keys, setting=setting)
    if rows is None:
        return None
    rates = [row["tokens_per_second"] for row in rows[setting.warm_up:]]
    return {"tokens": statistics.median(rates), "memory": rows[-1]["memory_bytes"]}


def product_peak(program, setting):
    """FLOP/s of the fastest engine that `trireme machine` measures in the setting's type; 0 where it says none.

    The mean over small layers' products, some with GELU at their end: steps of larger products may be faster.
    """
    done = subprocess.run([program, "machine", "--json"], capture_output=True, text=True, env=setting.environment())
    if done.returncode != 0:
        return 0
    rates = [row["gflops"] for row in json.loads(done.stdout).get("products", []) if row["dtype"] == setting.dtype]
    return max(rates, default=0) * 1e9
