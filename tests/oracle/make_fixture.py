#!/usr/bin/env python3
"""Losses, gradients and three AdamW steps of small models, by PyTorch's own modules in float64.

    make_fixture.py FILE           writes the fixture
    make_fixture.py --check FILE   makes it again and compares: exit 1 and the first differences unless equal to 1e-9

Nothing here follows Trireme's code: torch.nn.Linear, Embedding and LayerNorm, torch.nn.functional, autograd,
clip_grad_norm_ and torch.optim.AdamW. What both sides share is the data: Number(name, index) below gives every weight,
token and mask, exactly representable, so that the fixture need not hold them. pytorch_test.cc is the other side.
"""
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

from named_numbers import centred, number

STEPS = 3
SAMPLED = 3


def first_value(name, index):
    return centred(name, index) + (1 if name.endswith(".gain") else 0)


class RmsNorm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.epsilon) * self.weight


def alibi_slopes(heads):
    """As in Press et al.: a geometric series for powers of two, every second value of the next one for the others."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    finer = [2 ** (-8 * (i + 1) / (2 * power)) for i in range(2 * power)]
    return torch.tensor((slopes + finer[0::2])[:heads], dtype=torch.float64)


def rotated(x, theta):
    """Rotary embedding of [B, H, T, D]: pairs (i, i + D/2)."""
    length, width = x.shape[-2], x.shape[-1]
    frequency = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency[None, :]
    one, other = x[..., : width // 2], x[..., width // 2 :]
    return torch.cat([one * angle.cos() - other * angle.sin(), other * angle.cos() + one * angle.sin()], -1)


class Layer(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m
        width, keys = m["hidden"], m["kv_heads"] * (m["hidden"] // m["heads"])
        bias = m["family"] != "llama"
        norm = (lambda: nn.LayerNorm(width, m["norm_epsilon"])) if bias else (lambda: RmsNorm(width, m["norm_epsilon"]))
        self.norm1, self.norm2 = norm(), norm()
        self.query, self.key, self.value = (nn.Linear(width, n, bias) for n in (width, keys, keys))
        self.out = nn.Linear(width, width, bias)
        self.up = nn.Linear(width, m["ffn"], bias)
        self.gate = nn.Linear(width, m["ffn"], bias) if m["family"] == "llama" else None
        self.down = nn.Linear(m["ffn"], width, bias)

    def attention(self, x, allowed):
        m = self.m
        batch, length, width = x.shape
        heads = lambda y, n: y.view(batch, length, n, width // m["heads"]).transpose(1, 2)
        q = heads(self.query(x), m["heads"])
        k, v = heads(self.key(x), m["kv_heads"]), heads(self.value(x), m["kv_heads"])
        if m["family"] == "llama":
            q, k = rotated(q, m["rope_theta"]), rotated(k, m["rope_theta"])
        k, v = (y.repeat_interleave(m["heads"] // m["kv_heads"], dim=1) for y in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // m["heads"])
        if m["family"] == "bloom":
            position = torch.arange(length, dtype=torch.float64)
            scores = scores + alibi_slopes(m["heads"])[None, :, None, None] * (position[None, :] - position[:, None])
        scores = scores.masked_fill(~allowed[:, None], -math.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x, allowed):
        x = x + self.attention(self.norm1(x), allowed)
        y = self.norm2(x)
        active = F.silu(self.gate(y)) * self.up(y) if self.gate else F.gelu(self.up(y), approximate="tanh")
        return x + self.down(active)


class Model(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m
        self.tokens = nn.Embedding(m["vocabulary"], m["hidden"])
        self.positions = nn.Embedding(m["sequence"], m["hidden"]) if m["family"] == "gpt2" else None
        self.first_norm = nn.LayerNorm(m["hidden"], m["norm_epsilon"]) if m["family"] == "bloom" else None
        self.layers = nn.ModuleList([Layer(m) for _ in range(m["layers"])])
        norm = RmsNorm if m["family"] == "llama" else nn.LayerNorm
        self.norm = norm(m["hidden"], m["norm_epsilon"])
        self.head = nn.Linear(m["hidden"], m["vocabulary"], bias=False)
        if m["tie_embeddings"]:
            self.head.weight = self.tokens.weight

    def forward(self, tokens, allowed):
        x = self.tokens(tokens)
        if self.positions:
            x = x + self.positions(torch.arange(tokens.shape[1]))
        if self.first_norm:
            x = self.first_norm(x)
        for layer in self.layers:
            x = layer(x, allowed)
        return self.head(self.norm(x))

    def named(self):
        """Trireme's name of a parameter -> PyTorch's tensors, which stand in it one after another."""
        rows = {"embedding.token": [self.tokens.weight]}

        def add(name, kind, *modules):
            if getattr(modules[0], kind) is not None:
                rows[name] = [getattr(module, kind) for module in modules]

        def norm(name, module):
            add(name + ".gain", "weight", module)
            if hasattr(module, "bias"):
                add(name + ".bias", "bias", module)

        def linear(name, *modules):
            add(name + ".weight", "weight", *modules)
            add(name + ".bias", "bias", *modules)

        if self.positions:
            add("embedding.position", "weight", self.positions)
        if self.first_norm:
            norm("embedding.norm", self.first_norm)
        for i, layer in enumerate(self.layers):
            norm(f"block.{i}.attention.norm", layer.norm1)
            linear(f"block.{i}.attention.qkv", layer.query, layer.key, layer.value)
            linear(f"block.{i}.attention.out", layer.out)
            norm(f"block.{i}.mlp.norm", layer.norm2)
            linear(f"block.{i}.mlp.in", *([layer.gate, layer.up] if layer.gate else [layer.up]))
            linear(f"block.{i}.mlp.out", layer.down)
        norm("head.norm", self.norm)
        if not self.m["tie_embeddings"]:
            add("head.weight", "weight", self.head)
        return rows


def batch_of(case, step):
    m, count = case["model"], case["batch"]
    tokens, weights, starts = [], [], []
    for sample in range(step * count, (step + 1) * count):
        tokens.append([number("token", sample * 100 + t) % m["vocabulary"] for t in range(m["sequence"] + 1)])
        weight, start, first = [], [], 0
        for t in range(m["sequence"]):
            bits = number("weight", sample * 100 + t)
            choices = {"ones": 1, "masked": 0 if bits % (2 + sample % 3) else 1, "fractions": bits % 5 / 4}
            weight.append(choices[case["weights"]])
            if case["documents"] and number("document", sample * 100 + t) % 4 == 0:
                first = t
            start.append(first)
        weights.append(weight)
        starts.append(start)
    tokens = torch.tensor(tokens)
    position = torch.arange(m["sequence"])
    causal = position[None, None, :] <= position[None, :, None]
    allowed = causal & (position[None, None, :] >= torch.tensor(starts)[:, :, None])
    return tokens[:, :-1], tokens[:, 1:], torch.tensor(weights, dtype=torch.float64), allowed


def learning_rate(case, step):
    """Linear warm-up to the whole rate, then the course that the case names; by samples consumed before the step."""
    o, consumed, total = case["optimizer"], step * case["batch"], STEPS * case["batch"]
    if consumed < o["warmup_samples"]:
        return o["learning_rate"] * (consumed + 1) / (o["warmup_samples"] + 1)
    if o["schedule"] == "constant":
        return o["learning_rate"]
    share = (consumed - o["warmup_samples"]) / (total - o["warmup_samples"])
    remaining = 1 - share if o["schedule"] == "linear" else (1 + math.cos(math.pi * share)) / 2
    return o["learning_rate"] * (o["final_fraction"] + (1 - o["final_fraction"]) * remaining)


def flat(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def summary(name, values):
    """Norm, projection on a direction of the shared numbers, samples."""
    direction = torch.tensor([centred("direction", i) for i in range(len(values))], dtype=torch.float64)
    samples = [values[number(name, -1 - i) % len(values)] for i in range(SAMPLED)]
    return [values.norm(), values @ direction, *samples]


def lines_of(case):
    m, o = case["model"], case["optimizer"]
    model = Model(m).double()
    named = model.named()
    with torch.no_grad():
        for name, tensors in named.items():
            index = 0
            for tensor in tensors:
                values = [first_value(name, index + i) for i in range(tensor.numel())]
                tensor.copy_(torch.tensor(values, dtype=torch.float64).view_as(tensor))
                index += tensor.numel()
    first = {name: flat(tensors) for name, tensors in named.items()}
    plain = [t for name, tensors in named.items() for t in tensors if name.endswith((".gain", ".bias"))]
    decaying = [t for name, tensors in named.items() for t in tensors if not name.endswith((".gain", ".bias"))]
    optimizer = torch.optim.AdamW(
        [{"params": decaying, "weight_decay": o["weight_decay"]}, {"params": plain, "weight_decay": 0.0}],
        lr=o["learning_rate"], betas=(o["beta1"], o["beta2"]), eps=o["epsilon"])

    lines = [f"case {case['name']}", f"data {case['weights']} {'documents' if case['documents'] else 'whole'}"]
    text = lambda v: f'"{v}"' if isinstance(v, str) else str(v).lower()
    lines += [f"set model.{key}={text(value)}" for key, value in m.items()]
    course = {"schedule": "schedule.kind", "warmup_samples": "schedule.warmup_samples",
              "final_fraction": "schedule.final"}
    lines += [f"set optimizer.{course.get(key, key)}={text(value)}" for key, value in o.items()]
    lines += [f"set batch.global={case['batch']}", f"set train.z_loss={case['z_loss']}", f"set train.steps={STEPS}"]
    number_text = lambda values: " ".join(f"{float(v):.12g}" for v in values)
    for step in range(STEPS):
        tokens, targets, weights, allowed = batch_of(case, step)
        logits = model(tokens, allowed)
        losses = F.cross_entropy(logits.reshape(-1, m["vocabulary"]), targets.reshape(-1), reduction="none")
        losses = losses.view_as(weights)
        loss = (losses * weights).sum() / weights.sum()
        z = (torch.logsumexp(logits, -1) ** 2 * weights).sum() / weights.sum()
        optimizer.zero_grad()
        (loss + case["z_loss"] * z).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), math.inf)
        if step == 0:
            lines += [f"gradient {name} " + number_text(summary(name, flat([t.grad for t in tensors])))
                      for name, tensors in named.items()]
        if o["clip"] > 0:
            nn.utils.clip_grad_norm_(model.parameters(), o["clip"])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(case, step)
        optimizer.step()
        lines.append(f"step {step + 1} " + number_text([loss, norm, learning_rate(case, step)]))
    lines += [f"moved {name} " + number_text(summary(name, flat(tensors) - first[name]))
              for name, tensors in named.items()]
    return lines + ["end"]


def case_of(name, family, weights="ones", documents=False, z_loss=0.0, batch=4, **changes):
    model = {"family": family, "layers": 2, "hidden": 16, "heads": 4, "kv_heads": 4, "ffn": 24, "vocabulary": 29,
             "sequence": 10, "tie_embeddings": family != "llama", "norm_epsilon": 1e-5, "rope_theta": 10000.0}
    optimizer = {"learning_rate": 0.01, "weight_decay": 0.1, "clip": 1.0, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-4,
                 "schedule": "constant", "warmup_samples": 0, "final_fraction": 0.1}
    for key, value in changes.items():
        part = model if key in model else optimizer
        assert key in part, key
        part[key] = value
    return {"name": name, "model": model, "optimizer": optimizer, "weights": weights, "documents": documents,
            "z_loss": z_loss, "batch": batch}


CASES = [
    case_of("gpt2", "gpt2"),
    case_of("gpt2_untied", "gpt2", tie_embeddings=False),
    case_of("gpt2_documents", "gpt2", documents=True),
    case_of("gpt2_masked_targets", "gpt2", weights="masked"),
    case_of("gpt2_z_loss", "gpt2", z_loss=0.01),
    case_of("gpt2_no_clipping", "gpt2", clip=0.0),
    case_of("gpt2_hard_clipping", "gpt2", clip=0.05, learning_rate=0.02),
    case_of("gpt2_no_decay", "gpt2", weight_decay=0.0),
    case_of("gpt2_much_decay", "gpt2", weight_decay=2.0, beta1=0.8, beta2=0.99),
    case_of("gpt2_warmup_cosine", "gpt2", schedule="cosine", warmup_samples=4),
    case_of("gpt2_linear", "gpt2", schedule="linear", final_fraction=0.0),
    case_of("gpt2_odd_vocabulary_one_layer", "gpt2", vocabulary=37, layers=1, tie_embeddings=False),
    case_of("bloom", "bloom"),
    case_of("bloom_untied", "bloom", tie_embeddings=False),
    case_of("bloom_twelve_heads", "bloom", hidden=24, heads=12, kv_heads=12),
    case_of("bloom_documents_fractions", "bloom", documents=True, weights="fractions"),
    case_of("bloom_z_loss", "bloom", z_loss=0.1),
    case_of("llama", "llama"),
    case_of("llama_tied", "llama", tie_embeddings=True),
    case_of("llama_grouped_queries", "llama", kv_heads=2),
    case_of("llama_one_key_head", "llama", kv_heads=1),
    case_of("llama_theta_epsilon", "llama", rope_theta=500.0, norm_epsilon=1e-2, kv_heads=2),
    case_of("llama_documents", "llama", documents=True, kv_heads=2),
    case_of("llama_fractions_z_loss", "llama", weights="fractions", z_loss=0.02, kv_heads=2, clip=0.3),
    case_of("llama_long_sequence", "llama", sequence=33, batch=2, kv_heads=2),
]


def different(line, other):
    a, b = line.split(), other.split()
    if len(a) != len(b) or a[0] != b[0]:
        return True
    for one, two in zip(a[1:], b[1:]):
        if one == two:
            continue
        try:
            if a[0] not in ("gradient", "moved", "step"):
                return True
            if abs(float(one) - float(two)) > 1e-9 * max(1, abs(float(one))):
                return True
        except ValueError:
            return True
    return False


def main():
    torch.set_num_threads(1)
    text = ["# Made by make_fixture.py with PyTorch in float64; read by pytorch_test.cc. Not edited by hand.",
            "# step: number, loss, gradient norm before clipping, learning rate. gradient (of step 1) and moved (by all",
            "# steps): name, norm, projection on the shared direction, samples at the shared places."]
    for case in CASES:
        text += lines_of(case)
    if sys.argv[1] != "--check":
        with open(sys.argv[1], "w") as file:
            file.write("\n".join(text) + "\n")
        return
    with open(sys.argv[2]) as file:
        old = file.read().splitlines()
    wrong = [f"- {a}\n+ {b}" for a, b in zip(old, text) if different(a, b)]
    if len(old) != len(text):
        wrong.append(f"{len(old)} lines in the fixture, {len(text)} now")
    print("\n".join(wrong[:10]) or f"{len(text)} lines of {len(CASES)} cases come out the same")
    sys.exit(1 if wrong else 0)


main()
