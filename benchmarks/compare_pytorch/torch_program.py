"""A plain GPT-2 or Llama in PyTorch, trained as Trireme trains it: bf16 autocast, fp32 weights, fused AdamW, clipping.

Run by compare.py in a process of its own. It reads a job as JSON from its first argument and prints a result as JSON.
"""
import json
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


def main():
    job = json.loads(sys.argv[1])
    torch.manual_seed(1)
    family = {"gpt2": Gpt, "llama": Llama}[job["family"]]
    with torch.device("cuda"):
        model = family(job["layers"], job["hidden"], job["heads"], job["vocabulary"], job["sequence"])
    if "weights" in job:
        load(model, job["weights"])
    trained = torch.compile(model) if job["compile"] else model
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0}],
                                  lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)

    def step(x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = trained(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    if "batches" in job:  # int32 [steps, B, T + 1]
        batches = numpy.load(job["batches"], mmap_mode="r")
        losses = []
        for batch, rate in zip(batches, job["learning_rates"]):
            for group in optimizer.param_groups:
                group["lr"] = rate
            tokens = torch.from_numpy(batch.astype(numpy.int64)).cuda()
            losses.append(step(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()))
        print(json.dumps({"losses": [loss.item() for loss in losses]}))
        return

    def random():
        return torch.randint(0, job["vocabulary"], (job["micro_batch"], job["sequence"]), device="cuda")

    for _ in range(5):
        step(random(), random())
    times = []
    for _ in range(job["steps"]):
        torch.cuda.synchronize()
        start = time.time()
        step(random(), random())
        torch.cuda.synchronize()
        times.append(time.time() - start)
    tokens = job["micro_batch"] * job["sequence"] / sorted(times)[len(times) // 2]
    print(json.dumps({"tokens": tokens, "memory": torch.cuda.max_memory_allocated()}))


main()
