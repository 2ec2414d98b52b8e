"""Case D11: the loss of unbalanced experts in numbers known beforehand, and its gradient."""
import array
import os

import harness
from harness import recipe

WIDTH, WORDS = 16, 4


def one_token_one_expert(router):
    """Weights under which a token's stream is its own unit vector, and `router` what experts see.

    Attention and experts add nothing, so what the norm makes of the stream is 4 times that
    vector (the square root of the width).
    """
    def matrix(rows, columns, values=()):
        whole = array.array("f", [0]) * (rows * columns)
        for row, column, value in values:
            whole[row * columns + column] = value
        return [rows, columns], whole

    ones = array.array("f", [1]) * WIDTH
    layer = "model.layers.0."
    tensors = {"model.embed_tokens.weight": matrix(WORDS, WIDTH, [(i, i, 1) for i in range(WORDS)]),
               "lm_head.weight": matrix(WORDS, WIDTH), "model.norm.weight": ([WIDTH], ones),
               layer + "input_layernorm.weight": ([WIDTH], ones),
               layer + "post_attention_layernorm.weight": ([WIDTH], ones),
               layer + "block_sparse_moe.gate.weight": matrix(4, WIDTH, router)}
    for name in "qkvo":
        tensors[f"{layer}self_attn.{name}_proj.weight"] = matrix(WIDTH, WIDTH)
    for expert in range(4):
        for name, shape in (("w1", (8, WIDTH)), ("w2", (WIDTH, 8)), ("w3", (8, WIDTH))):
            tensors[f"{layer}block_sparse_moe.experts.{expert}.{name}.weight"] = matrix(*shape)
    return tensors


MODEL = {"model_type": "mixtral", "hidden_size": WIDTH, "intermediate_size": 8,
         "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
         "head_dim": 4, "vocab_size": WORDS, "max_position_embeddings": 64, "rms_norm_eps": 1e-12,
         "rope_theta": 10000.0, "tie_word_embeddings": False, "hidden_act": "silu",
         "initializer_range": 0.1, "num_local_experts": 4, "num_experts_per_tok": 1,
         "output_router_logits": True, "router_aux_loss_coef": 0.01}


class Balance(harness.Case):
    def extra(self, router, layout):
        """What one step adds to the loss, in coefficients."""
        ranks, _, pins = layout.partition(":")
        weights = harness.write_safetensors(self.fresh("weights"), one_token_one_expert(router))
        binary = self.compiled(MODEL, ranks, pins, recipe(sequence_length=8, global_batch=4))
        rows, _ = self.train(binary, self.tokens([0, 1, 2, 3] * 20), 1, "--init", weights)
        return (rows[0]["objective"] - rows[0]["loss"]) / 0.01

    def test_d11_closed_forms(self):
        certain = 50.0
        balanced = [(i, i, certain) for i in range(4)]
        # Every token prefers expert 0, or none, and then the first is taken.
        first = [(0, i, certain) for i in range(4)]
        for layout in ("1", "2:dp=2", "2:tp=2", "2:dp=2,ep=2", "2:cp=2", "4:dp=4,ep=4", "1:micro_batch=1",
                       "2:pp=2,micro_batch=2"):
            with self.subTest(layout=layout):
                self.assertAlmostEqual(self.extra(balanced, layout), 1, delta=2e-4)
                self.assertAlmostEqual(self.extra(first, layout), 4, delta=2e-4)
                self.assertAlmostEqual(self.extra([], layout), 1, delta=2e-4)

    def test_d11_gradient_of_the_router(self):
        """Element by element, under every way to lay a step out."""
        def routers(layout):
            folder = self.fresh("checkpoint")
            self.golden_run("t0-moe-aux", 1, "--checkpoint", folder, layout=layout,
                            recipe_values=recipe(clip_norm=0))
            saved = harness.read_checkpoint(os.path.join(folder, "step-1"))
            found = {name: tensor for (kind, name), tensor in saved.items()
                     if kind == "moment1" and name.endswith("gate.weight")}
            self.assertEqual(len(found), 4)
            return found
        want = routers("1")
        for layout in ("2:dp=2", "2:tp=2", "2:dp=2,ep=2", "2:cp=2", "4:dp=2,tp=2,ep=4,sp=1",
                       "2:dp=2,zero=3", "1:micro_batch=4", "2:pp=2", "2:pp=2,micro_batch=2,schedule=zb-h1",
                       "2:cp=2,ep=2,micro_batch=2"):
            for name, tensor in routers(layout).items():
                # A moment is a tenth of the gradient.
                self.assertNear(tensor, want[name], 1e-7, f"{layout} {name}")


if __name__ == "__main__":
    harness.main()
