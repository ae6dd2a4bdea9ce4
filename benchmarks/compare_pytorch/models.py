"""GPT-2 and Llama, written plainly. They run with PyTorch from 1.13 on."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from shapes import llama_ffn


def attend(q, k, v):
    """Causal attention; before PyTorch 2 from its parts. Several heads of queries may share one of keys and values."""
    grouped = k.shape[1] < q.shape[1]
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, **({"enable_gqa": True} if grouped else {}))
    if grouped:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    length = q.shape[-2]
    future = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(q.shape[-1]))
    return torch.softmax(scores.masked_fill(future, float("-inf")), -1) @ v


class PlainRmsNorm(nn.Module):
    def __init__(self, hidden, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps).to(x.dtype) * self.weight


RmsNorm = getattr(nn, "RMSNorm", PlainRmsNorm)


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, length, hidden = x.shape
        qkv = self.qkv(self.ln_1(x)).view(batch, length, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        x = x + self.out(attend(q, k, v).transpose(1, 2).reshape(batch, length, hidden))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads, vocabulary, sequence, dtype):
        super().__init__()
        self.vocabulary = vocabulary
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(sequence, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.dtype = dtype

    def forward(self, x, y):
        h = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        logits = self.norm(h).to(self.dtype) @ self.tokens.weight.to(self.dtype).T
        return F.cross_entropy(logits.view(-1, self.vocabulary).float(), y.view(-1))


class LlamaBlock(nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn):
        super().__init__()
        self.heads, self.kv_heads, self.ffn = heads, kv_heads, ffn
        self.norm_1, self.norm_2 = RmsNorm(hidden, eps=1e-5), RmsNorm(hidden, eps=1e-5)
        self.qkv = nn.Linear(hidden, hidden // heads * (heads + 2 * kv_heads), bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.gate_up = nn.Linear(hidden, 2 * self.ffn, bias=False)
        self.down = nn.Linear(self.ffn, hidden, bias=False)

    def forward(self, x, cosine, sine):
        batch, length, hidden = x.shape
        qkv = self.qkv(self.norm_1(x)).view(batch, length, -1, hidden // self.heads).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), 1)
        q, k = (t * cosine + torch.cat((-t[..., t.shape[-1] // 2:], t[..., :t.shape[-1] // 2]), -1) * sine
                for t in (q, k))
        x = x + self.out(attend(q, k, v).transpose(1, 2).reshape(batch, length, hidden))
        gate, up = self.gate_up(self.norm_2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, layers, hidden, heads, vocabulary, sequence, dtype, kv_heads=0, ffn=0, tied=False):
        super().__init__()
        self.vocabulary = vocabulary
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.blocks = nn.ModuleList(LlamaBlock(hidden, heads, kv_heads or heads, ffn or llama_ffn(hidden))
                                    for _ in range(layers))
        self.norm, self.head = RmsNorm(hidden, eps=1e-5), nn.Linear(hidden, vocabulary, bias=False)
        if tied:
            self.head.weight = self.tokens.weight
        self.dtype = dtype
        size = hidden // heads
        angles = torch.arange(sequence)[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size)
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cosine", angles.cos().to(dtype), persistent=False)
        self.register_buffer("sine", angles.sin().to(dtype), persistent=False)

    def forward(self, x, y):
        h = self.tokens(x).to(self.dtype)
        for block in self.blocks:
            h = block(h, self.cosine, self.sine)
        logits = self.head(self.norm(h))
        return F.cross_entropy(logits.view(-1, self.vocabulary).float(), y.view(-1))
