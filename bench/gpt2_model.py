"""GPT-2 124M as benchmarks train it."""

CONFIG = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257,
    "n_positions": 1024, "n_ctx": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "initializer_range": 0.02,
    "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
}
SEQUENCE = 64
