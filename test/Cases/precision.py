"""Case D13: gradients add up in fp32, weights move in fp32, whatever products are made of.

The gradients are known numbers (known.py).
"""
import json
import math
import os
import struct

import harness
from harness import recipe
from known import MODEL, WIDTH, weights

def rounded(x):
    """To bf16, the nearest, even in the middle."""
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    bits += 0x7fff + (bits >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", bits & 0xffff0000))[0]


class Precision(harness.Case):
    def values(self, **changes):
        return recipe(precision="bf16", clip_norm=0, sequence_length=1, **changes)

    def binary(self, ranks, pins, values):
        return self.compiled(MODEL, ranks, pins, values)

    def test_d13_gradients_of_micro_batches(self):
        """256 and 1, in either order, are 257; in bf16 they would be 256."""
        def embedding(i, j):
            return ((256, 1), (1, 256))[i % 2][j] if j < 2 else 0
        # The logit of word 7 is far above: its probability is 1, the gradient of its row what
        # the head reads, divided by the two tokens of the step.
        norm = 2 * (65537 / WIDTH) ** 0.5
        path = harness.write_safetensors(
            self.path("weights"), weights(embedding, norm, lambda i, j: 100 if i == 7 else 0))
        for ids in ([0, 1, 2], [1, 0, 2]):
            for ranks, pins in ((1, "micro_batch=1"), (1, "micro_batch=2"), (2, "dp=2"),
                                (2, "dp=2,zero=2"), (2, "tp=2,micro_batch=1")):
                with self.subTest(ids=ids, pins=pins):
                    binary = self.binary(ranks, pins, self.values(global_batch=2))
                    folder = self.fresh("saved")
                    self.train(binary, self.tokens(ids), 1, "--init", path, "--checkpoint", folder)
                    saved = harness.read_checkpoint(os.path.join(folder, "step-1"))
                    _, moment = saved["moment1", "lm_head.weight"]
                    # A moment is a tenth of the gradient.
                    for element in moment[7 * WIDTH:7 * WIDTH + 2]:
                        self.assertAlmostEqual(10 * element, 257, delta=1e-3)
        self.assertEqual(rounded(256.0 + 1.0), 256)

    def test_d13_weights_move_by_less_than_bf16_can_tell(self):
        """A thousand steps of 0.001 bring 1.0 to 2.0; in bf16 it would stay."""
        values = self.values(global_batch=2, learning_rate={"schedule": "constant", "peak": 1e-3},
                             optimizer={"weight_decay": 0})
        # The target's logit is far below that of word 7 and stays so: the gradient of its row is
        # what the head reads, negative, in every step, and Adam's steps are the rate.
        path = harness.write_safetensors(
            self.path("weights"),
            weights(lambda i, j: 1000, 100, lambda i, j: 10 if i == 7 else 1))
        for ranks, pins in ((1, None), (2, "dp=2,zero=3")):
            with self.subTest(pins=pins):
                out = self.fresh("out")
                rows, _ = self.train(self.binary(ranks, pins, values), self.tokens([0] * 2001), 1000,
                                     "--init", path, "--export", out)
                tensors = harness.read_safetensors(os.path.join(out, "model.safetensors"))
                for element in tensors["lm_head.weight"][1][:WIDTH]:
                    self.assertAlmostEqual(element, 2, delta=2e-3)
                # Products saw the weights move: 16 elements, read as 100 and 99 times them.
                self.assertAlmostEqual(rows[0]["loss"], 16 * 100 * (10 - 1), delta=1)
                self.assertAlmostEqual(rows[-1]["loss"], 16 * 99 * (9 - 2), delta=16 * 99 * 2 ** -6)
        weight = 1.0
        for _ in range(1000):
            weight = rounded(weight + 1e-3)
        self.assertEqual(weight, 1)

    def test_d13_plans_show_what_is_narrow(self):
        """Products and what is kept between them, by lines of the plan; weights are whole."""
        command = self.compile_command(MODEL, 1, None, self.values(global_batch=1))
        plan = harness.run(command + ["--emit=plan"]).stdout
        self.assertIn('plan.precision "head" "head.logits" compute bf16', plan)
        image = harness.run(command + ["--emit=image", "--profile", "avx512"])
        for entry in json.loads(image.stdout)["state"]:
            for slot in ("value", "gradient", "moment1", "moment2"):
                self.assertEqual(entry[slot][2], 4 * math.prod(entry["shape"]), entry["name"])


if __name__ == "__main__":
    harness.main()
