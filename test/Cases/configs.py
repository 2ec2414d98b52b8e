"""What a config.json may look like."""
import json
import re

import harness
from harness import config


class Configs(harness.Case):
    def inspected(self, model):
        done = harness.run([harness.CLEAVE, "inspect", self.written(model), "--json"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def refused_model(self, model, kind, *says):
        """Both `inspect` and `compile` refuse it, in the same words."""
        error = self.refused([harness.CLEAVE, "inspect", self.written(model)], kind, says=says)
        again = self.refused_compile(kind, model, says=says)
        self.assertEqual(error["message"], again["message"])
        self.assertTrue(error["rule"] and error["suggestions"], error)

    def graph(self, model, phase="nn"):
        """A phase as text, without the file's own name."""
        done = harness.run(self.compile_command(model) + [f"--emit={phase}"])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def shape(self, model, parameter):
        """Of a layer's parameter, by its name in the layer."""
        found = re.search(rf"nn\.parameter \S*\.{re.escape(parameter)}\S* .*file_shape = array<i64: ([^>]*)>",
                          self.graph(model))
        return [int(size) for size in found[1].split(",")]

    def frequencies(self, model):
        found = re.search(r"frequencies = array<f64: ([^>]*)>", self.graph(model))
        return [float(x) for x in found[1].split(",")]

    def test_g01_explicit_head_width(self):
        """As in qwen3-0.6b: 16 heads of 128 in a width of 1024."""
        model = config(hidden_size=1024, num_attention_heads=16, num_key_value_heads=8, head_dim=128)
        prefix = "self_attn."
        self.assertEqual(self.shape(model, prefix + "q_proj.weight"), [2048, 1024])
        self.assertEqual(self.shape(model, prefix + "k_proj.weight"), [1024, 1024])
        self.assertEqual(self.shape(model, prefix + "o_proj.weight"), [1024, 2048])
        self.assertEqual(len(self.frequencies(model)), 64)
        self.assertIn("scale = 0.088388347648318", self.graph(model))
        sizes = 2 * 256 * 1024 + 1024 + 4 * (2 * 2048 * 1024 + 2 * 1024 * 1024 + 3 * 128 * 1024 + 2048)
        self.assertEqual(self.inspected(model)["parameters"], sizes)

    def test_g02_null_is_absent(self):
        known = self.inspected(config(head_dim=None))
        self.assertEqual(known["sizes"]["head_dim"], 16)
        self.assertEqual(known["defaults"]["head_dim"], 16)
        self.refused_model(config(num_hidden_layers=None), "config.missing_key", "num_hidden_layers",
                           "null")
        self.refused_model(config(num_hidden_layers=...), "config.missing_key", "num_hidden_layers")
        heads = self.inspected(config(num_key_value_heads=None))
        self.assertEqual(heads["sizes"]["num_key_value_heads"], 4)
        self.assertEqual(heads["defaults"]["num_key_value_heads"], 4)
        self.assertEqual(heads, self.inspected(config(num_key_value_heads=...)))

    def test_g03_heads_that_do_not_divide_the_width(self):
        model = config(hidden_size=56, num_attention_heads=3, num_key_value_heads=3, head_dim=32)
        self.assertEqual(self.shape(model, "self_attn.q_proj.weight"), [96, 56])
        data = harness.golden("t0", "tokens.bin")
        alone, _ = self.train(self.compiled(model, recipe_values=harness.recipe(global_batch=3)),
                              data, 2)
        cut, _ = self.train(self.compiled(model, 3, "tp=3", harness.recipe(global_batch=3)), data, 2)
        self.assertSteps(cut, alone, 1e-5, 1e-5)
        del model["head_dim"]
        self.refused_model(model, "config.head_dim_undefined", "56", "3")

    def test_g04_spellings_of_rope(self):
        forms = [config(rope_scaling={"type": "linear", "factor": 2.0}),
                 config(rope_scaling={"rope_type": "linear", "factor": 2.0}),
                 config(rope_scaling={"type": "linear", "rope_type": "linear", "factor": 2.0}),
                 config(rope_scaling=..., rope_theta=...,
                        rope_parameters={"rope_type": "linear", "factor": 2.0,
                                         "rope_theta": 10000.0})]
        graphs = [self.graph(form) for form in forms]
        for graph in graphs[1:]:
            self.assertEqual(graph, graphs[0])
        plain = self.frequencies(config())
        self.assertEqual(self.frequencies(forms[0]), [x / 2 for x in plain])
        self.refused_model(config(rope_scaling={"type": "foo", "factor": 2.0}),
                           "config.rope_unknown", "foo")
        self.refused_model(config(rope_scaling={"type": "linear", "rope_type": "llama3",
                                                "factor": 2.0}),
                           "config.conflict", "linear", "llama3")

    def test_g04_llama_3_1(self):
        """The numbers of llama-3.1-8b: 64 pairs, base 500000, factor 8, from 8192 positions."""
        sizes = {"hidden_size": 256, "num_attention_heads": 2, "num_key_value_heads": 2,
                 "head_dim": 128, "rope_theta": 500000.0}
        plain = self.frequencies(config(**sizes))
        scaled = self.frequencies(config(**sizes, rope_scaling={
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192}))
        self.assertEqual(scaled[:29], plain[:29])
        for i in range(29, 35):
            self.assertTrue(plain[i] / 8 < scaled[i] < plain[i], i)
        self.assertEqual(scaled[35:], [x / 8 for x in plain[35:]])
        self.assertEqual([f"{x:.6e}" for x in (plain[32], scaled[32], plain[63], scaled[63])],
                         ["1.414214e-03", "5.248462e-04", "2.455141e-06", "3.068926e-07"])

    def test_g07_names_of_the_type(self):
        old, new = config(torch_dtype="bfloat16"), config(torch_dtype=..., dtype="bfloat16")
        self.assertEqual(self.graph(old, "plan"), self.graph(new, "plan"))
        self.assertEqual(self.graph(old, "dist"), self.graph(new, "dist"))
        for model in (old, new):
            self.assertNotIn("dtype", self.inspected(model)["defaults"])
        self.assertEqual(self.inspected(config(torch_dtype=...))["defaults"]["dtype"], "float32")
        self.refused_model(config(torch_dtype="bfloat16", dtype="float16"), "config.conflict",
                           "torch_dtype", "bfloat16", "float16")
        self.refused_model(config(torch_dtype="float17"), "config.dtype_unknown", "float17")


if __name__ == "__main__":
    harness.main()
