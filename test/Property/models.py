"""Random small models: a config.json of any family that can be trained.

Sizes are odd where a family allows it, and small enough that a step takes no time.
"""


def sizes(random):
    """What all families have, under Llama's names."""
    key_heads = random.choice((1, 1, 2, 2, 3, 4))
    group = random.choice((1, 1, 2, 3)) if key_heads < 4 else random.choice((1, 2))
    config = {
        "hidden_size": random.randint(3, 17), "num_hidden_layers": random.choice((1, 2, 2, 3, 3, 4, 5)),
        "num_attention_heads": key_heads * group, "num_key_value_heads": key_heads,
        "head_dim": random.choice((2, 4, 4, 6)), "intermediate_size": random.randint(3, 19),
        "vocab_size": random.randint(5, 37), "max_position_embeddings": random.randint(4, 13),
        "initializer_range": 0.3}
    if random.random() < 0.08:
        config[random.choice(("hidden_size", "intermediate_size", "num_hidden_layers",
                              "max_position_embeddings"))] = 1
    if random.random() < 0.05:
        config["vocab_size"] = 2
    if random.random() < 0.03:
        # In a narrow one rounding would grow beyond any tolerance.
        config["num_hidden_layers"], config["hidden_size"] = 64, 17
    return config


def coin(random, chance=0.5):
    return random.random() < chance


def tied(random):
    return {"tie_word_embeddings": coin(random)}


def rope(random):
    """A base and a scaling."""
    keys = {"rope_theta": random.choice((100.0, 10000.0))}
    scaling = random.choice((
        None, None, {"rope_type": "linear", "factor": 2.0},
        {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}))
    if scaling:
        keys["rope_scaling"] = scaling
    return keys


def window(random):
    return random.choice((1, 2, 3, 5, 8))


def without_head_dim(config):
    """Heads that share the width."""
    config["hidden_size"] = config["num_attention_heads"] * config.pop("head_dim")
    return config


def llama(random, config):
    return {**config, **rope(random), **tied(random), "attention_bias": coin(random),
            "mlp_bias": coin(random, 0.3)}


def mistral(random, config):
    return {**config, **rope(random), **tied(random),
            "sliding_window": window(random) if coin(random) else None}


def qwen2(random, config):
    return {**config, **rope(random), **tied(random), **sliding_qwen(random, config)}


def sliding_qwen(random, config):
    if coin(random):
        return {}
    return {"use_sliding_window": True, "sliding_window": window(random),
            "max_window_layers": random.randint(0, config["num_hidden_layers"])}


def qwen3(random, config):
    return {**config, **rope(random), **tied(random), "attention_bias": coin(random),
            **sliding_qwen(random, config)}


def olmo2(random, config):
    return {**config, **rope(random), **tied(random), "attention_bias": coin(random)}


def gemma(random, config):
    return {**config, "rope_theta": 1000.0, **tied(random)}


def gemma2(random, config):
    caps = {key: random.choice((0.5, 2.0, None))
            for key in ("attn_logit_softcapping", "final_logit_softcapping")}
    return {**config, **tied(random), **caps, "sliding_window": window(random),
            "query_pre_attn_scalar": random.choice((4, 7))}


def gemma3_text(random, config):
    return {**config, **tied(random), "sliding_window": window(random),
            "sliding_window_pattern": random.randint(1, 3), "query_pre_attn_scalar": 5,
            "rope_local_base_freq": 50.0}


def phi3(random, config):
    config["num_key_value_heads"] = config["num_attention_heads"]
    return {**config, "rope_theta": 1000.0, **tied(random), "partial_rotary_factor": 1.0,
            "sliding_window": window(random) if coin(random) else None}


def phi(random, config):
    config["head_dim"] = 4
    return {**without_head_dim(config), "partial_rotary_factor": random.choice((0.5, 1.0)),
            **tied(random)}


def gpt_neox(random, config):
    config["head_dim"] = random.choice((4, 8))
    config.pop("num_key_value_heads")
    return {**without_head_dim(config), "rotary_pct": random.choice((0.5, 1.0)), **tied(random),
            "use_parallel_residual": coin(random), "attention_bias": coin(random)}


def falcon(random, config):
    config.pop("num_key_value_heads")
    config["ffn_hidden_size"] = config.pop("intermediate_size")
    return {**without_head_dim(config), "multi_query": False, "bias": coin(random),
            "parallel_attn": coin(random), "alibi": False, **tied(random)}


def gpt2(random, config):
    heads = config["num_attention_heads"]
    return {"n_embd": heads * random.randint(1, 5), "n_head": heads,
            "n_layer": config["num_hidden_layers"], "n_positions": config["max_position_embeddings"],
            "n_inner": config["intermediate_size"], "vocab_size": config["vocab_size"],
            "initializer_range": 0.3, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
            "scale_attn_weights": coin(random, 0.7), **tied(random)}


def experts(random, number, active):
    """Some experts of few, by the keys of a family."""
    count = random.choice((2, 3, 4, 4, 6, 8))
    return {number: count, active: random.randint(1, min(count, 3))}


def balanced(random):
    on = coin(random, 0.25)
    return {"output_router_logits": on, "router_aux_loss_coef": 0.7 if on else 0.0}


def mixtral(random, config):
    return {**config, **rope(random), **tied(random), **balanced(random),
            **experts(random, "num_local_experts", "num_experts_per_tok"),
            "sliding_window": window(random) if coin(random, 0.3) else None}


def sparse_layers(random, config):
    layers = config["num_hidden_layers"]
    return {"decoder_sparse_step": random.choice((1, 1, 2)),
            "mlp_only_layers": [random.randrange(layers)] if coin(random, 0.3) else []}


def qwen2_moe(random, config):
    return {**config, **rope(random), **tied(random), **balanced(random),
            **experts(random, "num_experts", "num_experts_per_tok"), **sparse_layers(random, config),
            "moe_intermediate_size": random.randint(2, 9), "norm_topk_prob": coin(random),
            "shared_expert_intermediate_size": random.randint(2, 9)}


def qwen3_moe(random, config):
    return {**config, **rope(random), **tied(random), **balanced(random),
            **experts(random, "num_experts", "num_experts_per_tok"), **sparse_layers(random, config),
            "moe_intermediate_size": random.randint(2, 9), "norm_topk_prob": coin(random)}


def gpt_oss(random, config):
    return {**config, **rope(random), **tied(random), **balanced(random),
            **experts(random, "num_local_experts", "num_experts_per_tok"),
            "sliding_window": window(random), "attention_bias": coin(random),
            "swiglu_limit": random.choice((0.5, 7.0))}


def deepseek(random, config):
    """What V2 and V3 share."""
    for key in ("num_key_value_heads", "head_dim"):
        config.pop(key)
    return {**config, **rope(random), **tied(random), "attention_bias": coin(random),
            "q_lora_rank": random.choice((None, 3, 8)), "kv_lora_rank": random.randint(2, 7),
            "qk_nope_head_dim": random.randint(1, 5), "qk_rope_head_dim": random.choice((2, 4)),
            "v_head_dim": random.randint(2, 7), "moe_intermediate_size": random.randint(2, 9),
            "first_k_dense_replace": random.randint(0, min(config["num_hidden_layers"], 2)),
            "n_shared_experts": random.choice((None, 1, 2)), "routed_scaling_factor": 1.5}


def deepseek_v2(random, config):
    groups, each = random.choice((1, 2, 3)), random.choice((2, 3))
    method = random.choice(("greedy", "group_limited_greedy"))
    return {**deepseek(random, config), "n_routed_experts": groups * each, "n_group": groups,
            "topk_group": random.randint(1, groups), "topk_method": method,
            "num_experts_per_tok": random.randint(1, each), "scoring_func": "softmax"}


def deepseek_v3(random, config):
    groups, each = random.choice((1, 2, 3)), random.choice((2, 3))
    return {**deepseek(random, config), "n_routed_experts": groups * each, "n_group": groups,
            "topk_group": random.randint(1, groups), "topk_method": "noaux_tc",
            "num_experts_per_tok": random.randint(1, each), "scoring_func": "sigmoid",
            "rope_interleave": coin(random), "norm_topk_prob": coin(random)}


FAMILIES = (llama, llama, mistral, qwen2, qwen3, olmo2, gemma, gemma2, gemma3_text, phi3, phi,
            gpt_neox, falcon, gpt2, gpt2, mixtral, mixtral, qwen2_moe, qwen3_moe, gpt_oss,
            deepseek_v2, deepseek_v3)


def model(random):
    family = random.choice(FAMILIES)
    return {"model_type": family.__name__, **family(random, sizes(random))}


# What a layout must know, under whatever name a family has it.

def first(config, *names):
    return next((config[name] for name in names if config.get(name) is not None), None)


def heads(config):
    """Key heads, and queries of each."""
    queries = first(config, "num_attention_heads", "n_head")
    keys = first(config, "num_key_value_heads") or queries
    return keys, queries // keys


def layers(config):
    return first(config, "num_hidden_layers", "n_layer")


def positions(config):
    return first(config, "max_position_embeddings", "n_positions")


def expert_count(config):
    return first(config, "num_local_experts", "num_experts", "n_routed_experts") or 0


def is_balanced(config):
    return bool(config.get("output_router_logits"))
