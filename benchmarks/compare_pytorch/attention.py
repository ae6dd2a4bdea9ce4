#!/usr/bin/env python3
"""Attention of Llama 3.2 1B over one sequence: Trireme's kernels against PyTorch's, at equal shapes, in one run.

    cmake --preset cuda -DTRIREME_BENCHMARKS=ON && cmake --build build/cuda --target kernels_benchmark
    python3 benchmarks/compare_pytorch/attention.py --benchmark build/cuda/benchmarks/kernels_benchmark

32 query heads and 8 key heads of 64, bf16, causal, random numbers. For each length of --tokens, in milliseconds: forward and
backward of `kernels_benchmark`'s ContextAttention on one rank, and of scaled_dot_product_attention with its
FlashAttention and cuDNN back ends. `ratio` is that back end's forward + backward over Trireme's: above 1, Trireme is faster.
"""
import argparse
import json
import os
import subprocess
import time

HEADS, KEY_HEADS, SIZE = 32, 8, 64


def trireme_times(program, device, tokens):
    """Milliseconds of forward and backward."""
    environment = dict(os.environ, TRIREME_BENCHMARK_DEVICE=device, TRIREME_BENCHMARK_TOKENS=str(tokens))
    command = [program, "--benchmark_filter=ContextAttention/1/0/", "--benchmark_format=json", "--benchmark_min_time=0.3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    factor = {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}
    rows = json.loads(done.stdout)["benchmarks"]
    times = {row["name"].split("/")[3]: row["real_time"] * factor[row["time_unit"]] for row in rows}
    return times["0"], times["1"]


def torch_times(device, backend, tokens):
    """Milliseconds of forward and backward with one back end of PyTorch."""
    import torch
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def draw(heads, trained=True):
        return torch.randn(1, heads, tokens, SIZE, device=device, dtype=torch.bfloat16, requires_grad=trained)

    def finish():
        if device == "cuda":
            torch.cuda.synchronize()

    def milliseconds(work):
        work()
        finish()
        began, rounds = time.perf_counter(), 0
        while rounds == 0 or time.perf_counter() - began < 0.3:
            work()
            finish()
            rounds += 1
        return 1e3 * (time.perf_counter() - began) / rounds

    query, key, value, gradient = draw(HEADS), draw(KEY_HEADS), draw(KEY_HEADS), draw(HEADS, False)

    def attend():
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)

    with sdpa_kernel(getattr(SDPBackend, backend)):
        forward = milliseconds(attend)
        out = attend()
        backward = milliseconds(lambda: torch.autograd.grad(out, (query, key, value), gradient, retain_graph=True))
    return forward, backward


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", default="build/cuda/benchmarks/kernels_benchmark", help="the program")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tokens", default="8192,32768,131072", help="lengths of the sequence")
    options = parser.parse_args()
    backends = ["FLASH_ATTENTION"] + (["CUDNN_ATTENTION"] if options.device == "cuda" else [])
    print(f"{'tokens':>8} {'kernels':<16} {'forward ms':>10} {'backward ms':>11} {'TFLOP/s':>8} {'ratio':>6}")
    for tokens in (int(text) for text in options.tokens.split(",")):
        flops = 3.5 * 4 * HEADS * SIZE * tokens * tokens / 2  # backward has five products for forward's two
        times = {"trireme": trireme_times(options.benchmark, options.device, tokens)}
        for backend in backends:
            try:
                times[backend] = torch_times(options.device, backend, tokens)
            except RuntimeError as error:
                print(f"{tokens:>8} {backend:<16} {str(error).splitlines()[0][:100]}", flush=True)
        own = sum(times["trireme"])
        for name, (forward, backward) in times.items():
            both = forward + backward
            print(f"{tokens:>8} {name:<16} {forward:>10.3f} {backward:>11.3f} {flops / both / 1e9:>8.0f} {both / own:>6.2f}",
                  flush=True)


if __name__ == "__main__":
    main()
