"""The shapes under comparison, for a GPU and for a CPU."""
import dataclasses


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


SHAPES = {
    "cuda": {
        "124m": Shape(12, 768, 12, 50304, 1024, 64),
        "1.3b": Shape(24, 2048, 16, 50304, 2048, 16),
        "176b-2layers": Shape(2, 14336, 112, 50304, 2048, 4),
        "gpt2-1558m": Shape(48, 1600, 25, 50304, 1024, 16),
        "124m-t4096": Shape(12, 768, 12, 50304, 4096, 16),
        "llama-1b": Shape(16, 2048, 16, 50304, 2048, 16, "llama"),
    },
    "cpu": {
        "30m": Shape(6, 512, 8, 8192, 512, 4),
        "11m": Shape(6, 384, 6, 512, 256, 64),
        "124m": Shape(12, 768, 12, 50304, 1024, 4),
        "llama-30m": Shape(6, 512, 8, 8192, 512, 4, "llama"),
    },
}
