"""Case C07: floating-point operations follow from the graph: windows, key heads, experts, causality."""
import json

import harness
from harness import config, golden, recipe


class Flops(harness.Case):
    def image(self, model, pins=None, ranks=1, **changes):
        command = self.compile_command(model, ranks, pins, recipe(**changes))
        done = harness.run(command + ["--emit=image"])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def commands(self, entry, times=1):
        """(command, how often it runs) for all of an entry, repeats written out."""
        for command in entry:
            if command["op"] == "repeat":
                yield from self.commands(command["body"], times * command["count"])
            else:
                yield command, times

    def products(self, entry, kinds=("matmul", "picked_matmul")):
        return sum(command["flops"] * times for command, times in self.commands(entry)
                   if command["op"] in kinds)

    def pairs(self, model, sequence, heads, head_dim):
        """(query, key) pairs of a head in one sequence: two products of a head's width each."""
        image = self.image(model, sequence_length=sequence, global_batch=1)
        found = {command["flops"] / (2 * 2 * heads * head_dim)
                 for command, _ in self.commands(image["evaluate"])
                 if command["label"].endswith("attention.scores")}
        self.assertEqual(len(found), 1)
        return found.pop()

    def test_c07_pairs_that_attention_sees(self):
        full = config(max_position_embeddings=2048)
        sizes = {**full, "model_type": "mistral"}
        self.assertEqual(self.pairs(full, 8, 4, 16), 36)
        self.assertEqual(self.pairs({**sizes, "sliding_window": 4}, 8, 4, 16), 26)
        self.assertEqual(self.pairs(full, 2048, 4, 16) / 2048, 1024.5)
        self.assertEqual(self.pairs({**sizes, "sliding_window": 512}, 2048, 4, 16) / 2048, 448.125)

    def test_c07_products_of_a_token(self):
        """Two for each weight of a matrix but the embedding's, whatever the layout."""
        tokens = 8 * 32
        image = self.image(config())
        self.assertEqual(self.products(image["evaluate"]) / tokens, 327680)
        self.assertEqual(327680, 2 * (180800 - 16384 - 576))
        # Forward, gradients of inputs and of weights. Of the first layer's input too.
        self.assertEqual(self.products(image["microbatch"]) / tokens, 3 * 327680)
        image = self.image(config(), "dp=2,tp=2,sp=1", 4)
        self.assertEqual(4 * self.products(image["microbatch"]) / tokens, 3 * 327680)

    def test_c07_recomputation_is_counted_as_work(self):
        """A forward of the layers again, three times four matrices for three."""
        tokens, layers = 8 * 32, 327680 - 2 * 256 * 64
        again = self.products(self.image(config(), "recompute=full")["microbatch"]) / tokens
        # What nothing reads, such as a layer's last product, is not computed again.
        self.assertLessEqual(again, 3 * 327680 + layers)
        self.assertGreater(again, 3 * 327680 + 0.7 * layers)

    def test_c07_experts_of_a_token(self):
        """Two of four, and of mixtral-8x7b's eight."""
        tokens = 8 * 32
        image = self.image(config("t0-moe"))
        of_experts = self.products(image["evaluate"], ("picked_matmul",)) / tokens
        self.assertEqual(of_experts, 4 * 2 * 2 * 3 * 64 * 32)
        done = harness.run([harness.CLEAVE, "inspect",
                            golden("..", "Frontend", "configs", "mixtral-8x7b.json"), "--json"])
        found = json.loads(done.stdout)
        expert = 3 * 4096 * 14336
        self.assertEqual(found["parameters"] - found["active_parameters"], 32 * 6 * expert)


if __name__ == "__main__":
    harness.main()
