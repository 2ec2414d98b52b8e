"""Case E08: tied matrices in weight files; files with numbers that are none."""
import array
import math
import os

import harness
import known
from harness import golden


class Tied(harness.Case):
    def weights(self, model="t0-tied"):
        return harness.read_safetensors(golden(model, "model.safetensors"))

    def from_weights(self, model, tensors, *flags):
        path = harness.write_safetensors(self.path("weights.safetensors"), tensors)
        binary = self.compiled(golden(model, "config.json"), 2, "tp=2")
        return [binary, "--data", golden(model, "tokens.bin"), "--steps", "1", "--init", path,
                *flags]

    def test_e08_export_goes_on_with_equal_loss(self):
        out = self.path("export")
        whole = self.golden_run("t0-tied", 4, layout="2:tp=2")
        self.golden_run("t0-tied", 3, "--export", out, layout="2:tp=2")
        self.assertNotIn("lm_head.weight",
                         harness.read_safetensors(os.path.join(out, "model.safetensors")))
        # What the fourth step reads, as the first of another run.
        with open(golden("t0-tied", "tokens.bin"), "rb") as file:
            file.seek(2 * 3 * 8 * 32)
            rest = file.read()
        with open(self.path("rest.bin"), "wb") as file:
            file.write(rest)
        binary = self.compiled(golden("t0-tied", "config.json"), 2, "tp=2")
        again, _ = self.train(binary, self.path("rest.bin"), 1, "--init", out)
        self.assertEqual(again[0]["loss"], whole[3]["loss"])
        self.assertEqual(again[0]["grad_norm"], whole[3]["grad_norm"])

    def test_e08_equal_copy_is_read_as_the_matrix(self):
        tensors = self.weights()
        want = self.golden_run("t0-tied", 1, layout="2:tp=2")
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
        command = self.from_weights("t0-tied", tensors, "--log", self.path("log.jsonl"))
        done = harness.run(command)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("not used", done.stderr)
        self.assertSteps(harness.read_log(self.path("log.jsonl")), want)
        # Under the head's name alone it is the same matrix.
        del tensors["model.embed_tokens.weight"]
        done = harness.run(self.from_weights("t0-tied", tensors, "--log", self.path("head.jsonl")))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertSteps(harness.read_log(self.path("head.jsonl")), want)

    def test_e08_head_that_differs(self):
        tensors = self.weights()
        shape, values = tensors["model.embed_tokens.weight"]
        other = values[:]
        other[777] += 0.25
        tensors["lm_head.weight"] = (shape, other)
        self.refused(self.from_weights("t0-tied", tensors), "import.tied_conflict",
                     says=["lm_head.weight", "model.embed_tokens.weight", "element 777",
                           "tie_word_embeddings"])
        tensors["lm_head.weight"] = ([128, 128], values)
        self.refused(self.from_weights("t0-tied", tensors), "import.shape_mismatch",
                     says=["lm_head.weight", "[128, 128]", "[256, 64]"])

    def test_e08_untied_without_a_head(self):
        tensors = self.weights("t0")
        del tensors["lm_head.weight"]
        self.refused(self.from_weights("t0", tensors), "import.missing_tensor",
                     says=["lm_head.weight"])


class Diverged(harness.Case):
    """Weights that no run could have made."""

    def command(self, tensors):
        path = harness.write_safetensors(self.path("weights.safetensors"), tensors)
        binary = self.compiled(golden("t0", "config.json"), 2, "tp=2")
        return [binary, "--data", golden("t0", "tokens.bin"), "--steps", "2", "--init", path,
                "--checkpoint", self.path("saved"), "--save-every", "1"]

    def test_numbers_that_are_none(self):
        tensors = harness.read_safetensors(golden("t0", "model.safetensors"))
        tensors["model.norm.weight"][1][5] = math.nan
        error = self.refused(self.command(tensors), "import.not_finite",
                             says=["model.norm.weight", "element 5"])
        self.assertTrue(error["rule"] and error["suggestions"], error)

    def test_gradient_that_is_not_finite_reaches_no_checkpoint(self):
        """The loss is still a number where the squares of its gradients are none."""
        tensors = harness.read_safetensors(golden("t0", "model.safetensors"))
        shape, values = tensors["lm_head.weight"]
        tensors["lm_head.weight"] = (shape, array.array("f", (1e22 * x for x in values)))
        self.refused(self.command(tensors), "train.gradient_not_finite", 4,
                     says=["step 1", "all results before the update are finite"])
        self.assertEqual(os.listdir(self.path("saved")), [])

    def test_first_product_that_is_not_finite_is_named(self):
        """Row 100 of a layer's matrix, which the second of two ranks has, overflows."""
        tensors = harness.read_safetensors(golden("t0", "model.safetensors"))
        values = tensors["model.layers.2.mlp.up_proj.weight"][1]
        values[100 * 64:101 * 64] = array.array("f", 64 * [3e38])
        self.refused(self.command(tensors), "train.gradient_not_finite", 4,
                     says=["step 1", "layers.2/mlp.up (microbatch) on rank 1"])
        self.assertEqual(os.listdir(self.path("saved")), [])


    def test_first_kernel_that_yields_none_is_named(self):
        """Scores of layer 1 are infinite, and their softmax is no number."""
        tensors = harness.read_safetensors(golden("t0", "model.safetensors"))
        for name in ("q", "k"):
            name = f"model.layers.1.self_attn.{name}_proj.weight"
            shape, values = tensors[name]
            tensors[name] = (shape, array.array("f", (1e25 * x for x in values)))
        self.refused(self.command(tensors), "train.gradient_not_finite", 4,
                     says=["step 1", "layers.1/attention.scores (microbatch)"])

    def test_loss_that_is_not_finite_is_named_before_weights_change(self):
        """One token's loss overflows, while its gradients have a finite norm."""
        path = harness.write_safetensors(
            self.path("weights"),
            known.weights(lambda i, j: 1, 1e18, lambda i, j: 1.4e19 if i == 7 else -1.4e19))
        binary = self.compiled(known.MODEL, 1, None, harness.recipe(global_batch=8,
                                                                    sequence_length=1))
        self.refused([binary, "--data", self.tokens([7] * 8 + [1]), "--steps", "1", "--init", path,
                      "--checkpoint", self.fresh("none")], "train.loss_not_finite", 4,
                     says=["step 1", "is inf", "head.loss (microbatch) on rank 0"])


if __name__ == "__main__":
    harness.main()
