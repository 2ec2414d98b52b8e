"""Sizes that nothing divides, compiled and run: every layout starts as one rank does."""
import harness
from harness import llama, random_ids


class OddSizes(harness.Case):
    def check(self, model, layouts, sequence=33, batch=3, micro=None, steps=2):
        vocabulary = model["vocab_size"]
        data = self.tokens(random_ids(vocabulary, steps * batch * sequence + 1))
        values = harness.recipe(sequence_length=sequence, global_batch=batch, micro_batch=micro,
                                clip_norm=0.5)
        want, _ = self.train(self.compiled(model, 1, None, values), data, steps)
        for layout in layouts:
            with self.subTest(layout=layout):
                ranks, _, pins = layout.partition(":")
                got, _ = self.train(self.compiled(model, ranks, pins, values), data, steps)
                self.assertSteps(got, want, loss=1e-5, norm=1e-5)

    def test_width_24_ffn_51_vocab_97(self):
        self.check(llama(), ["3:dp=3,micro_batch=1", "2:tp=2", "4:tp=4,sp=1", "2:tp=2,vocab=0"])

    def test_width_40_ffn_17_vocab_5(self):
        self.check(llama(hidden_size=40, intermediate_size=17, head_dim=10, vocab_size=5),
                   ["4:tp=4", "4:dp=2,tp=2,sp=1"], batch=4)

    def test_three_heads(self):
        self.check(llama(num_attention_heads=3, num_key_value_heads=3, head_dim=8),
                   ["3:tp=3,sp=1"])

    def test_three_query_heads_of_one_key_head(self):
        self.check(llama(num_attention_heads=3, num_key_value_heads=1, head_dim=10),
                   ["3:tp=3", "3:tp=3,sp=1,vocab=0"])

    def test_one_token(self):
        self.check(llama(), ["2:tp=2,sp=1", "3:dp=3", "4:tp=4"], sequence=1)

    def test_seven_tokens(self):
        self.check(llama(), ["2:tp=2", "4:tp=4,sp=1"], sequence=7)

    def test_fewer_columns_than_ranks(self):
        self.check(llama(intermediate_size=1, vocab_size=2), ["4:tp=4"])

    def test_tied_biased(self):
        self.check(llama(tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
                         num_hidden_layers=2), ["4:tp=4", "4:dp=2,tp=2,sp=1"], batch=6)

    def test_gpt2(self):
        self.check({"model_type": "gpt2", "n_embd": 30, "n_head": 3, "n_layer": 2, "n_positions": 40,
                    "n_inner": 51, "vocab_size": 97, "activation_function": "gelu_new",
                    "layer_norm_epsilon": 1e-5, "initializer_range": 0.1, "resid_pdrop": 0,
                    "embd_pdrop": 0, "attn_pdrop": 0},
                   ["3:tp=3,sp=1", "3:dp=3", "3:tp=3,vocab=0"])


if __name__ == "__main__":
    harness.main()
