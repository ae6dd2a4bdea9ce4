#!/usr/bin/env python3
"""LoRA adapters against transformers: trained here on a model that transformers made, merged there.

  compare_adapters.py TRIREME [--device cpu|cuda] [--families gpt2 llama ...]

For each family a small random model is saved by transformers, adapters are trained on it (model.from, [lora]), and
`checkpoint export --adapter` and `--merge` write them. Then, in fp32:
  1. the base with B A added by this script, from the names and shapes of adapter_model.safetensors alone, gives the
     logits of the run within 1e-4, and so does transformers with the directory of --merge;
  2. where the peft package is installed, PeftModel.from_pretrained with the directory of --adapter does too;
  3. the base alone gives other logits.
Prints a line a family; exits with 1 when anything differs. Needs what compare.py needs.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy
import torch
import transformers
from safetensors.torch import load_file

import compare

SHAPE = 1
RECIPE = """model.from = {base}
model.sequence = 24
lora = {{ rank = 4, alpha = 6 }}
layout = {{ {layout} }}
batch.global = 8
optimizer.learning_rate = 0.02
train = {{ steps = 12, device = "{device}", dtype = "fp32" }}
"""


def merged(model, folder):
    """The model with the adapter of a directory added to its weights."""
    config = json.loads((folder / "adapter_config.json").read_text())
    tensors = load_file(folder / "adapter_model.safetensors")
    names = {name.removesuffix(".lora_A.weight") for name in tensors if name.endswith(".lora_A.weight")}
    modules = dict(model.named_modules())
    with torch.no_grad():
        for name in names:
            module = modules[name.removeprefix("base_model.model.")]
            delta = tensors[name + ".lora_B.weight"] @ tensors[name + ".lora_A.weight"]
            delta *= config["lora_alpha"] / config["r"]
            module.weight += delta.T if config["fan_in_fan_out"] else delta
    # PEFT finds modules by the ends of their names: it must find these and no others.
    ends = config["target_modules"]
    found = {name for name in modules if any(name == end or name.endswith("." + end) for end in ends)}
    return model, found == {name.removeprefix("base_model.model.") for name in names}


def peft_logits(base, adapter, ids):
    """None where peft is not installed."""
    try:
        import peft
    except ImportError:
        return None
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        return peft.PeftModel.from_pretrained(model, adapter).eval()(ids).logits.float().numpy()


def check(bench, family, layout, folder):
    model = compare.make_model(compare.family_config(family, SHAPE), 7, attn_implementation="eager")
    base = folder / "base"
    model.save_pretrained(base)
    vocabulary = compare.SHAPES[SHAPE][5]
    ids = torch.randint(0, vocabulary, (compare.SAMPLES, compare.TOKENS + 1),
                        generator=torch.Generator().manual_seed(5))
    (folder / "ids.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in ids.tolist()))
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE.format(base=json.dumps(str(base)), device=bench.device, layout=layout))
    bench.run("train", recipe, "--run", folder / "run")
    bench.run("checkpoint", "export", folder / "run", folder / "adapter", "--adapter")
    bench.run("checkpoint", "export", folder / "run", folder / "merged", "--merge")
    ours = bench.logits(folder / "run", folder)
    with torch.no_grad():
        plain = model(ids[:, :-1]).logits.float().numpy()
        ends_match = merged(model, folder / "adapter")[1]
        by_hand = model(ids[:, :-1]).logits.float().numpy()
        again = transformers.AutoModelForCausalLM.from_pretrained(folder / "merged", dtype=torch.float32,
                                                                  attn_implementation="eager").eval()
        loaded = again(ids[:, :-1]).logits.float().numpy()
    by_peft = peft_logits(base, folder / "adapter", ids[:, :-1])
    apart = [float(numpy.abs(ours - theirs).max()) for theirs in (by_hand, loaded)]
    if by_peft is not None:
        apart.append(float(numpy.abs(ours - by_peft).max()))
    learned = float(numpy.abs(ours - plain).max())
    good = max(apart) <= compare.TOLERANCE and learned > 100 * compare.TOLERANCE and ends_match
    print(f"{family:9} {layout}: adapters move logits by {learned:.2f}; merged by this script {apart[0]:.1e}, by --merge "
          f"{apart[1]:.1e}, by peft {f'{apart[2]:.1e}' if len(apart) > 2 else '(not installed)'}; names "
          f"{'match' if ends_match else 'DIFFER'}; {'ok' if good else 'FAILED'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--families", nargs="+", default=["bloom", "llama", "gemma2", "phi3", "gpt_neox", "mpt"])
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    bench = compare.Bench(arguments)
    layouts = ["tensor = 1", "tensor = 2, pipeline = 2"]
    good = True
    for number, family in enumerate(arguments.families):
        with tempfile.TemporaryDirectory() as folder:
            good = check(bench, family, layouts[number % 2], Path(folder)) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
