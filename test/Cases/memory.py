"""Cases B01 and B03: what a rank holds, item by item, and what it was seen to hold."""
import array
import json
import os
import re
import sys

import harness
from harness import config, golden, llama, random_ids, recipe

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../Golden"))
import spread

SLOTS = ("value", "gradient", "moment1", "moment2")
GIB = 2 ** 30


class Memory(harness.Case):
    def emitted(self, phase, model, pins=None, values=None, extra=()):
        command = self.compile_command(model, 1, pins, values, [f"--emit={phase}", *extra])
        done = harness.run(command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def image(self, *request, **more):
        return json.loads(self.emitted("image", *request, **more))

    def segments(self, image):
        return {segment["name"]: segment["bytes"] for segment in image["segments"]}

    def peaks(self, binary, steps=2):
        """Bytes of the process at its peak, measured and predicted."""
        done = harness.run([binary, "--data", golden("t0", "tokens.bin"), "--steps", str(steps)])
        self.assertEqual(done.returncode, 0, done.stderr)
        found = re.search(r"memory: ([\d.]+) MB measured at its peak, ([\d.]+) MB predicted",
                          done.stdout)
        return [1e6 * float(number) for number in found.groups()]

    def test_b01_states_by_item(self):
        """4 + 4 + 4 + 4 bytes a parameter; with bf16 the copies that products read are no state."""
        for precision in ("fp32", "bf16"):
            image = self.image(config(), None, recipe(precision=precision),
                               extra=["--profile", "avx512"])
            held = {slot: sum(entry[slot][2] for entry in image["state"]) for slot in SLOTS}
            self.assertEqual(held, {slot: 4 * 180800 for slot in SLOTS})
            self.assertEqual(sum(held.values()), 2892800)
            segments = self.segments(image)
            for name in ("weights", "gradients", "moment1", "moment2"):
                self.assertEqual(segments[name], 723200)
            self.assertEqual(image["prediction"]["bytes_per_rank"], sum(segments.values()))
        # A matrix of bf16 is made for a layer at a time, and lies in the arena.
        exec_ = self.emitted("exec", config(), None, recipe(precision="bf16"),
                             ["--profile", "avx512"])
        self.assertRegex(exec_, r'exec.launch "layers.\*/nn.cast" \S+\(<weights \+ \d+, 16384 '
                                r'step 16384>, <arena \+ \d+, 8192>\)')

    def test_b01_a_plan_says_what_its_program_takes(self):
        """Over layouts that are compiled and trained elsewhere: not under the program's memory, and
        at most 3 % over it, whichever rank has most."""
        model = self.written(config(), "config")
        layouts = spread.spread(experts=False, even=True)[::6]
        self.assertGreater(len(layouts), 8)
        layouts += self.selective(layouts)[::2]
        for layout in layouts:
            ranks, pins = f"local:{spread.ranks(layout)}", spread.pins(layout)
            with self.subTest(ranks=ranks, pins=pins):
                plan = self.path("plan.mlir")
                found = harness.run([harness.CLEAVE, "plan", model, "--cluster", ranks, "--pin", pins,
                                     "--global-batch", "8", "--seq-len", "32", "--json", "-o", plan])
                self.assertEqual(found.returncode, 0, found.stdout)
                image = harness.run([harness.CLEAVE, "compile", model, "--cluster", ranks, "--plan", plan,
                                     "--emit=image"])
                self.assertEqual(image.returncode, 0, image.stderr)
                image = json.loads(image.stdout)
                most = max(sum(segment["bytes"] * segment.get("copies", 1)
                               for segment in program["segments"])
                           for program in image.get("programs", [image]))
                said = json.loads(found.stdout)["plan"]["memory"]
                self.assertLessEqual(most, said)
                self.assertLessEqual(said, 1.03 * most)

    def selective(self, layouts):
        return [{**layout, "recompute": "selective"} for layout in layouts]

    def test_b01_the_formula_is_near_the_program(self):
        """The search leaves out by a formula: over a spread of layouts, in both precisions, it is what a
        program takes within 7 %; of models that it was not written with not under it by more than
        15 %, and above by less than what the search allows for (lib/Planner/LaidOutSearch.cpp)."""
        for model, experts, least, most in (("t0", False, 0.93, 1.07), ("t0-moe", True, 0.85, 1.15),
                                            ("gpt2-mini", False, 0.85, 1.15)):
            layouts = spread.spread(experts=experts, even=True)[::3 if model == "t0" else 9]
            for layout in layouts + self.selective(layouts[::2]):
                for precision in ("fp32", "bf16"):
                    pins = spread.pins(layout)
                    with self.subTest(model=model, precision=precision, pins=pins):
                        found = harness.run([
                            harness.CLEAVE, "plan", golden(model, "config.json"), "--cluster",
                            f"local:{spread.ranks(layout)}", "--pin", pins, "--global-batch", "8",
                            "--seq-len", "32", "--set", f"precision={precision}", "--json"])
                        self.assertEqual(found.returncode, 0, found.stdout)
                        plan = json.loads(found.stdout)["plan"]
                        self.assertEqual(plan["memory_source"], "laid_out")
                        ratio = plan["formula_memory"] / plan["memory"]
                        self.assertTrue(least <= ratio <= most, f"{ratio:.3f}")

    def test_b01_items_are_listed(self):
        binary = self.compiled(golden("t0", "config.json"))
        said = harness.run([binary, "--info"]).stdout
        for name in ("weights", "gradients", "moment1", "moment2", "arena"):
            self.assertRegex(said, rf"segment +{name} +[\d.]+ [kM]B")

    def test_b01_predicted_and_measured(self):
        """Differences between batches, so that what every process has is left out."""
        def measured(batch, pins):
            binary = self.compiled(golden("t0", "config.json"), 1, pins, recipe(global_batch=batch))
            peak, predicted = self.peaks(binary)
            # What a process and its libraries have beside segments.
            self.assertLess(peak, predicted + 64e6)
            return peak, predicted
        for pins in ("recompute=none", "recompute=full"):
            small = measured(16, pins)
            for batch in (64, 128, 256):
                with self.subTest(pins=pins, batch=batch):
                    large = measured(batch, pins)
                    ratio = (large[0] - small[0]) / (large[1] - small[1])
                    self.assertTrue(0.9 <= ratio <= 1.1, f"{small} {large}")

    def plan(self, model, values, chunk):
        """A plan with classifier and loss in given pieces of the tokens, or in one."""
        text = self.emitted("plan", model, None, values)
        text = re.sub(r" *plan.chunk.*\n", "", text)
        if chunk:
            line = f'plan.chunk "head" along ["batch", "sequence"] pieces {chunk}\n    '
            at = text.index("plan.assign")
            text = text[:at] + line + text[at:]
        path = self.fresh("plan", ".mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def logits(self, vocabulary, batch, sequence, chunk):
        """Bytes of the buffer that the classifier's product writes."""
        model = llama(vocab_size=vocabulary, max_position_embeddings=4096, hidden_size=8,
                      num_attention_heads=2, num_key_value_heads=2, head_dim=4, intermediate_size=8)
        values = recipe(sequence_length=sequence, global_batch=batch)
        image = self.image(model, None, values, extra=["--plan", self.plan(model, values, chunk)])
        text = json.dumps(image["microbatch"])
        found = re.search(r'"label": "[^"]*head.logits", "a": .*?"c": {"region": \[\d+, \d+, (\d+)', text)
        return int(found[1])

    def test_b03_buffers_of_logits(self):
        """In fp32, of all tokens and of pieces of 1,024."""
        self.assertAlmostEqual(self.logits(151936, 8, 1024, None) / GIB, 4.6367, places=4)
        self.assertAlmostEqual(self.logits(151936, 8, 1024, [8, 1]) / GIB, 0.5796, places=4)
        self.assertAlmostEqual(self.logits(76032, 160, 1283, None) / GIB, 58.144, places=3)
        # Left alone, the planner cuts them: nothing of 64 MiB or more is held at once.
        model = llama(vocab_size=151936, max_position_embeddings=4096)
        values = recipe(sequence_length=1024, global_batch=8)
        pieces = re.search(r'plan.chunk "head" along .* pieces \[(\d+), (\d+)\]',
                           self.emitted("plan", model, None, values))
        self.assertLessEqual(8192 / (int(pieces[1]) * int(pieces[2])) * 151936 * 4, 64 * 2 ** 20)

    def test_b03_pieces_change_memory_alone(self):
        model = config(vocab_size=8192)
        values = recipe(global_batch=64, clip_norm=0)
        data = self.tokens(random_ids(8192, 2 * 64 * 32 + 1))
        gradients, losses, peaks = [], [], []
        # 64 tokens a piece, and all 2,048 at once.
        for chunk in ([32, 1], None):
            binary = self.compiled(model, 1, None, values,
                                   ["--plan", self.plan(model, values, chunk)])
            folder = self.fresh("saved")
            rows, _ = self.train(binary, data, 1, "--checkpoint", folder)
            losses.append(rows[0]["loss"])
            saved = harness.read_checkpoint(os.path.join(folder, "step-1"))
            gradients.append({name: (shape, array.array("f", (10 * x for x in values_)))
                              for (kind, name), (shape, values_) in saved.items()
                              if kind == "moment1"})
            peaks.append(self.peaks(binary))
        self.assertLess(abs(losses[0] - losses[1]), 1e-6)
        for name, tensor in gradients[0].items():
            self.assertNear(tensor, gradients[1][name], 1e-6, name)
        (pieces, predicted), (whole, more) = peaks
        self.assertGreater(more - predicted, 60e6)
        self.assertGreaterEqual(whole - pieces, 0.9 * (more - predicted))


if __name__ == "__main__":
    harness.main()
