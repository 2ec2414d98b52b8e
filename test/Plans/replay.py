#!/usr/bin/env python3
"""Plans a zoo of models on clusters again and compares with the plans kept in golden.json.

    replay.py CLEAVE [--update] [NAME…]

A change of code that should change nothing changes no line. One that is meant to is written with
--update, and its commit says what became better and by how much.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "golden.json")


def llama(layers, hidden, heads, key_heads, ffn, vocabulary):
    return {"model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": key_heads,
            "intermediate_size": ffn, "vocab_size": vocabulary,
            "max_position_embeddings": 131072, "tie_word_embeddings": False}


MODELS = {
    "t0": {**llama(4, 64, 4, 2, 128, 256), "head_dim": 16},
    "tinyllama": llama(22, 2048, 32, 4, 5632, 32000),
    "llama-2-7b": llama(32, 4096, 32, 32, 11008, 32000),
    "llama-3.1-8b": llama(32, 4096, 32, 8, 14336, 128256),
    "llama-3.1-70b": llama(80, 8192, 64, 8, 28672, 128256),
    "llama-3.1-405b": llama(126, 16384, 128, 8, 53248, 128256),
    "gpt3-175b": {"model_type": "gpt2", "hidden_size": 12288, "num_hidden_layers": 96,
                  "num_attention_heads": 96, "vocab_size": 51200,
                  "max_position_embeddings": 2048},
    "gpt2-124m": {"model_type": "gpt2", "hidden_size": 768, "num_hidden_layers": 12,
                  "num_attention_heads": 12, "vocab_size": 50257,
                  "max_position_embeddings": 1024},
    "mixtral-8x7b": {**llama(32, 4096, 32, 8, 14336, 32000), "model_type": "mixtral",
                     "num_local_experts": 8, "num_experts_per_tok": 2},
    "qwen3-30b-a3b": {"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
                      "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
                      "intermediate_size": 6144, "vocab_size": 151936, "num_experts": 128,
                      "num_experts_per_tok": 8, "moe_intermediate_size": 768,
                      "max_position_embeddings": 40960, "tie_word_embeddings": False},
}

# Model, cluster, sequence length, global batch.
ZOO = [
    ("t0", "dgx-h100:1", 32, 16),
    ("gpt2-124m", "dgx-a100:1", 1024, 512),
    ("tinyllama", "dgx-a100:2", 2048, 1024),
    ("llama-2-7b", "dgx-a100:1", 2048, 64),
    ("llama-2-7b", "dgx-h100:8", 4096, 1024),
    ("llama-3.1-8b", "dgx-h100:1", 8192, 128),
    ("llama-3.1-8b", "dgx-b200:4", 131072, 32),
    ("llama-3.1-70b", "dgx-h100:16", 8192, 512),
    ("llama-3.1-70b", "gb200-nvl72:2", 8192, 1152),
    ("llama-3.1-70b", "dgx-h100:6", 8192, 480),
    ("llama-3.1-405b", "dgx-h100:128", 8192, 1024),
    ("gpt3-175b", "dgx-a100:128", 2048, 1536),
    ("mixtral-8x7b", "dgx-h100:8", 4096, 1024),
    ("qwen3-30b-a3b", "dgx-h200:4", 4096, 1024),
]


def planned(cleave, folder, model, cluster, length, batch):
    config = os.path.join(folder, "config.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump(MODELS[model], file)
    done = subprocess.run([cleave, "plan", config, "--cluster", cluster, "--seq-len", str(length),
                           "--global-batch", str(batch), "--top", "1", "--json"],
                          stdout=subprocess.PIPE, text=True, timeout=300)
    found = json.loads(done.stdout)
    if "error" in found:
        return {"error": found["error"]["kind"]}
    plan = found["plan"]
    return {"pins": plan["pins"], "stages": plan["stages"], "step": float(f"{plan['step']:.4g}"),
            "memory": float(f"{plan['memory']:.4g}")}


def main():
    words = [word for word in sys.argv[2:] if word != "--update"]
    update = "--update" in sys.argv
    golden = {}
    if os.path.exists(GOLDEN):
        with open(GOLDEN, encoding="utf-8") as file:
            golden = json.load(file)
    known, bad = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for model, cluster, length, batch in ZOO:
            name = f"{model} on {cluster}, {batch} × {length}"
            if words and not any(word in name for word in words):
                continue
            now = known[name] = planned(sys.argv[1], folder, model, cluster, length, batch)
            if golden.get(name) != now:
                bad.append(f"{name}:\n  was {golden.get(name)}\n  now {now}")
    if update:
        with open(GOLDEN, "w", encoding="utf-8") as file:
            lines = [f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(plan)}"
                     for name, plan in {**golden, **known}.items()]
            file.write("{\n" + ",\n".join(lines) + "\n}\n")
        return
    if not words:
        bad += [f"{name} is planned by nobody" for name in golden if name not in known]
    print("\n".join(bad) or f"{len(known)} plans as before")
    sys.exit(1 if bad else 0)


main()
