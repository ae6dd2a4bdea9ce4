#!/usr/bin/env python3
"""Logits and greedy tokens of small models of every family, by Hugging Face transformers.

    make_families.py FILE [NAME …]    writes the fixture, of these models alone where some are named; needs
                                      transformers 5 and PyTorch

Weights follow from the names of the tensors (named_numbers.py), so that the fixture holds none: it has, for
each model, config.json as transformers writes it, names and shapes of the tensors of model.safetensors with the CRC-32
of that file, tokens, the logits of each of them, and the tokens that follow greedily. families_test.cc is the other
side.
"""
import json
import os
import sys
import tempfile
import zlib

import torch
import transformers
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM

from named_numbers import centred, number

VOCABULARY = 43
TOKENS = 16
GREEDY = 6
PLAIN = dict(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA = dict(PLAIN, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=32)


def rope(theta, **scaling):
    return dict(rope_type="default", rope_theta=theta) | scaling


GEMMA3_ROPE = dict(sliding_attention=rope(100.0), full_attention=rope(5000.0, rope_type="linear", factor=4.0))
MODELS = {
    "gpt2": ("gpt2", dict(PLAIN, n_embd=32, n_layer=2, n_head=4, n_positions=32)),
    "bloom": ("bloom", dict(PLAIN, hidden_size=32, n_layer=2, n_head=4)),
    "llama": ("llama", dict(LLAMA, rope_parameters=rope(500.0))),
    "smollm": ("llama", dict(LLAMA, num_key_value_heads=4, tie_word_embeddings=True, rope_parameters=rope(10000.0))),
    "llama3": ("llama", dict(LLAMA, rope_parameters=rope(
        500.0, rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16))),
    "llama_linear": ("llama", dict(LLAMA, rope_parameters=rope(1000.0, rope_type="linear", factor=2.5))),
    "llama_yarn": ("llama", dict(LLAMA, rope_parameters=rope(
        1000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=8))),
    "mistral": ("mistral", dict(LLAMA, sliding_window=5, head_dim=10, rope_parameters=rope(1000.0))),
    "qwen2": ("qwen2", dict(LLAMA, rope_parameters=rope(1000.0))),
    "qwen2_tied": ("qwen2", dict(LLAMA, num_attention_heads=6, num_key_value_heads=3, hidden_size=24,
                                 tie_word_embeddings=True, rope_parameters=rope(1000.0))),
    "qwen3": ("qwen3", dict(LLAMA, head_dim=12, tie_word_embeddings=True, rope_parameters=rope(1000.0))),
    "gemma2": ("gemma2", dict(LLAMA, num_hidden_layers=4, head_dim=10, sliding_window=5, query_pre_attn_scalar=13,
                              attn_logit_softcapping=1.5, final_logit_softcapping=3.0, rope_parameters=rope(1000.0))),
    "gemma3": ("gemma3_text", dict(LLAMA, num_hidden_layers=7, head_dim=12, sliding_window=4, query_pre_attn_scalar=9,
                                   rope_parameters=GEMMA3_ROPE)),
    "olmo2": ("olmo2", dict(LLAMA, rope_parameters=rope(1000.0))),
    "phi3": ("phi3", dict(LLAMA, sliding_window=6, rope_parameters=rope(1000.0))),
    "phi4_mini": ("phi3", dict(LLAMA, tie_word_embeddings=True, partial_rotary_factor=0.75,
                               rope_parameters=rope(1000.0, partial_rotary_factor=0.75))),
    # Sixteen tokens are within the original positions, or beyond them: the short factors, or the long ones.
    "phi3_short": ("phi3", dict(LLAMA, max_position_embeddings=64, original_max_position_embeddings=32,
                                rope_parameters=rope(1000.0, rope_type="longrope", short_factor=[1.0, 1.25, 1.5, 2.0],
                                                     long_factor=[1.0, 2.0, 3.0, 4.0],
                                                     original_max_position_embeddings=32))),
    "phi3_long": ("phi3", dict(LLAMA, original_max_position_embeddings=8, partial_rotary_factor=0.75,
                               rope_parameters=rope(1000.0, rope_type="longrope", partial_rotary_factor=0.75,
                                                    short_factor=[1.0, 1.25, 1.5], long_factor=[1.0, 2.5, 3.75],
                                                    original_max_position_embeddings=8))),
    "gpt_neox": ("gpt_neox", dict(PLAIN, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
                                  num_attention_heads=4, max_position_embeddings=32, rotary_pct=0.5,
                                  rope_parameters=rope(1000.0, partial_rotary_factor=0.5))),
    "gpt_neox_serial": ("gpt_neox", dict(PLAIN, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
                                         num_attention_heads=4, max_position_embeddings=32, rotary_pct=1.0,
                                         use_parallel_residual=False, tie_word_embeddings=True,
                                         rope_parameters=rope(1000.0, partial_rotary_factor=1.0))),
    "opt": ("opt", dict(PLAIN, hidden_size=32, ffn_dim=40, num_hidden_layers=2, num_attention_heads=4,
                        max_position_embeddings=24, word_embed_proj_dim=32)),
    "mpt": ("mpt", dict(PLAIN, d_model=32, n_heads=4, n_layers=2, max_seq_len=24, expansion_ratio=3)),
    # Models of make_formulas.py as transformers makes them; their fixture is committed as the formulas': named here, they
    # are made again by transformers, for a comparison.
    "granite": ("granite", dict(LLAMA, embedding_multiplier=6.0, residual_multiplier=0.375, attention_multiplier=0.25,
                                logits_scaling=3.0, rope_parameters=rope(1000.0))),
    "smollm3": ("smollm3", dict(LLAMA, num_hidden_layers=5, tie_word_embeddings=True, rope_parameters=rope(1000.0))),
    "olmo3": ("olmo3", dict(LLAMA, num_hidden_layers=5, sliding_window=5, rope_parameters=rope(1000.0))),
    "qwen2_late_windows": ("qwen2", dict(LLAMA, num_hidden_layers=4, sliding_window=4, use_sliding_window=True,
                                         max_window_layers=2, rope_parameters=rope(1000.0))),
    "llama_biases": ("llama", dict(LLAMA, attention_bias=True, mlp_bias=True, rope_parameters=rope(1000.0))),
    "llama_relu": ("llama", dict(LLAMA, hidden_act="relu", rope_parameters=rope(1000.0))),
    "gpt2_scaled": ("gpt2", dict(PLAIN, n_embd=32, n_layer=3, n_head=4, n_positions=32, activation_function="relu",
                                 scale_attn_by_inverse_layer_idx=True)),
    "mpt_scale": ("mpt", dict(PLAIN, d_model=32, n_heads=4, n_layers=2, max_seq_len=24,
                              attn_config=dict(softmax_scale=0.3))),
    "nemotron": ("nemotron", dict(LLAMA, rope_parameters=rope(1000.0, partial_rotary_factor=0.5),
                                  partial_rotary_factor=0.5, head_dim=8)),
}


def first_value(kind, name, shape, index):
    """Norms' gains are around 1, or around 0 where the family adds 1 to them."""
    gain = len(shape) == 1 and name.endswith(".weight")
    return centred(name, index) + (1 if gain and kind not in ("gemma2", "gemma3_text", "nemotron") else 0)


def make(kind, options):
    config = AutoConfig.for_model(kind, **options)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", torch_dtype=torch.float32).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = [first_value(kind, name, parameter.shape, i) for i in range(parameter.numel())]
            parameter.copy_(torch.tensor(values).reshape(parameter.shape))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with open(os.path.join(folder, "config.json")) as file:
            saved = file.read()
        path = os.path.join(folder, "model.safetensors")
        with open(path, "rb") as file:
            crc = zlib.crc32(file.read())
        with safe_open(path, "pt") as tensors:
            shapes = {name: list(tensors.get_slice(name).get_shape()) for name in tensors.keys()}
    tokens = [number(kind, i) % VOCABULARY for i in range(TOKENS)]
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].tolist()
        greedy = list(tokens)
        for _ in range(GREEDY):
            greedy.append(int(model(torch.tensor([greedy])).logits[0, -1].argmax()))
    return dict(config=saved, crc32=crc, tensors=shapes, tokens=tokens, greedy=greedy[TOKENS:],
                logits=[[float(f"{one:.7g}") for one in row] for row in logits])


def main():
    torch.set_num_threads(4)
    fixture = dict(transformers=transformers.__version__, torch=torch.__version__, models={})
    failed = 0
    for name in sys.argv[2:] or MODELS:
        kind, options = MODELS[name]
        try:
            fixture["models"][name] = make(kind, options)
            row = fixture["models"][name]["logits"][-1]
            print(name, "logits from", min(row), "to", max(row), fixture["models"][name]["greedy"])
        except Exception as error:  # The other models are still of use.
            print(name, "FAILED:", repr(error))
            failed += 1
    with open(sys.argv[1], "w") as file:
        file.write("{" + ",\n".join(f"{json.dumps(key)}: {json.dumps(one)}" for key, one in fixture.items()
                                    if key != "models"))
        file.write(',\n"models": {\n' + ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}"
                                                  for name, one in fixture["models"].items()) + "}}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
