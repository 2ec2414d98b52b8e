"""What one layout saved, any other goes on from, every axis among them; all start from the same
bits, and the same run twice leaves the same bits."""
import itertools
import os
import random
import shutil

import harness
from harness import golden, recipe

MODEL = "t0-moe"
# Those of E03 in checkpoints.py, then every other axis, and several together.
NAMED = ("1", "2:tp=2", "2:pp=2", "2:dp=2,ep=2", "4:dp=4,zero=3")
FURTHER = ("3:cp=3,zero=2", "4:dp=2,cp=2,zero=3,zero_group=2", "4:pp=2,dp=2,ep=2,schedule=zb-h1",
           "4:tp=2,dp=2,ep=4,sp=1,zero=1", "2:pp=2,vp=2,recompute=full", "4:dp=4,zero=1,zero_group=2",
           "4:pp=2,cp=2,zero=2", "4:tp=2,dp=2,ep=4,zero=3,order=dp-tp-cp-pp",
           "4:pp=2,dp=2,ep=2,zero=1,order=pp-dp-cp-tp")
HALF, WHOLE = 5, 10


class Resharding(harness.Case):
    values = recipe(learning_rate={"schedule": "constant", "peak": 1e-3, "warmup": 0})

    def run_steps(self, layout, steps, *flags, log=None):
        return self.golden_run(MODEL, steps, *flags, layout=layout, log=log, recipe_values=self.values)

    def saved(self, layout):
        """The folder and the log of a run that stopped half way."""
        folder, log = self.fresh("saved"), self.fresh("log", ".jsonl")
        self.run_steps(layout, HALF, "--checkpoint", folder, log=log)
        return folder, log

    def resumed(self, saved, layout):
        """All steps of a run that goes on from a copy of what was saved."""
        folder, log = self.fresh("copy"), self.fresh("log", ".jsonl")
        shutil.copytree(saved[0], folder)
        shutil.copy(saved[1], log)
        return self.run_steps(layout, WHOLE, "--checkpoint", folder, "--resume", log=log)

    def test_any_axis_goes_on_from_any_other(self):
        """A draw of the pairs that are not both of E03."""
        pairs = [pair for pair in itertools.permutations(NAMED + FURTHER, 2)
                 if not set(pair) <= set(NAMED)]
        pairs = random.Random(3).sample(pairs, 24)
        kept = {layout: self.saved(layout) for layout in dict.fromkeys(source for source, _ in pairs)}
        want = self.run_steps("1", WHOLE)
        for source, target in pairs:
            with self.subTest(source=source, target=target):
                for row, other in zip(self.resumed(kept[source], target), want, strict=True):
                    self.assertLess(abs(row["loss"] / other["loss"] - 1), 1e-6, row)
                    self.assertLess(abs(row["grad_norm"] / other["grad_norm"] - 1), 2e-5, row)

    def test_e06_stopped_and_resumed_is_bitwise_the_whole(self):
        for layout in ("2:dp=2,ep=2", "4:pp=2,dp=2,ep=2,schedule=zb-h1", "3:cp=3,zero=2"):
            with self.subTest(layout=layout):
                self.assertSteps(self.resumed(self.saved(layout), layout),
                                 self.run_steps(layout, WHOLE))

    def exported(self, layout, steps):
        folder = self.fresh("export")
        ranks, _, pins = layout.partition(":")
        binary = self.compiled(golden(MODEL, "config.json"), ranks, pins, self.values)
        self.train(binary, golden(MODEL, "tokens.bin"), steps, "--export", folder)
        with open(os.path.join(folder, "model.safetensors"), "rb") as file:
            return file.read()

    def test_all_layouts_start_from_the_same_bits(self):
        alone = self.exported("1", 0)
        for layout in NAMED[1:] + FURTHER:
            with self.subTest(layout=layout):
                self.assertTrue(self.exported(layout, 0) == alone)

    def test_the_same_run_twice_leaves_the_same_bits(self):
        for layout in FURTHER:
            with self.subTest(layout=layout):
                self.assertTrue(self.exported(layout, 3) == self.exported(layout, 3))


if __name__ == "__main__":
    harness.main()
