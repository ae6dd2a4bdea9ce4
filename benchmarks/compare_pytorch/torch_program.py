"""A plain GPT-2 or Llama in PyTorch, trained as Trireme trains it: fused AdamW where there is one, clipping.

Run by compare.py in a process of its own. It reads a job as JSON from its first argument and prints a result as JSON.
"""
import json
import resource
import struct
import sys
import time

import numpy
import torch
from torch import nn

from models import Gpt, Llama


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        start = 8 + length
    data = numpy.memmap(path, dtype=numpy.uint8, mode="r")
    tensors = {}
    for name, about in header.items():
        if name != "__metadata__":
            first, last = about["data_offsets"]
            values = data[start + first:start + last].view(numpy.float32).reshape(about["shape"])
            tensors[name.removeprefix("transformer.")] = torch.from_numpy(values.copy())
    return tensors


def load(model, path):
    """The weights of a Hugging Face GPT-2, whose matrices are stored [in, out]."""
    tensors = read_safetensors(path)
    pairs = [(model.tokens, "wte", False), (model.positions, "wpe", False), (model.norm, "ln_f", False)]
    for i, block in enumerate(model.blocks):
        at = f"h.{i}."
        pairs += [(block.ln_1, at + "ln_1", False), (block.ln_2, at + "ln_2", False),
                  (block.qkv, at + "attn.c_attn", True), (block.out, at + "attn.c_proj", True),
                  (block.up, at + "mlp.c_fc", True), (block.down, at + "mlp.c_proj", True)]
    with torch.no_grad():
        for module, name, transposed in pairs:
            weight = tensors[name + ".weight"]
            module.weight.copy_(weight.T if transposed else weight)
            if getattr(module, "bias", None) is not None:
                module.bias.copy_(tensors[name + ".bias"])


class Training:
    """The model, its optimizer and a step, as the job says: in fp32, under bf16 autocast, or wholly in bf16."""

    def __init__(self, job):
        self.device = job["device"]
        self.autocast = job["precision"] == "autocast"
        family = {"gpt2": Gpt, "llama": Llama}[job["family"]]
        dtype = torch.float32 if job["precision"] == "fp32" else torch.bfloat16
        more = {key: job[key] for key in ("kv_heads", "ffn", "tied")} if job["family"] == "llama" else {}
        model = family(job["layers"], job["hidden"], job["heads"], job["vocabulary"], job["sequence"], dtype, **more)
        if job["precision"] == "bf16":
            model = model.to(torch.bfloat16)
        self.model = model.to(self.device)
        if "weights" in job:
            load(self.model, job["weights"])
        self.trained = torch.compile(self.model) if job["compile"] else self.model
        self.optimizer = self.make_optimizer()

    def make_optimizer(self):
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        vectors = [p for p in self.model.parameters() if p.dim() == 1]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0}]
        try:
            return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
        except (TypeError, RuntimeError):  # older ones fuse on GPUs alone
            return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8)

    def step(self, *micro_batches):
        for x, y in micro_batches:
            with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.autocast):
                loss = self.trained(x, y) / len(micro_batches)
            loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def peak_memory(self):
        if self.device == "cuda":
            return torch.cuda.max_memory_allocated()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def losses_over(job, training):
    """Losses over the job's batches, int32 [steps, B, T + 1]."""
    batches = numpy.load(job["batches"], mmap_mode="r")
    losses = []
    for batch, rate in zip(batches, job["learning_rates"]):
        for group in training.optimizer.param_groups:
            group["lr"] = rate
        tokens = torch.from_numpy(batch.astype(numpy.int64)).to(training.device)
        losses.append(training.step((tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())))
    return {"losses": [loss.item() for loss in losses]}


def speed(job, training):
    def random():
        return torch.randint(0, job["vocabulary"], (job["micro_batch"], job["sequence"]), device=training.device)

    def batch():
        return [(random(), random()) for _ in range(job["micro_batches"])]

    for _ in range(job["warm_up"]):
        training.step(*batch())
    times = []
    for _ in range(job["steps"]):
        training.wait()
        start = time.time()
        training.step(*batch())
        training.wait()
        times.append(time.time() - start)
    tokens = job["micro_batch"] * job["micro_batches"] * job["sequence"] / sorted(times)[len(times) // 2]
    return {"tokens": tokens, "memory": training.peak_memory()}


def main():
    job = json.loads(sys.argv[1])
    torch.manual_seed(1)
    if job["device"] == "cpu":
        torch.set_num_threads(job["threads"])
    training = Training(job)
    print(json.dumps(losses_over(job, training) if "batches" in job else speed(job, training)))


main()
