"""The shapes under comparison, for a GPU and for a CPU."""
import dataclasses


def llama_ffn(hidden):
    """Three matrices of 8/3 hidden, rounded up as Trireme's recipe does."""
    unit = 256 if hidden >= 1024 else 8
    return -(-(-(-8 * hidden // 3)) // unit) * unit


@dataclasses.dataclass
class Shape:
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    micro_batch: int
    family: str = "gpt2"
    kv_heads: int = 0  # as many as heads
    ffn: int = 0  # the family's rule
    tied: bool = False  # Llama: the head is the token table, as it always is in GPT-2
    micro_batches: int = 1  # whose gradients are added up in a step

    def flops_per_token(self):
        """Forward and backward; causal attention counts half of the pairs."""
        keys = self.hidden // self.heads * (self.kv_heads or self.heads)
        matrices = 2 * self.hidden * (self.hidden + keys)
        matrices += 3 * self.hidden * (self.ffn or llama_ffn(self.hidden)) if self.family == "llama" else 8 * self.hidden**2
        blocks = self.layers * (6 * matrices + 6 * self.sequence * self.hidden)
        return blocks + 6 * self.hidden * self.vocabulary


SHAPES = {
    "cuda": {
        "124m": Shape(12, 768, 12, 50304, 1024, 64),
        "1.3b": Shape(24, 2048, 16, 50304, 2048, 16),
        "176b-2layers": Shape(2, 14336, 112, 50304, 2048, 4),
        "gpt2-1558m": Shape(48, 1600, 25, 50304, 1024, 16),
        "124m-t4096": Shape(12, 768, 12, 50304, 4096, 16),
        "llama-1b": Shape(16, 2048, 16, 50304, 2048, 16, "llama"),
        "355m": Shape(24, 1024, 16, 50304, 1024, 32),
        "2.7b": Shape(32, 2560, 32, 50304, 2048, 8),
        "124m-mbs8": Shape(12, 768, 12, 50304, 1024, 8),
        "124m-8x8": Shape(12, 768, 12, 50304, 1024, 8, micro_batches=8),
        "124m-t32k": Shape(12, 768, 12, 50304, 32768, 2),
        "llama-3.2-1b": Shape(16, 2048, 32, 128256, 4096, 4, "llama", kv_heads=8, ffn=8192, tied=True),
        "llama-3-8b-4": Shape(4, 4096, 32, 128256, 8192, 2, "llama", kv_heads=8, ffn=14336),
    },
    "cpu": {
        "30m": Shape(6, 512, 8, 8192, 512, 4),
        "11m": Shape(6, 384, 6, 512, 256, 64),
        "124m": Shape(12, 768, 12, 50304, 1024, 4),
        "llama-30m": Shape(6, 512, 8, 8192, 512, 4, "llama"),
    },
}
