#!/usr/bin/env python3
"""Logits and greedy tokens of small models by formulas written out in double precision, without any library.

    make_formulas.py FILE                  writes formulas_fixture.json
    make_formulas.py --check FIXTURE …     compares the formulas with fixtures of make_families.py (logits within 2e-5)

make_families.py, whose format this is, takes what transformers computes; this program is for machines without it, and
for kinds of layers and keys that a release of transformers computes otherwise. It reads config.json by the rules of
transformers' documentation and shares no code with the C++ side. `--check` holds it to transformers' own numbers.
"""
import json
import math
import struct
import sys
import zlib

from named_numbers import centred, number

VOCABULARY = 43
TOKENS = 16
GREEDY = 6
LLAMA = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=32, rms_norm_eps=1e-6, hidden_act="silu",
             tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0, dtype="float32",
             initializer_range=0.02, attention_dropout=0.0, use_cache=True)
PLAIN = dict(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, pad_token_id=0, dtype="float32")
FULL, SLIDING = "full_attention", "sliding_attention"
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8, beta_fast=32.0, beta_slow=1.0)


def model(kind, base, **more):
    return dict(base, model_type=kind, **more)


MODELS = {
    "gemma3_any_order": model("gemma3_text", {k: v for k, v in LLAMA.items() if k != "hidden_act"} | dict(
        num_hidden_layers=4, tie_word_embeddings=True), head_dim=12, sliding_window=4, query_pre_attn_scalar=9,
        hidden_activation="gelu_pytorch_tanh", rope_theta=5000.0, rope_local_base_freq=100.0,
        layer_types=[FULL, SLIDING, SLIDING, FULL]),
    "gpt2_scaled": model("gpt2", PLAIN, n_embd=32, n_layer=3, n_head=4, n_positions=32, layer_norm_epsilon=1e-5,
                         activation_function="relu", scale_attn_by_inverse_layer_idx=True, tie_word_embeddings=True),
    "gpt2_unscaled": model("gpt2", PLAIN, n_embd=32, n_layer=2, n_head=4, n_positions=32, layer_norm_epsilon=1e-5,
                           activation_function="silu", scale_attn_weights=False, tie_word_embeddings=True),
    "gpt_neox_plain": model("gpt_neox", PLAIN, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
                            num_attention_heads=4, max_position_embeddings=32, layer_norm_eps=1e-5, rotary_pct=0.5,
                            rotary_emb_base=1000, attention_bias=False, hidden_act="gelu_new",
                            use_parallel_residual=True, tie_word_embeddings=False),
    "granite": model("granite", LLAMA, rope_theta=1000.0, attention_bias=False, mlp_bias=False,
                     embedding_multiplier=6.0, residual_multiplier=0.375, attention_multiplier=0.25,
                     logits_scaling=3.0),
    "llama_biases": model("llama", LLAMA, rope_theta=1000.0, attention_bias=True, mlp_bias=True),
    "llama_gelu": model("llama", dict(LLAMA, hidden_act="gelu"), rope_theta=1000.0, attention_bias=True,
                        mlp_bias=False),
    "llama_gelu_new": model("llama", dict(LLAMA, hidden_act="gelu_new"), rope_theta=1000.0, attention_bias=False,
                            mlp_bias=True),
    "llama_relu": model("llama", dict(LLAMA, hidden_act="relu"), rope_theta=1000.0, attention_bias=False,
                        mlp_bias=False),
    "llama_yarn_mscale": model("llama", LLAMA, rope_theta=1000.0, attention_bias=False, mlp_bias=False,
                               rope_scaling=dict(YARN, mscale=0.707, mscale_all_dim=1.5)),
    "mpt_six_heads": model("mpt", PLAIN, d_model=24, n_heads=6, n_layers=2, max_seq_len=24, expansion_ratio=4,
                           layer_norm_epsilon=1e-5, no_bias=True, norm_type="low_precision_layernorm",
                           tie_word_embeddings=True,
                           attn_config=dict(alibi=True, alibi_bias_max=8, attn_type="multihead_attention")),
    "mpt_scale": model("mpt", PLAIN, d_model=32, n_heads=4, n_layers=2, max_seq_len=24, expansion_ratio=4,
                       layer_norm_epsilon=1e-5, no_bias=True, norm_type="low_precision_layernorm",
                       tie_word_embeddings=True, attn_config=dict(alibi=True, alibi_bias_max=8, softmax_scale=0.3,
                                                                  attn_type="multihead_attention")),
    "olmo3": model("olmo3", dict(LLAMA, num_hidden_layers=5), rope_theta=1000.0, rope_scaling=YARN, sliding_window=5,
                   attention_bias=False, layer_types=[SLIDING, SLIDING, SLIDING, FULL, SLIDING]),
    "olmo3_any_order": model("olmo3", dict(LLAMA, num_hidden_layers=4), rope_theta=1000.0, sliding_window=5,
                             attention_bias=False, layer_types=[FULL, SLIDING, FULL, FULL]),
    "opt_plain": model("opt", PLAIN, hidden_size=32, ffn_dim=40, num_hidden_layers=2, num_attention_heads=4,
                       max_position_embeddings=24, word_embed_proj_dim=32, enable_bias=False,
                       activation_function="gelu", do_layer_norm_before=True, tie_word_embeddings=True),
    "qwen2_late_windows": model("qwen2", dict(LLAMA, num_hidden_layers=4), rope_theta=1000.0, sliding_window=4,
                                use_sliding_window=True, max_window_layers=2),
    "qwen3_any_order": model("qwen3", dict(LLAMA, num_hidden_layers=4), rope_theta=1000.0, sliding_window=4,
                             head_dim=12, use_sliding_window=True, max_window_layers=0, attention_bias=True,
                             layer_types=[FULL, SLIDING, SLIDING, FULL]),
    "smollm3": model("smollm3", dict(LLAMA, num_hidden_layers=5, tie_word_embeddings=True), rope_theta=1000.0,
                     attention_bias=False, mlp_bias=False, no_rope_layer_interval=4,
                     no_rope_layers=[1, 1, 1, 0, 1], use_sliding_window=False, sliding_window=None,
                     layer_types=[FULL] * 5),
    "smollm3_windows": model("smollm3", dict(LLAMA, num_hidden_layers=4), rope_theta=1000.0, attention_bias=False,
                             mlp_bias=False, no_rope_layers=[0, 1, 0, 1], use_sliding_window=True, sliding_window=4,
                             layer_types=[SLIDING, SLIDING, FULL, FULL]),
}


# ---- values of tensors

def values_of(kind, name, shape):
    gain = len(shape) == 1 and name.endswith(".weight") and kind not in ("gemma2", "gemma3_text", "nemotron")
    in_memory = "lm_head.weight" if name == "embed_out.weight" else name
    return [centred(in_memory, i) + (1 if gain else 0) for i in range(math.prod(shape))]


# ---- tensors that a model has

def llama_tensors(c):
    hidden, ffn, layers = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"]
    size = head_size(c)
    queries, keys = c["num_attention_heads"] * size, c["num_key_value_heads"] * size
    kind = c["model_type"]
    attention_bias = c.get("attention_bias", False) or kind == "qwen2"
    shapes = {"model.embed_tokens.weight": [c["vocab_size"], hidden], "model.norm.weight": [hidden]}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        for name, rows, columns in (("self_attn.q_proj", queries, hidden), ("self_attn.k_proj", keys, hidden),
                                    ("self_attn.v_proj", keys, hidden), ("self_attn.o_proj", hidden, queries),
                                    ("mlp.gate_proj", ffn, hidden), ("mlp.up_proj", ffn, hidden),
                                    ("mlp.down_proj", hidden, ffn)):
            shapes[f"{at}{name}.weight"] = [rows, columns]
            has = c.get("mlp_bias", False) if name.startswith("mlp") else attention_bias
            if has and not (kind == "qwen2" and name.endswith("o_proj")):
                shapes[f"{at}{name}.bias"] = [rows]
        if kind in ("olmo2", "olmo3"):
            shapes[at + "self_attn.q_norm.weight"] = [queries]
            shapes[at + "self_attn.k_norm.weight"] = [keys]
        elif kind in ("qwen3", "gemma3_text"):
            shapes[at + "self_attn.q_norm.weight"] = [size]
            shapes[at + "self_attn.k_norm.weight"] = [size]
        norms = ["post_attention_layernorm"]
        norms += ["post_feedforward_layernorm"] if kind in ("olmo2", "olmo3", "gemma3_text") else []
        norms += ["input_layernorm"] if kind not in ("olmo2", "olmo3") else []
        norms += ["pre_feedforward_layernorm"] if kind == "gemma3_text" else []
        for name in norms:
            shapes[f"{at}{name}.weight"] = [hidden]
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [c["vocab_size"], hidden]
    return shapes


def linear(shapes, name, rows, columns, bias=True):
    shapes[name + ".weight"] = [rows, columns]
    if bias:
        shapes[name + ".bias"] = [rows]


def other_tensors(c):
    kind, shapes = c["model_type"], {}

    def norm(name, width, bias=True):
        shapes[name + ".weight"] = [width]
        if bias:
            shapes[name + ".bias"] = [width]

    if kind == "gpt2":
        h = c["n_embd"]
        shapes["transformer.wte.weight"] = [c["vocab_size"], h]
        shapes["transformer.wpe.weight"] = [c["n_positions"], h]
        for layer in range(c["n_layer"]):
            at = f"transformer.h.{layer}."
            norm(at + "ln_1", h)
            norm(at + "ln_2", h)
            for name, inputs, outputs in (("attn.c_attn", h, 3 * h), ("attn.c_proj", h, h), ("mlp.c_fc", h, 4 * h),
                                          ("mlp.c_proj", 4 * h, h)):
                shapes[f"{at}{name}.weight"] = [inputs, outputs]
                shapes[f"{at}{name}.bias"] = [outputs]
        norm("transformer.ln_f", h)
    elif kind == "gpt_neox":
        h, ffn = c["hidden_size"], c["intermediate_size"]
        shapes["gpt_neox.embed_in.weight"] = [c["vocab_size"], h]
        for layer in range(c["num_hidden_layers"]):
            at = f"gpt_neox.layers.{layer}."
            norm(at + "input_layernorm", h)
            norm(at + "post_attention_layernorm", h)
            linear(shapes, at + "attention.query_key_value", 3 * h, h, c["attention_bias"])
            linear(shapes, at + "attention.dense", h, h, c["attention_bias"])
            linear(shapes, at + "mlp.dense_h_to_4h", ffn, h)
            linear(shapes, at + "mlp.dense_4h_to_h", h, ffn)
        norm("gpt_neox.final_layer_norm", h)
        shapes["embed_out.weight"] = [c["vocab_size"], h]
    elif kind == "opt":
        h, bias = c["hidden_size"], c["enable_bias"]
        shapes["model.decoder.embed_tokens.weight"] = [c["vocab_size"], h]
        shapes["model.decoder.embed_positions.weight"] = [c["max_position_embeddings"] + 2, h]
        for layer in range(c["num_hidden_layers"]):
            at = f"model.decoder.layers.{layer}."
            for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                linear(shapes, f"{at}self_attn.{name}", h, h, bias)
            norm(at + "self_attn_layer_norm", h)
            norm(at + "final_layer_norm", h)
            linear(shapes, at + "fc1", c["ffn_dim"], h, bias)
            linear(shapes, at + "fc2", h, c["ffn_dim"], bias)
        norm("model.decoder.final_layer_norm", h)
    else:
        h = c["d_model"]
        shapes["transformer.wte.weight"] = [c["vocab_size"], h]
        for layer in range(c["n_layers"]):
            at = f"transformer.blocks.{layer}."
            norm(at + "norm_1", h, False)
            norm(at + "norm_2", h, False)
            for name, rows, columns in (("attn.Wqkv", 3 * h, h), ("attn.out_proj", h, h), ("ffn.up_proj", 4 * h, h),
                                        ("ffn.down_proj", h, 4 * h)):
                shapes[f"{at}{name}.weight"] = [rows, columns]
        norm("transformer.norm_f", h, False)
    return shapes


OTHERS = ("gpt2", "gpt_neox", "opt", "mpt")


def tensors_of(c):
    return other_tensors(c) if c["model_type"] in OTHERS else llama_tensors(c)


# ---- arithmetic

def product(rows, weight, width, bias=None):
    """rows * weight^T + bias; weight is [outputs, width], row after row."""
    matrix = [weight[i:i + width] for i in range(0, len(weight), width)]
    out = [[math.fsum(x * w for x, w in zip(row, line)) for line in matrix] for row in rows]
    return out if bias is None else [[x + b for x, b in zip(row, bias)] for row in out]


def add(a, b, factor=1.0):
    return [[x + factor * y for x, y in zip(p, q)] for p, q in zip(a, b)]


def rms_norm(row, gain, epsilon, offset=0.0):
    scale = 1 / math.sqrt(math.fsum(x * x for x in row) / len(row) + epsilon)
    return [x * scale * (g + offset) for x, g in zip(row, gain)]


def layer_norm(row, gain, bias, epsilon):
    mean = math.fsum(row) / len(row)
    scale = 1 / math.sqrt(math.fsum((x - mean) ** 2 for x in row) / len(row) + epsilon)
    return [(x - mean) * scale * g + b for x, g, b in zip(row, gain, bias)]


def tanh_gelu(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


ACTIVATIONS = {
    "silu": lambda x: x / (1 + math.exp(-x)),
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "gelu_new": tanh_gelu,
    "gelu_pytorch_tanh": tanh_gelu,
}


def attention(queries, keys, values, heads, groups, size, scale, window=None, slopes=None):
    """Causal attention; row t of each is a token's heads one after another. groups: heads of keys and values."""
    out = []
    for t, query in enumerate(queries):
        row = []
        for head in range(heads):
            group = head * groups // heads
            mine = query[head * size:(head + 1) * size]
            first = 0 if window is None else max(0, t + 1 - window)
            scores = []
            for past in range(first, t + 1):
                key = keys[past][group * size:(group + 1) * size]
                score = scale * math.fsum(a * b for a, b in zip(mine, key))
                scores.append(score - (slopes[head] * (t - past) if slopes else 0.0))
            top = max(scores)
            weights = [math.exp(score - top) for score in scores]
            total = math.fsum(weights)
            for i in range(size):
                row.append(math.fsum(w * values[first + j][group * size + i] for j, w in enumerate(weights)) / total)
        out.append(row)
    return out


def rotate(rows, heads, size, turned, frequencies, magnitude=1.0):
    """Pairs are element i and i + turned / 2 of each head."""
    out = []
    for position, row in enumerate(rows):
        row = list(row)
        for head in range(heads):
            for i, frequency in enumerate(frequencies):
                cos = math.cos(position * frequency) * magnitude
                sin = math.sin(position * frequency) * magnitude
                first, second = head * size + i, head * size + i + turned // 2
                a, b = row[first], row[second]
                row[first], row[second] = a * cos - b * sin, b * cos + a * sin
        out.append(row)
    return out


def frequencies_of(theta, size, scaling=None):
    plain = [theta ** (-2 * i / size) for i in range(size // 2)]
    kind = (scaling or {}).get("rope_type", "default")
    if kind == "default":
        return plain, 1.0
    factor = scaling["factor"]
    if kind == "linear":
        return [f / factor for f in plain], 1.0
    original = scaling["original_max_position_embeddings"]
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        mixed = []
        for f in plain:
            length = 2 * math.pi / f
            smooth = (original / length - low) / (high - low)
            mixed.append(f if length < original / high else f / factor if length > original / low
                         else (1 - smooth) * f / factor + smooth * f)
        return mixed, 1.0
    assert kind == "yarn"

    def dimension(turns):
        return size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(dimension(scaling.get("beta_fast") or 32)), 0)
    high = min(math.ceil(dimension(scaling.get("beta_slow") or 1)), size - 1)
    high += 0.001 if low == high else 0
    ramp = [min(max((i - low) / (high - low), 0), 1) for i in range(size // 2)]

    def magnitude(scale):
        return 0.1 * scale * math.log(factor) + 1

    own = scaling.get("mscale"), scaling.get("mscale_all_dim")
    rule = magnitude(own[0]) / magnitude(own[1]) if all(own) else magnitude(1)
    return [f / factor * r + f * (1 - r) for f, r in zip(plain, ramp)], scaling.get("attention_factor") or rule


# ---- the families

def head_size(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def rope_of(c, layer_type):
    """(theta, scaling) of a kind of layer; OLMo 3 and Gemma 3 scale in full layers alone."""
    parameters = c.get("rope_parameters")
    if parameters and "full_attention" in parameters:
        own = parameters[layer_type]
        return own["rope_theta"], own
    if parameters:
        return parameters["rope_theta"], parameters
    theta = c["rope_theta"]
    if layer_type == SLIDING and c["model_type"] == "gemma3_text":
        return c["rope_local_base_freq"], None
    if layer_type == SLIDING and c["model_type"] == "olmo3":
        return theta, None
    return theta, c.get("rope_scaling")


def layer_types_of(c):
    layers = c["num_hidden_layers"]
    if c.get("layer_types"):
        return c["layer_types"]
    if c["model_type"] in ("qwen2", "qwen3"):
        windows = c.get("use_sliding_window") and c.get("sliding_window")
        return [SLIDING if windows and i >= c["max_window_layers"] else FULL for i in range(layers)]
    return [SLIDING if c.get("sliding_window") else FULL] * layers


def llama_logits(c, get, tokens):
    kind, hidden, size, epsilon = c["model_type"], c["hidden_size"], head_size(c), c["rms_norm_eps"]
    heads, groups = c["num_attention_heads"], c["num_key_value_heads"]
    offset = 1.0 if kind == "gemma3_text" else 0.0
    post = kind in ("olmo2", "olmo3")
    both = kind == "gemma3_text"
    activation = ACTIVATIONS[c.get("hidden_activation") or c["hidden_act"]]
    multiply = c.get("residual_multiplier", 1.0)
    scale = c.get("attention_multiplier") or 1 / math.sqrt(c.get("query_pre_attn_scalar") or size)
    table = get("model.embed_tokens.weight")
    start = c.get("embedding_multiplier", math.sqrt(hidden) if both else 1.0)
    x = [[start * v for v in table[t * hidden:(t + 1) * hidden]] for t in tokens]

    def norm(rows, name):
        gain = get(name + ".weight")
        return [rms_norm(row, gain, epsilon, offset) for row in rows]

    def apply(rows, name):
        return product(rows, get(name + ".weight"), len(rows[0]), get(name + ".bias"))

    for layer, layer_type in enumerate(layer_types_of(c)):
        at = f"model.layers.{layer}."
        y = x if post else norm(x, at + "input_layernorm")
        q, k, v = (apply(y, f"{at}self_attn.{which}_proj") for which in "qkv")
        if post:
            q, k = norm(q, at + "self_attn.q_norm"), norm(k, at + "self_attn.k_norm")
        elif kind in ("qwen3", "gemma3_text"):
            def each(rows, name):
                gain = get(name + ".weight")
                return [[e for i in range(0, len(row), size)
                         for e in rms_norm(row[i:i + size], gain, epsilon, offset)] for row in rows]
            q, k = each(q, at + "self_attn.q_norm"), each(k, at + "self_attn.k_norm")
        if kind != "smollm3" or c["no_rope_layers"][layer]:
            theta, scaling = rope_of(c, layer_type)
            frequencies, magnitude = frequencies_of(theta, size, scaling)
            q = rotate(q, heads, size, size, frequencies, magnitude)
            k = rotate(k, groups, size, size, frequencies, magnitude)
        window = c["sliding_window"] if layer_type == SLIDING else None
        y = apply(attention(q, k, v, heads, groups, size, scale, window), at + "self_attn.o_proj")
        x = add(x, norm(y, at + "post_attention_layernorm") if post or both else y, multiply)
        y = x if post else norm(x, at + ("pre_feedforward_layernorm" if both else "post_attention_layernorm"))
        gate, up = apply(y, at + "mlp.gate_proj"), apply(y, at + "mlp.up_proj")
        y = apply([[activation(g) * u for g, u in zip(p, r)] for p, r in zip(gate, up)], at + "mlp.down_proj")
        x = add(x, norm(y, at + "post_feedforward_layernorm") if post or both else y, multiply)
    x = norm(x, "model.norm")
    logits = product(x, table if c["tie_word_embeddings"] else get("lm_head.weight"), hidden)
    divisor = c.get("logits_scaling", 1.0)
    return [[value / divisor for value in row] for row in logits]


def split(rows, width):
    return tuple([row[i * width:(i + 1) * width] for row in rows] for i in range(3))


def transposed(weight, rows, columns):
    return [weight[r * columns + c] for c in range(columns) for r in range(rows)]


def other_logits(c, get, tokens):
    kind = c["model_type"]
    hidden = c.get("n_embd") or c.get("hidden_size") or c["d_model"]
    heads = c.get("n_head") or c.get("num_attention_heads") or c["n_heads"]
    layers = c.get("n_layer") or c.get("num_hidden_layers") or c["n_layers"]
    size = hidden // heads
    epsilon = c.get("layer_norm_epsilon") or c.get("layer_norm_eps") or 1e-5
    activation = ACTIVATIONS[c.get("activation_function") or c.get("hidden_act") or "gelu"]

    def norm(rows, name):
        gain, bias = get(name + ".weight"), get(name + ".bias")
        return [layer_norm(row, gain, bias or [0.0] * len(row), epsilon) for row in rows]

    def apply(rows, name):
        weight = get(name + ".weight")
        width = len(rows[0])
        weight = transposed(weight, width, len(weight) // width) if kind == "gpt2" else weight
        return product(rows, weight, width, get(name + ".bias"))

    names = {"gpt2": ("transformer.wte", "transformer.h.{}.", "ln_1", "ln_2", "attn.c_proj", "mlp.c_fc",
                      "mlp.c_proj", "transformer.ln_f"),
             "gpt_neox": ("gpt_neox.embed_in", "gpt_neox.layers.{}.", "input_layernorm", "post_attention_layernorm",
                          "attention.dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", "gpt_neox.final_layer_norm"),
             "opt": ("model.decoder.embed_tokens", "model.decoder.layers.{}.", "self_attn_layer_norm",
                     "final_layer_norm", "self_attn.out_proj", "fc1", "fc2", "model.decoder.final_layer_norm"),
             "mpt": ("transformer.wte", "transformer.blocks.{}.", "norm_1", "norm_2", "attn.out_proj", "ffn.up_proj",
                     "ffn.down_proj", "transformer.norm_f")}[kind]
    embedding, block, norm1, norm2, dense, wide, narrow, last = names
    table = get(embedding + ".weight")
    x = [table[t * hidden:(t + 1) * hidden] for t in tokens]
    if kind in ("gpt2", "opt"):
        positions = get("transformer.wpe.weight" if kind == "gpt2" else "model.decoder.embed_positions.weight")
        first = 2 if kind == "opt" else 0
        x = [[a + b for a, b in zip(row, positions[(t + first) * hidden:(t + first + 1) * hidden])]
             for t, row in enumerate(x)]
    power = 1 << (heads - 1).bit_length()
    slopes = [2.0 ** (-8 * (head + 1) / power) for head in range(power)] if kind == "mpt" else None
    if slopes and power != heads:
        slopes = (slopes[1::2] + slopes[::2])[:heads]
    for layer in range(layers):
        at = block.format(layer)
        y = norm(x, at + norm1)
        scale = 1 / math.sqrt(size)
        if kind == "gpt2":
            q, k, v = split(apply(y, at + "attn.c_attn"), hidden)
            scale = scale if c.get("scale_attn_weights", True) else 1.0
            scale /= layer + 1 if c.get("scale_attn_by_inverse_layer_idx") else 1
        elif kind == "opt":
            q, k, v = (apply(y, f"{at}self_attn.{which}_proj") for which in "qkv")
        elif kind == "mpt":
            q, k, v = split(apply(y, at + "attn.Wqkv"), hidden)
            scale = c["attn_config"].get("softmax_scale") or scale
        else:
            rows = apply(y, at + "attention.query_key_value")  # [head][query, key, value][size]
            q, k, v = ([[e for head in range(heads) for e in row[(3 * head + i) * size:(3 * head + i + 1) * size]]
                        for row in rows] for i in range(3))
            parameters = c.get("rope_parameters") or {}
            turned = int(size * (parameters.get("partial_rotary_factor") or c.get("rotary_pct", 0.25)))
            theta = parameters.get("rope_theta") or c.get("rotary_emb_base")
            frequencies, _ = frequencies_of(theta, turned)
            q, k = rotate(q, heads, size, turned, frequencies), rotate(k, heads, size, turned, frequencies)
        y = apply(attention(q, k, v, heads, heads, size, scale, None, slopes), at + dense)
        parallel = kind == "gpt_neox" and c.get("use_parallel_residual", True)
        middle = add(x, y)
        y = apply(norm(x if parallel else middle, at + norm2), at + wide)
        x = add(middle, apply([[activation(v) for v in row] for row in y], at + narrow))
    output = table if c.get("tie_word_embeddings", kind != "gpt_neox") else get("embed_out.weight")
    return product(norm(x, last), output, hidden)


def logits_of(c, values, tokens):
    formula = other_logits if c["model_type"] in OTHERS else llama_logits
    return formula(c, values.get, tokens)


# ---- fixtures

def safetensors(shapes, values):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name in sorted(shapes):
        raw = struct.pack(f"<{len(values[name])}f", *values[name])
        header[name] = dict(dtype="F32", shape=shapes[name], data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def make(c):
    kind = c["model_type"]
    shapes = tensors_of(c)
    values = {name: values_of(kind, name, shape) for name, shape in shapes.items()}
    tokens = [number(kind, i) % VOCABULARY for i in range(TOKENS)]
    logits = logits_of(c, values, tokens)
    greedy = list(tokens)
    for _ in range(GREEDY):
        row = logits_of(c, values, greedy)[-1]
        greedy.append(row.index(max(row)))
    return dict(config=json.dumps(c, indent=2, sort_keys=True) + "\n", crc32=zlib.crc32(safetensors(shapes, values)),
                tensors=dict(sorted(shapes.items())), tokens=tokens, greedy=greedy[TOKENS:],
                logits=[[float(f"{one:.7g}") for one in row] for row in logits])


KNOWN = ("gpt2", "gpt_neox", "opt", "mpt", "llama", "mistral", "qwen2", "qwen3", "olmo2", "olmo3", "smollm3",
         "granite", "gemma3_text")


def check(path):
    with open(path) as file:
        models = json.load(file)["models"]
    failed = 0
    for name, one in models.items():
        c = json.loads(one["config"])
        if c["model_type"] not in KNOWN:
            continue
        values = {tensor: values_of(c["model_type"], tensor, shape) for tensor, shape in one["tensors"].items()}
        found = logits_of(c, values, one["tokens"])
        worst = max(abs(a - b) for p, q in zip(found, one["logits"]) for a, b in zip(p, q))
        failed += worst > 2e-5
        print(f"{name}: {worst:.1e}")
    return failed


def main():
    if sys.argv[1] == "--check":
        return 1 if sum(check(path) for path in sys.argv[2:]) else 0
    models = {name: make(c) for name, c in MODELS.items()}
    with open(sys.argv[1], "w") as file:
        file.write('{"made_by": "make_formulas.py",\n"models": {\n' + ",\n".join(
            f"{json.dumps(name)}: {json.dumps(one)}" for name, one in models.items()) + "}}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
