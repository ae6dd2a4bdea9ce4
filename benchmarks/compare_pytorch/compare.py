#!/usr/bin/env python3
"""Trains the same GPT shapes with Trireme and with PyTorch on one GPU, alternating, and prints a table.

    python3 benchmarks/compare_pytorch/compare.py --trireme build/cuda/trireme [--shapes 124m,1.3b] [--rounds 3]

Each shape: tokens/s (median of rounds), model TFLOP/s, peak memory and the ratio. PyTorch runs torch.compile and eager
with bf16 autocast, fp32 weights, fused AdamW and clipping, at the micro batch given and at smaller ones when it does not
fit. Both read synthetic tokens, so that only the step is measured.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile

SHAPES = {  # layers, hidden, heads, vocabulary, sequence, micro batch
    "124m": (12, 768, 12, 50304, 1024, 64),
    "1.3b": (24, 2048, 16, 50304, 2048, 16),
    "176b-2layers": (2, 14336, 112, 50304, 2048, 4),
    "gpt2-1558m": (48, 1600, 25, 50304, 1024, 16),
}

TORCH = r"""
import json, sys, time, torch, torch.nn as nn, torch.nn.functional as F
L, C, H, V, T, B, compiled, steps = json.loads(sys.argv[1])
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.out = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)
    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, H, c // H).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))
class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, C), nn.Embedding(T, C)
        self.blocks = nn.ModuleList(Block() for _ in range(L))
        self.norm = nn.LayerNorm(C)
    def forward(self, x, y):
        h = self.tok(x) + self.pos(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        logits = self.norm(h) @ self.tok.weight.to(h.dtype).T
        return F.cross_entropy(logits.view(-1, V).float(), y.view(-1))
torch.manual_seed(1)
model = GPT().cuda()
step_model = torch.compile(model) if compiled else model
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
def step():
    x = torch.randint(0, V, (B, T), device="cuda"); y = torch.randint(0, V, (B, T), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = step_model(x, y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step(); optimizer.zero_grad(set_to_none=True)
for _ in range(5): step()
torch.cuda.synchronize(); start = time.time()
for _ in range(steps): step()
torch.cuda.synchronize()
print(json.dumps({"tokens": B * T * steps / (time.time() - start), "memory": torch.cuda.max_memory_allocated()}))
"""


def run_torch(shape, compiled, steps):
    layers, hidden, heads, vocabulary, sequence, micro_batch = shape
    while micro_batch >= 1:
        arguments = json.dumps([layers, hidden, heads, vocabulary, sequence, micro_batch, compiled, steps])
        done = subprocess.run(["python3", "-c", TORCH, arguments], capture_output=True, text=True)
        if done.returncode == 0:
            return {**json.loads(done.stdout.strip().splitlines()[-1]), "micro_batch": micro_batch}
        if "OutOfMemory" not in done.stderr:
            raise SystemExit(done.stderr[-2000:])
        micro_batch //= 2
    raise SystemExit("PyTorch runs out of memory at micro batch 1")


def run_trireme(program, shape, steps, extra):
    layers, hidden, heads, vocabulary, sequence, micro_batch = shape
    with tempfile.TemporaryDirectory() as folder:
        recipe = os.path.join(folder, "recipe.toml")
        with open(recipe, "w", encoding="utf-8") as file:
            file.write(
                f'[model]\nfamily = "gpt2"\nlayers = {layers}\nhidden = {hidden}\nheads = {heads}\n'
                f"vocabulary = {vocabulary}\nsequence = {sequence}\n[layout]\nmicro_batch = {micro_batch}\n"
                f'[batch]\nglobal = {micro_batch}\n[train]\ndtype = "bf16"\nsteps = {steps + 5}\ndevice = "cuda"\n'
                '[data]\nsource = "synthetic"\n')
        command = [program, "train", recipe, "--run", folder + "/run", "--no-checkpoint"]
        for key in extra:
            command += ["--set", key]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stdout[-1000:] + done.stderr[-1000:])
        rows = [json.loads(line) for line in open(folder + "/run/metrics.jsonl", encoding="utf-8")]
        rows = [row for row in rows if row.get("step", 0) > 5 and "loss" in row]
        return {"tokens": statistics.median(row["tokens_per_second"] for row in rows),
                "memory": rows[-1]["memory_bytes"], "micro_batch": micro_batch}


def model_flops_per_token(shape):
    layers, hidden, _, vocabulary, sequence, _ = shape
    return 72 * hidden * hidden * layers + 6 * hidden * vocabulary + 6 * sequence * hidden * layers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--shapes", default="124m,1.3b")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--set", action="append", default=[], help="a key for Trireme, such as layout.recompute=light")
    arguments = parser.parse_args()
    print(f"{'shape':14s} {'program':14s} {'mbs':>4s} {'tokens/s':>10s} {'TFLOP/s':>8s} {'GB':>6s} {'ratio':>6s}")
    for name in arguments.shapes.split(","):
        shape = SHAPES[name]
        programs = {"torch.compile": lambda: run_torch(shape, True, arguments.steps),
                    "torch eager": lambda: run_torch(shape, False, arguments.steps),
                    "trireme": lambda: run_trireme(arguments.trireme, shape, arguments.steps, arguments.set)}
        results = {program: [] for program in programs}
        for _ in range(arguments.rounds):
            for program, run in programs.items():
                results[program].append(run())
        base = statistics.median(row["tokens"] for row in results["torch.compile"])
        for program, rows in results.items():
            tokens = statistics.median(row["tokens"] for row in rows)
            print(f"{name:14s} {program:14s} {rows[0]['micro_batch']:4d} {tokens:10.0f} "
                  f"{tokens * model_flops_per_token(shape) / 1e12:8.1f} {rows[0]['memory'] / 1e9:6.1f} "
                  f"{tokens / base if not math.isnan(base) else 0:6.2f}")


if __name__ == "__main__":
    main()
