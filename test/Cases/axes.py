"""Context, experts and stages in what users meet."""
import itertools
import math
import os

import harness
from harness import config, golden, recipe


class Axes(harness.Case):
    def rows(self, layout, model="t0", steps=3, **changes):
        return self.golden_run(model, steps, layout=layout, recipe_values=recipe(**changes))

    def test_a07_experts_and_ranks_that_do_not_fit(self):
        sixty = golden("..", "Frontend", "configs", "qwen1.5-moe-a2.7b.json")
        error = self.refused_compile("plan.experts_indivisible", sixty, 8, "ep=8",
                                     says=["ep=8", "experts=60", "1, 2, 3, 4, 5, 6, 10, 12"])
        self.assertEqual(error["suggestions"], ["ep one of 1, 2, 4"])
        self.refused_compile("plan.ep_gt_ranks", config("t0-moe"), 4, "ep=8", says=["ep=8", "dp=4"])
        # Of context some ranks, of tensor all or none.
        error = self.refused_compile("plan.experts_indivisible", sixty, 12, "cp=3,tp=4,ep=2",
                                     says=["ep=2", "cp=3", "tp=4"])
        self.assertEqual(error["suggestions"], ["ep one of 1, 3, 4, 12"])

    def test_a10_tail_of_a_sequence_that_context_does_not_divide(self):
        """Ten tokens in blocks for four halves: the mean is over ten, none is dropped."""
        data = golden("t0", "tokens.bin")
        for length in (10, 7, 13):
            values = recipe(sequence_length=length, global_batch=2)
            want, _ = self.train(self.compiled(config(), 1, None, values), data, 4)
            for ranks, pins in ((2, "cp=2"), (3, "cp=3"), (4, "cp=4"), (4, "cp=2,tp=2,sp=1")):
                with self.subTest(length=length, pins=pins):
                    got, _ = self.train(self.compiled(config(), ranks, pins, values), data, 4)
                    self.assertEqual([row["tokens"] for row in got], [row["tokens"] for row in want])
                    self.assertSteps(got, want, 1e-5, 1e-5)

    def test_d02_norms_of_a_pipeline(self):
        """Norms, not losses alone: gradients of earlier micro-batches are not lost."""
        want = self.rows("1", steps=4)
        for layout in ("2:pp=2,micro_batch=2", "2:pp=2,micro_batch=1,schedule=gpipe"):
            for got, one in zip(self.rows(layout, steps=4), want):
                self.assertLess(abs(got["grad_norm"] / one["grad_norm"] - 1), 1e-5, layout)

    def test_d03_pairs_of_axes(self):
        """Every pair of axes on four ranks, 20 steps."""
        want = self.rows("1", steps=20)
        axes = ("dp=2", "tp=2", "cp=2", "pp=2")
        for one, other in itertools.combinations(axes, 2):
            for more in ("", ",zero=3" if "dp" in one or "cp" in one + other else ",sp=1"):
                if more == ",sp=1" and "tp" not in one + other:
                    continue
                layout = f"4:{one},{other}{more}"
                with self.subTest(layout=layout):
                    for got, alone in zip(self.rows(layout, steps=20), want):
                        self.assertLess(abs(got["loss"] / alone["loss"] - 1), 1e-5)

    def test_d10_one_denominator(self):
        runs = [self.rows(layout) for layout in ("4:dp=4", "4:dp=2,cp=2", "4:cp=4")]
        for other in runs[1:]:
            self.assertSteps(other, runs[0], 1e-6, 1e-6)

    def test_d11_balance_loss_under_every_layout(self):
        """The router's gradient is the same, and not that without the loss."""
        def norms(layout, model):
            return [row["grad_norm"] for row in self.rows(layout, model, steps=2)]
        want = norms("1", "t0-moe-aux")
        for layout in ("2:dp=2", "2:tp=2", "2:dp=2,ep=2", "2:cp=2", "1:micro_batch=2", "2:cp=2,ep=2",
                       "2:pp=2,micro_batch=2"):
            for got, one in zip(norms(layout, "t0-moe-aux"), want):
                self.assertLess(abs(got / one - 1), 1e-5, layout)
        without = dict(config("t0-moe-aux"), output_router_logits=False)
        data, weights = golden("t0-moe-aux", "tokens.bin"), golden("t0-moe-aux", "model.safetensors")
        rows, _ = self.train(self.compiled(without), data, 2, "--init", weights)
        self.assertGreater(abs(rows[0]["grad_norm"] / want[0] - 1), 1e-4)

    def test_f03_ranks_that_have_little_to_do_take_part(self):
        """A stage with the embedding alone beside ZeRO and clipping; experts without a token."""
        want = self.rows("1", "t0-tied")
        self.assertSteps(self.rows("12:pp=6,dp=2,zero=1,micro_batch=1", "t0-tied"), want, 1e-5, 2e-5)
        # Rows of the router so far apart that the first two experts get every token, which is
        # the largest load that there is: others get none.
        tensors = harness.read_safetensors(golden("t0-moe", "model.safetensors"))
        for name, (shape, values) in tensors.items():
            if name.endswith("gate.weight"):
                for i in range(2 * shape[1], 4 * shape[1]):
                    values[i] = 0
                for i in range(2 * shape[1]):
                    values[i] = values[i % shape[1]]
        weights = harness.write_safetensors(self.path("forced.safetensors"), tensors)
        runs = []
        for ranks, pins in ((1, None), (2, "dp=2,ep=2"), (2, "tp=2,ep=2"), (4, "dp=4,ep=4"),
                            (4, "cp=2,dp=2,ep=4,micro_batch=2"), (4, "pp=2,dp=2,ep=2,micro_batch=2")):
            binary = self.compiled(config("t0-moe"), ranks, pins)
            rows, _ = self.train(binary, golden("t0-moe", "tokens.bin"), 3, "--init", weights)
            self.assertTrue(all(math.isfinite(row["loss"]) for row in rows))
            runs.append(rows)
        for other in runs[1:]:
            self.assertSteps(other, runs[0], 1e-5, 2e-5)

    def test_f05_last_batch_is_no_reason_to_wait(self):
        """Ten sequences, four or sixteen a step: every rank has as many steps, and the run ends.

        None is left out and none made up: the order goes on with the next epoch.
        """
        data = self.tokens(harness.random_ids(256, 10 * 32 + 1))
        for batch in (4, 16):
            values = recipe(global_batch=batch)
            rows, _ = self.train(self.compiled(config(), 4, "dp=4", values), data, 3)
            self.assertEqual([row["tokens"] for row in rows], [32 * batch * n for n in (1, 2, 3)])
            alone, _ = self.train(self.compiled(config(), 1, None, values), data, 3)
            self.assertSteps(rows, alone, 1e-5, 1e-5)


if __name__ == "__main__":
    harness.main()
