#!/usr/bin/env python3
"""Writes the golden folders of Llama's relatives with PyTorch in float64.

    test/golden/reference.py [NAME ...]

An implementation of its own: it shares nothing with Cleave but the names of tensors. What a
folder holds and the recipe are those of README.md; tokens are those of t0. Needs torch (any
version; `apt-get install python3-torch`), which no test does.
"""
import json, math, os, shutil, struct, sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, BATCH, LENGTH = 20, 8, 32
BASE = {"bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 48,
        "initializer_range": 0.02, "intermediate_size": 80, "max_position_embeddings": 128,
        "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "torch_dtype": "float32", "use_cache": True,
        "vocab_size": 256}
MODELS = {
    "qwen2-mini": {**BASE, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
                   "attention_dropout": 0.0, "max_window_layers": 3, "sliding_window": 64,
                   "use_sliding_window": False, "tie_word_embeddings": False},
    "qwen3-mini": {**BASE, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
                   "attention_bias": False, "head_dim": 16, "rope_scaling": None,
                   "sliding_window": None, "use_sliding_window": False,
                   "tie_word_embeddings": True},
    "mistral-mini": {**BASE, "architectures": ["MistralForCausalLM"], "model_type": "mistral",
                     "sliding_window": 32, "tie_word_embeddings": False},
}


def shapes(c):
    """Name and shape of every trained tensor."""
    width, heads, kv = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
    head = c.get("head_dim") or width // heads
    out = {"model.embed_tokens.weight": (c["vocab_size"], width)}
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        out[layer + "input_layernorm.weight"] = (width,)
        for name, count in (("q", heads), ("k", kv), ("v", kv)):
            out[f"{layer}self_attn.{name}_proj.weight"] = (count * head, width)
            if c["model_type"] == "qwen2":
                out[f"{layer}self_attn.{name}_proj.bias"] = (count * head,)
        out[layer + "self_attn.o_proj.weight"] = (width, heads * head)
        if c["model_type"] == "qwen3":
            out[layer + "self_attn.q_norm.weight"] = (head,)
            out[layer + "self_attn.k_norm.weight"] = (head,)
        out[layer + "post_attention_layernorm.weight"] = (width,)
        for name in ("gate", "up"):
            out[f"{layer}mlp.{name}_proj.weight"] = (c["intermediate_size"], width)
        out[layer + "mlp.down_proj.weight"] = (width, c["intermediate_size"])
    out["model.norm.weight"] = (width,)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = (c["vocab_size"], width)
    return out


def initial(c, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in shapes(c).items():
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name.endswith("norm.weight"):
            weights[name] = 1 + 0.1 * noise
        else:
            weights[name] = (0.1 if name.endswith("bias") else 0.12) * noise
        # Files hold float32.
        weights[name] = weights[name].float().double()
    return weights


def rms(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def rotate(x, theta):
    """Pairs (i, i + D/2) of [batch, sequence, heads, D] by position times theta^(-2i/D)."""
    half = x.shape[-1] // 2
    inverse = theta ** (-torch.arange(half, dtype=x.dtype) / half)
    angle = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * inverse
    cos, sin = angle.cos()[None, :, None], angle.sin()[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def forward(c, w, tokens):
    """Logits, and the norm of the residual stream before each block and at the end."""
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    eps, (b, s) = c["rms_norm_eps"], tokens.shape
    reach = c["sliding_window"] if c["model_type"] == "mistral" else None
    distance = torch.arange(s)[:, None] - torch.arange(s)
    allowed = (distance >= 0) & (distance < (reach or s))
    x = w["model.embed_tokens.weight"][tokens]
    norms = [x.norm().item()]
    for i in range(c["num_hidden_layers"]):
        def at(name):
            return w.get(f"model.layers.{i}.{name}")

        def linear(name, h):
            bias = at(name + ".bias")
            return h @ at(name + ".weight").T + (bias if bias is not None else 0)

        h = rms(x, at("input_layernorm.weight"), eps)
        q, k, v = (linear(f"self_attn.{n}_proj", h).view(b, s, count, -1)
                   for n, count in (("q", heads), ("k", kv), ("v", kv)))
        if at("self_attn.q_norm.weight") is not None:
            q = rms(q, at("self_attn.q_norm.weight"), eps)
            k = rms(k, at("self_attn.k_norm.weight"), eps)
        q, k = rotate(q, c["rope_theta"]), rotate(k, c["rope_theta"])
        k, v = (t.repeat_interleave(heads // kv, 2) for t in (k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~allowed, -math.inf).softmax(-1)
        x = x + linear("self_attn.o_proj",
                       torch.einsum("bhqk,bkhd->bqhd", scores, v).reshape(b, s, -1))
        h = rms(x, at("post_attention_layernorm.weight"), eps)
        gate = linear("mlp.gate_proj", h)
        x = x + linear("mlp.down_proj", gate * torch.sigmoid(gate) * linear("mlp.up_proj", h))
        norms.append(x.norm().item())
    head = w.get("lm_head.weight", w["model.embed_tokens.weight"])
    return rms(x, w["model.norm.weight"], eps) @ head.T, norms


def train(c, start, tokens, dtype):
    w = {name: value.to(dtype).clone().requires_grad_() for name, value in start.items()}
    m, v = ({name: torch.zeros_like(value) for name, value in w.items()} for _ in range(2))
    rows, step0 = [], None
    for step in range(STEPS):
        pieces = torch.stack([tokens[LENGTH * i:LENGTH * i + LENGTH + 1]
                              for i in range(BATCH * step, BATCH * step + BATCH)])
        logits, norms = forward(c, w, pieces[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]),
                                                 pieces[:, 1:].reshape(-1))
        gradients = dict(zip(w, torch.autograd.grad(loss, list(w.values()))))
        norm = math.sqrt(sum((g.double() ** 2).sum().item() for g in gradients.values()))
        if step0 is None:
            step0 = {"logits_first_sequence_last_position": logits[0, -1].tolist(),
                     "grad_norms": {n: g.norm().item() for n, g in gradients.items()},
                     "residual_norms": norms, "expert_counts": {}}
        rows.append((loss.item(), norm))
        scale, t = min(1.0, 1.0 / (norm + 1e-6)), step + 1
        with torch.no_grad():
            for name, value in w.items():
                g = gradients[name] * scale
                m[name].mul_(0.9).add_(g, alpha=0.1)
                v[name].mul_(0.95).addcmul_(g, g, value=0.05)
                value.mul_(1 - 1e-3 * (0.1 if value.dim() >= 2 else 0.0))
                value.sub_(1e-3 * (m[name] / (1 - 0.9 ** t)) /
                           ((v[name] / (1 - 0.95 ** t)).sqrt() + 1e-8))
    return rows, step0, w


def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, value in tensors.items():
        size = 4 * value.numel()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            file.write(struct.pack(f"<{value.numel()}f", *value.detach().reshape(-1).tolist()))


def write(name, seed):
    c, folder = MODELS[name], os.path.join(HERE, name)
    os.makedirs(folder, exist_ok=True)
    shutil.copy(os.path.join(HERE, "t0", "tokens.bin"), folder)
    raw = open(os.path.join(folder, "tokens.bin"), "rb").read()
    tokens = torch.tensor(struct.unpack(f"<{len(raw) // 2}H", raw), dtype=torch.int64)
    start = initial(c, seed)
    rows, step0, final = train(c, start, tokens, torch.float64)
    single, _, final32 = train(c, start, tokens, torch.float32)
    json.dump(c, open(os.path.join(folder, "config.json"), "w"), indent=2, sort_keys=True)
    write_safetensors(os.path.join(folder, "model.safetensors"), start)
    write_safetensors(os.path.join(folder, "model_final.safetensors"), final)
    json.dump({
        "name": name, "model_type": c["model_type"], "seed": seed,
        "parameters": sum(v.numel() for v in start.values()),
        "tensors": {n: list(v.shape) for n, v in start.items()},
        "weight_decay_tensors": [n for n, v in start.items() if v.dim() >= 2],
        "fixed_tensors": [], "null_gradient": {}, "step0": step0,
        "steps": [{"step": i, "loss": a[0], "grad_norm": a[1], "loss_f32": b[0],
                   "grad_norm_f32": b[1]} for i, (a, b) in enumerate(zip(rows, single))],
    }, open(os.path.join(folder, "expected.json"), "w"), indent=1)
    apart = max(abs(a[0] - b[0]) for a, b in zip(rows, single))
    turn = max(abs(a[1] / b[1] - 1) for a, b in zip(rows, single))
    squares = sum(((final[n] - final32[n].double()) ** 2).sum().item() for n in final)
    count = sum(v.numel() for v in final.values())
    print(f"{name}: loss {rows[0][0]:.4f} → {rows[-1][0]:.4f}; float32 departs by {apart:.1e} in "
          f"loss, {turn:.1e} in norm, rms {math.sqrt(squares / count):.1e} in weights")


for name in sys.argv[1:] or MODELS:
    write(name, 100 + list(MODELS).index(name))
