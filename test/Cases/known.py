"""A model whose gradients can be told beforehand, for cases about what becomes of them.

Attention and MLP are zero and stay so: the head reads the embedding of a token, normalised. The
logit of word 7 is so far above all others that its probability is 1. Then a target other than 7
gives the rows of both words in the head what the head reads as gradient, positive and negative,
and a target of 7 gives nothing.
"""
import array

WIDTH, WORDS = 16, 8
MODEL = {"model_type": "llama", "hidden_size": WIDTH, "intermediate_size": 8,
         "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8,
         "vocab_size": WORDS, "max_position_embeddings": 8, "rms_norm_eps": 1e-20,
         "rope_theta": 10000.0, "tie_word_embeddings": False, "hidden_act": "silu",
         "initializer_range": 0.1}


def weights(embedding, norm, head):
    """Tensors for a file of initial weights: `embedding` and `head` are functions of row and column,
    `norm` is each weight of the last norm."""
    def matrix(rows, columns, value=lambda i, j: 0):
        return [rows, columns], array.array("f", (value(i, j) for i in range(rows)
                                                  for j in range(columns)))
    ones = ([WIDTH], array.array("f", [1]) * WIDTH)
    layer = "model.layers.0."
    tensors = {"model.embed_tokens.weight": matrix(WORDS, WIDTH, embedding),
               "lm_head.weight": matrix(WORDS, WIDTH, head),
               "model.norm.weight": ([WIDTH], array.array("f", [norm]) * WIDTH),
               layer + "input_layernorm.weight": ones,
               layer + "post_attention_layernorm.weight": ones}
    for name in "qkvo":
        tensors[f"{layer}self_attn.{name}_proj.weight"] = matrix(WIDTH, WIDTH)
    for name, shape in (("gate", (8, WIDTH)), ("up", (8, WIDTH)), ("down", (WIDTH, 8))):
        tensors[f"{layer}mlp.{name}_proj.weight"] = matrix(*shape)
    return tensors
