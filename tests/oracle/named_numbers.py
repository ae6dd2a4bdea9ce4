"""Numbers that follow from a name and an index alone, on every machine: what fixtures fill models with."""


def number(name, index):
    """32 random bits of (name, index): FNV-1a of "name:index", then mixed."""
    h = 2166136261
    for byte in f"{name}:{index}".encode():
        h = ((h ^ byte) * 16777619) & 0xFFFFFFFF
    h ^= h >> 15
    h = (h * 0x2C1B3C6D) & 0xFFFFFFFF
    h ^= h >> 12
    h = (h * 0x297A2D39) & 0xFFFFFFFF
    return h ^ (h >> 15)


def centred(name, index):
    """A multiple of 1/512 in [-1/4, 1/4], which bf16 holds."""
    return (number(name, index) % 257 - 128) / 512
