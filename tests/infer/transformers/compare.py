#!/usr/bin/env python3
"""Logits and weights against Hugging Face's transformers, on random models of GPT-2, BLOOM and Llama, or of every family.

  compare.py TRIREME [--count MODELS_A_FAMILY] [--seed N] [--device cpu|cuda] [--keep FOLDER]
  compare.py TRIREME --families [--device cpu|cuda] [--jobs N]    three shapes of every family

Needs torch, transformers (5 or later) and safetensors; a CPU is enough. For each model that transformers made and saved,
in one file or in shards:
  1. logits of random tokens, fp32, within 1e-4 of transformers' own, on one rank and on as many tensor ranks as the
     model can be cut into;
  2. import and export: every tensor byte for byte, and transformers loads the export;
  3. `model.from` in a recipe under tensor x pipeline ranks with a learning rate of 0: the saved run exports the same
     bytes and gives the same logits;
  4. a file with two rows of a query projection exchanged must fail the first check, so that the check can see.
With --families, for each of three shapes: the first check, on one rank, on two tensor ranks and, by the forward pass of
training, on 2 tensor x 2 pipeline ranks; and one step with a learning rate of 0 under 2 x 2 ranks, whose saved weights
must come out byte for byte. Prints the table of docs/reference/families.md.
Prints a line a model and a table; exits with 1 when anything differs.
"""
import argparse
import concurrent.futures
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file

TOLERANCE = 1e-4
TOKENS = 24
LAYOUTS = [(1, 0), (2, 0), (2, 2)]  # tensor ranks, pipeline stages of the trainer
SAMPLES = 3


def random_config(family, rng):
    """A small configuration of a family, with odd counts among its heads."""
    heads = rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 12])
    size = rng.choice([4, 6, 8, 10, 16])
    layers = rng.choice([2, 3, 4])
    vocabulary = rng.choice([61, 97, 128, 391, 500])
    tied = rng.random() < 0.5
    hidden = heads * size
    if family == "gpt2":
        config = transformers.GPT2Config(
            n_layer=layers, n_embd=hidden, n_head=heads, n_inner=rng.choice([None, 2 * hidden, 36]), n_positions=40,
            vocab_size=vocabulary, tie_word_embeddings=tied, bos_token_id=0, eos_token_id=0)
        inner = config.n_inner or 4 * hidden
        cuts = [heads, inner]
    elif family == "bloom":
        config = transformers.BloomConfig(
            n_layer=layers, hidden_size=hidden, n_head=heads, vocab_size=vocabulary, tie_word_embeddings=tied,
            bos_token_id=0, eos_token_id=0)
        cuts = [heads, 4 * hidden]
    else:
        groups = rng.choice([count for count in range(1, heads + 1) if heads % count == 0])
        inner = rng.choice([24, 36, 60, 88])
        config = transformers.LlamaConfig(
            num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=groups,
            intermediate_size=inner, vocab_size=vocabulary, max_position_embeddings=64, tie_word_embeddings=tied,
            rms_norm_eps=rng.choice([1e-5, 1e-6]), bos_token_id=0, eos_token_id=0)
        theta = rng.choice([10000.0, 500000.0])
        if hasattr(config, "rope_parameters"):
            config.rope_parameters = {"rope_type": "default", "rope_theta": theta}
        else:
            config.rope_theta = theta
        cuts = [heads, groups, inner]
    tensor = [count for count in (1, 2, 3, 4, 5, 6, 7) if all(extent % count == 0 for extent in cuts)]
    return config, layers, tensor


def rope(theta, **scaling):
    return dict(rope_type="default", rope_theta=theta) | scaling


# Layers, heads, heads of keys and values, elements of a head, feed-forward width, vocabulary, tied output.
SHAPES = [(4, 4, 2, 8, 40, 97, False), (2, 6, 6, 16, 88, 391, True), (8, 8, 4, 32, 344, 1000, False)]
FAMILIES = ("gpt2", "bloom", "llama", "llama3", "yarn", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "olmo2", "phi3",
            "longrope", "longrope_short", "nemotron", "gpt_neox", "opt", "mpt", "smollm3", "olmo3", "granite",
            "qwen2_windows", "llama_biases", "gpt2_scaled")


def family_config(family, shape):
    """The configuration of a family in one of SHAPES."""
    layers, heads, groups, size, inner, vocabulary, tied = SHAPES[shape]
    hidden = heads * size
    plain = dict(vocab_size=vocabulary, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    llama = dict(plain, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
                 num_key_value_heads=groups, max_position_embeddings=64, tie_word_embeddings=tied,
                 rope_parameters=rope(5000.0))
    factors = [1 + pair / 4 for pair in range(size // 2)]
    longrope = dict(rope_type="longrope", short_factor=factors, long_factor=[2 * one for one in factors])
    gemma = dict(llama, head_dim=size, sliding_window=5, query_pre_attn_scalar=size, tie_word_embeddings=True)
    kinds = {
        "gpt2": ("gpt2", dict(plain, n_embd=hidden, n_layer=layers, n_head=heads, n_positions=40, n_inner=inner)),
        "bloom": ("bloom", dict(plain, hidden_size=hidden, n_layer=layers, n_head=heads)),
        "llama": ("llama", llama),
        "llama3": ("llama", dict(llama, rope_parameters=rope(
            5000.0, rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=16))),
        "yarn": ("llama", dict(llama, rope_parameters=rope(
            5000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=16))),
        "mistral": ("mistral", dict(llama, sliding_window=7, head_dim=size)),
        "qwen2": ("qwen2", llama),
        "qwen3": ("qwen3", dict(llama, head_dim=size)),
        "gemma2": ("gemma2", dict(gemma, attn_logit_softcapping=1.5, final_logit_softcapping=3.0)),
        "gemma3": ("gemma3_text", dict(gemma, rope_parameters=dict(
            sliding_attention=rope(100.0), full_attention=rope(5000.0, rope_type="linear", factor=4.0)))),
        "olmo2": ("olmo2", llama),
        "phi3": ("phi3", dict(llama, sliding_window=9, partial_rotary_factor=0.75,
                              rope_parameters=rope(1000.0, partial_rotary_factor=0.75))),
        "longrope": ("phi3", dict(llama, original_max_position_embeddings=8, rope_parameters=rope(
            1000.0, **longrope, original_max_position_embeddings=8))),
        "longrope_short": ("phi3", dict(llama, original_max_position_embeddings=32, rope_parameters=rope(
            1000.0, **longrope, original_max_position_embeddings=32))),
        "nemotron": ("nemotron", dict(llama, head_dim=size, partial_rotary_factor=0.5,
                                      rope_parameters=rope(1000.0, partial_rotary_factor=0.5))),
        "gpt_neox": ("gpt_neox", dict(plain, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
                                      num_attention_heads=heads, max_position_embeddings=64, rotary_pct=0.5,
                                      rope_parameters=rope(1000.0, partial_rotary_factor=0.5))),
        "opt": ("opt", dict(plain, hidden_size=hidden, ffn_dim=inner, num_hidden_layers=layers,
                            num_attention_heads=heads, max_position_embeddings=40, word_embed_proj_dim=hidden)),
        "mpt": ("mpt", dict(plain, d_model=hidden, n_heads=heads, n_layers=layers, max_seq_len=40, expansion_ratio=3)),
        "smollm3": ("smollm3", dict(llama, sliding_window=7, use_sliding_window=True, no_rope_layer_interval=2)),
        "olmo3": ("olmo3", dict(llama, sliding_window=7)),
        "granite": ("granite", dict(llama, embedding_multiplier=6.0, residual_multiplier=0.375,
                                    attention_multiplier=0.25, logits_scaling=3.0)),
        "qwen2_windows": ("qwen2", dict(llama, sliding_window=7, use_sliding_window=True, max_window_layers=1)),
        "llama_biases": ("llama", dict(llama, attention_bias=True, mlp_bias=True, hidden_act="gelu")),
        "gpt2_scaled": ("gpt2", dict(plain, n_embd=hidden, n_layer=layers, n_head=heads, n_positions=40, n_inner=inner,
                                     activation_function="relu", scale_attn_by_inverse_layer_idx=True)),
    }
    kind, options = kinds[family]
    return transformers.AutoConfig.for_model(kind, **options)


def make_model(config, seed, **options):
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32, **options).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # gains and biases start as ones and zeros, which would hide their mistakes
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def tensors_of(folder):
    """Name -> (dtype, shape, bytes) over all files of a directory."""
    tensors = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():
                tensor = file.get_tensor(name)
                tensors[name] = (str(tensor.dtype), tuple(tensor.shape), tensor.contiguous().numpy().tobytes())
    return tensors


class Bench:
    def __init__(self, arguments):
        self.program = str(Path(arguments.trireme).resolve())
        self.device = arguments.device

    def run(self, *line):
        result = subprocess.run([self.program, *map(str, line)], capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, line))}: exit {result.returncode}: {result.stderr.strip()}")
        return result.stdout

    def logits(self, model, folder, ranks=1, pipeline=0):
        out = folder / "logits.npy"
        stages = ("--pipeline", pipeline) if pipeline else ()
        self.run("evaluate", model, "--tokens", folder / "ids.txt", "--logits", out, "--dtype", "fp32", "--ranks", ranks,
                 "--device", self.device, "--threads", 1, *stages)
        return numpy.load(out)

    def check(self, family, number, seed, folder):
        rng = random.Random(f"{family} {seed}")
        config, layers, tensor = random_config(family, rng)
        model = make_model(config, seed)
        theirs = folder / "theirs"
        model.save_pretrained(theirs, max_shard_size=rng.choice(["20KB", "5GB"]))
        ids = torch.randint(0, config.vocab_size, (SAMPLES, TOKENS + 1),
                            generator=torch.Generator().manual_seed(seed))
        (folder / "ids.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in ids.tolist()))
        with torch.no_grad():
            expected = model(ids[:, :-1]).logits.float().numpy()

        def difference(logits):
            return float(numpy.abs(logits - expected).max()) if logits.shape == expected.shape else math.inf

        row = {"largest": float(numpy.abs(expected).max())}
        row["one"] = difference(self.logits(theirs, folder))
        row["tensor"] = max(difference(self.logits(theirs, folder, ranks)) for ranks in tensor)
        self.run("checkpoint", "import", theirs, folder / "imported" / "checkpoints")
        self.run("checkpoint", "export", folder / "imported", folder / "back")
        row["back"] = tensors_of(folder / "back") == tensors_of(theirs)
        with torch.no_grad():
            again = transformers.AutoModelForCausalLM.from_pretrained(folder / "back", dtype=torch.float32).eval()
            row["loads"] = bool((again(ids[:, :-1]).logits.float().numpy() == expected).all())
        row["layouts"] = self.layouts(theirs, folder, layers, tensor, difference)
        row["blind"] = difference(self.logits(self.spoil(theirs, folder / "spoilt"), folder)) <= TOLERANCE
        good = (row["one"] <= TOLERANCE and row["tensor"] <= TOLERANCE and row["back"] and row["loads"]
                and row["layouts"] <= TOLERANCE and not row["blind"])
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        print(f"{family} {number}: {layers} layers, {config.num_attention_heads} heads ({heads} kv) of "
              f"{config.hidden_size // config.num_attention_heads}, vocabulary {config.vocab_size}, "
              f"{'tied' if config.tie_word_embeddings else 'untied'}; logits up to {row['largest']:.1f}: differ by "
              f"{row['one']:.1e}, on up to {tensor[-1]} tensor ranks {row['tensor']:.1e}, after layouts "
              f"{row['layouts']:.1e}; bytes {'equal' if row['back'] else 'DIFFER'}; {'ok' if good else 'FAILED'}",
              flush=True)
        return good, row

    def check_shape(self, family, shape, folder):
        """The line of a family's shape, and whether all is well."""
        config = family_config(family, shape)
        model = make_model(config, 100 + shape, attn_implementation="eager")
        theirs = folder / "theirs"
        model.save_pretrained(theirs)
        vocabulary = SHAPES[shape][5]
        ids = torch.randint(0, vocabulary, (SAMPLES, TOKENS + 1), generator=torch.Generator().manual_seed(shape))
        (folder / "ids.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in ids.tolist()))
        with torch.no_grad():
            expected = model(ids[:, :-1]).logits.float().numpy()
        differences = [float(numpy.abs(self.logits(theirs, folder, ranks, pipeline) - expected).max())
                       for ranks, pipeline in LAYOUTS]
        (folder / "recipe.toml").write_text(f"""model.from = {json.dumps(str(theirs))}
model.sequence = {40 if family in ("gpt2", "opt") else TOKENS}
layout = {{ tensor = 2, pipeline = 2 }}
batch.global = 4
train = {{ steps = 1, device = "{self.device}", dtype = "fp32" }}
optimizer.learning_rate = 0
""")
        self.run("train", folder / "recipe.toml", "--run", folder / "run")
        self.run("checkpoint", "export", folder / "run", folder / "back")
        same = tensors_of(folder / "back") == tensors_of(theirs)
        good = max(differences) <= TOLERANCE and same
        return good, (f"{family:9} {shape}: logits up to {float(numpy.abs(expected).max()):5.1f}: "
                      f"{', '.join(f'{one:.1e}' for one in differences)}; bytes {'equal' if same else 'DIFFER'}; "
                      f"{'ok' if good else 'FAILED'}"), differences

    def layouts(self, theirs, folder, layers, tensor, difference):
        """Largest difference of logits over tensor x pipeline layouts; infinite where the weights changed."""
        recipe = folder / "recipe.toml"
        largest = 0.0
        learned = json.loads((theirs / "config.json").read_text()).get("n_positions")
        sequence = learned or TOKENS  # fewer learned positions would be another table
        stages = [count for count in (1, 2, 3, 4) if layers % count == 0]
        for tensors, pipeline in {(tensor[-1], stages[-1]), (1, stages[-1]), (tensor[-1], stages[0])}:
            run = folder / f"run-{tensors}-{pipeline}"
            recipe.write_text(f"""model.from = {json.dumps(str(theirs))}
model.sequence = {sequence}
layout = {{ tensor = {tensors}, pipeline = {pipeline} }}
batch.global = 4
train = {{ steps = 1, device = "{self.device}" }}
optimizer.learning_rate = 0
""")
            self.run("train", recipe, "--run", run)
            self.run("checkpoint", "export", run, folder / f"out-{tensors}-{pipeline}")
            if tensors_of(folder / f"out-{tensors}-{pipeline}") != tensors_of(theirs):
                return math.inf
            largest = max(largest, difference(self.logits(run, folder)))
        return largest

    @staticmethod
    def spoil(theirs, folder):
        """A copy with two query rows (or columns) of the first layer exchanged."""
        tensors = {}
        for path in sorted(theirs.glob("*.safetensors")):
            tensors.update(load_file(path))
        name = next(name for name in sorted(tensors)
                    if name.endswith((".0.attn.c_attn.weight", ".0.self_attention.query_key_value.weight",
                                      ".0.self_attn.q_proj.weight")))
        weight = tensors[name].clone()
        if name.endswith("c_attn.weight"):
            weight = weight[:, [1, 0, *range(2, weight.shape[1])]]
        else:
            weight = weight[[1, 0, *range(2, weight.shape[0])]]
        tensors[name] = weight.contiguous()
        folder.mkdir()
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_bytes((theirs / "config.json").read_bytes())
        return folder


def compare_families(bench, jobs):
    """Prints the largest differences of every family over its shapes, and the line of each that fails."""
    def check(family, shape):
        with tempfile.TemporaryDirectory() as folder:
            try:
                return bench.check_shape(family, shape, Path(folder))
            except Exception as error:  # the other models are still compared
                return False, f"{family} {shape}: {error}", [math.inf] * len(LAYOUTS)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        work = {(family, shape): pool.submit(check, family, shape) for family in FAMILIES for shape in range(len(SHAPES))}
        good = True
        print("| model | shapes within 1e-4 | 1 rank | 2 tensor ranks | 2 tensor x 2 pipeline ranks |\n"
              "|---|---|---|---|---|")
        for family in FAMILIES:
            results = [work[family, shape].result() for shape in range(len(SHAPES))]
            good = good and all(one for one, _, _ in results)
            largest = [max(column) for column in zip(*(differences for _, _, differences in results))]
            print(f"| {family} | {sum(one for one, _, _ in results)} of {len(results)} | "
                  f"{' | '.join(f'{one:.1e}' for one in largest)} |", flush=True)
            for one, line, _ in results:
                if not one:
                    print(line[:300], flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--keep", help="folder for the files of every model")
    parser.add_argument("--families", action="store_true", help="three shapes of every family")
    parser.add_argument("--jobs", type=int, default=1, help="models of --families at a time")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    bench = Bench(arguments)
    if arguments.families:
        sys.exit(0 if compare_families(bench, arguments.jobs) else 1)
    table = []
    for family in ("gpt2", "bloom", "llama"):
        rows = []
        for number in range(arguments.count):
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(arguments.keep or temporary) / f"{family}-{number}"
                folder.mkdir(parents=True)
                rows.append(bench.check(family, number, arguments.seed * 1000 + number, folder))
        worst = max(max(row["one"], row["tensor"], row["layouts"]) for _, row in rows)
        table.append((family, len(rows), sum(good for good, _ in rows), worst))
    print(f"\n{'family':8} {'models':>6} {'good':>6} {'largest difference of logits':>30}")
    for family, models, good, worst in table:
        print(f"{family:8} {models:6} {good:6} {worst:30.2e}")
    sys.exit(0 if all(models == good for _, models, good, _ in table) else 1)


if __name__ == "__main__":
    main()
