"""Cases D07 and D08: dropout is not built. It is refused by its key, never left out in silence,
and what does not draw numbers changes no bit by recomputation or layout."""
import json

import harness
from harness import config, golden, recipe

# Keys that ask for it, in families that have them.
KEYS = (("t0", "attention_dropout"), ("gpt2-mini", "resid_pdrop"), ("gpt2-mini", "embd_pdrop"),
        ("gpt2-mini", "attn_pdrop"))


class Dropout(harness.Case):
    def refused_everywhere(self, layouts):
        for model, key in KEYS:
            for ranks, pins in layouts:
                with self.subTest(key=key, pins=pins):
                    error = self.refused_compile("config.dropout_unsupported",
                                                 config(model, **{key: 0.1}), ranks, pins,
                                                 recipe(dropout=...), says=[key, 0.1])
                    self.assertTrue(error["rule"], error)
                    self.assertTrue(any("dropout" in text and "0" in text
                                        for text in error["suggestions"]), error)
            self.refused_compile("recipe.unsupported", config(model, **{key: 0.1}), 1, None,
                                 recipe(dropout=0.1), says=["dropout", 0.1])

    def test_d07_under_recomputation(self):
        self.refused_everywhere([(1, None), (1, "recompute=full")])
        # Without it as the recipe says: the same model as one whose config has none.
        asked = self.first_losses(config(attention_dropout=0.1), None)
        self.assertEqual(asked, self.first_losses(config(), None))
        full = self.first_losses(config(attention_dropout=0.1), "recompute=full")
        for got, want in zip(full, asked):
            self.assertLess(abs(got - want), 1e-6)

    def first_losses(self, model, pins):
        binary = self.compiled(model, 1, pins, recipe(dropout=0))
        rows, _ = self.train(binary, golden("t0", "tokens.bin"), 5, "--init",
                             golden("t0", "model.safetensors"))
        return [row["loss"] for row in rows]

    def test_d08_under_layouts(self):
        self.refused_everywhere([(2, "tp=2,sp=1"), (2, "cp=2"), (2, "dp=2")])

    def test_d08_reported_by_inspect(self):
        done = harness.run([harness.CLEAVE, "inspect", self.written(config(attention_dropout=0.1)),
                            "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        (note,) = [note for note in json.loads(done.stdout)["notes"] if "dropout" in note]
        self.assertIn("0.1", note)


if __name__ == "__main__":
    harness.main()
