"""The same numbers under every layout."""
import array
import json
import math
import os
import re

import harness
import known
from harness import golden, llama, read_json


class Layouts(harness.Case):
    def first_steps(self, layout, model="t0", steps=1, **changes):
        return self.golden_run(model, steps, layout=layout,
                               recipe_values=harness.recipe(**changes))

    def gradients(self, layout, model="t0"):
        """Every gradient of step 1: without clipping, (1 - beta1) of it is the first moment."""
        folder = self.fresh("checkpoint")
        self.golden_run(model, 1, "--checkpoint", folder, layout=layout,
                        recipe_values=harness.recipe(clip_norm=0))
        saved = harness.read_checkpoint(os.path.join(folder, "step-1"))
        return {name: (shape, array.array("f", (10 * x for x in values)))
                for (kind, name), (shape, values) in saved.items() if kind == "moment1"}

    def test_a01_repeated_key_heads(self):
        """2 key heads on 4 ranks: each is held twice, and its gradients are added up."""
        self.assertSteps(self.first_steps("4:tp=4", steps=5), self.first_steps("1", steps=5),
                         loss=1e-5, norm=1e-5)
        repeated, alone = self.gradients("4:tp=4"), self.gradients("1")
        self.assertEqual(repeated.keys(), alone.keys())
        for name in alone:
            self.assertNear(repeated[name], alone[name], 1e-6, name)

    def test_a01_rows_of_repeated_key_heads(self):
        """Four key heads of 128 rows on eight ranks: 128 rows each, 1,024 on all of them."""
        model = golden("..", "Frontend", "configs", "qwen3-30b-a3b.json")
        command = self.compile_command(model, 8, "tp=8", harness.recipe(global_batch=1))
        done = harness.run([*command, "--emit=image", "--allow-over-budget"])
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [entry for entry in json.loads(done.stdout)["state"]
                 if entry["name"].endswith("layers.0.self_attn.k_proj.weight")]
        self.assertEqual([entry["value"][2] for entry in found], [128 * 2048 * 4])

    def test_a01_impossible_degrees(self):
        for ranks in (3, 8):
            error = self.refused_compile("plan.heads_indivisible", harness.config(), ranks,
                                         f"tp={ranks}",
                                         says=[f"tp={ranks}", "num_attention_heads=4",
                                               "num_key_value_heads=2"])
            possible = {3: "tp one of 1,", 8: "tp one of 1, 2, 4,"}[ranks]
            self.assertIn(possible, error["suggestions"][0])

    def test_a06_padding_takes_no_part_in_the_softmax(self):
        """All logits equal: the loss is the logarithm of the true vocabulary."""
        model = llama(vocab_size=50257, hidden_size=8, num_attention_heads=2, head_dim=4,
                      num_key_value_heads=2, intermediate_size=16)
        shapes = {"model.embed_tokens.weight": [50257, 8], "lm_head.weight": [50257, 8],
                  "model.norm.weight": [8], "model.layers.0.input_layernorm.weight": [8],
                  "model.layers.0.post_attention_layernorm.weight": [8],
                  "model.layers.0.mlp.gate_proj.weight": [16, 8],
                  "model.layers.0.mlp.up_proj.weight": [16, 8],
                  "model.layers.0.mlp.down_proj.weight": [8, 16]}
        for matrix in "qkvo":
            shapes[f"model.layers.0.self_attn.{matrix}_proj.weight"] = [8, 8]
        weights = harness.write_safetensors(
            self.path("zero.safetensors"),
            {name: (shape, array.array("f", [0]) * math.prod(shape))
             for name, shape in shapes.items()})
        data = self.tokens([0, 50256, 25128, 25129, 7, 50255, 1, 2, 3] * 2)
        values = harness.recipe(sequence_length=8, global_batch=2)
        for layout in ("tp=2", "tp=1"):
            binary = self.compiled(model, 2, layout, values)
            rows, _ = self.train(binary, data, 1, "--init", weights)
            self.assertTrue(abs(rows[0]["loss"] - 10.824905) <= 2e-6, rows)
            self.assertEqual(rows[0]["grad_norm"], 0)

    def test_a06_prime_vocabulary(self):
        want = self.first_steps("1", "t0-vocab251", 10)
        for layout in ("2:tp=2", "4:tp=4"):
            self.assertSteps(self.first_steps(layout, "t0-vocab251", 10), want, 1e-5, 1e-5)

    def in_blocks(self, model, ranks, pins, blocks, values):
        """A binary whose classifier and loss go through the vocabulary in blocks."""
        plan = self.fresh("plan", ".mlir")
        done = harness.run(self.compile_command(model, ranks, pins, values)
                           + ["--emit=plan", "-o", plan])
        self.assertEqual(done.returncode, 0, done.stderr)
        text = open(plan).read().rstrip()
        self.assertTrue(text.endswith("}"))
        # The solution may stand in a module.
        at = text.index("plan.assign")
        chunk = f'plan.chunk "head" along ["vocab"] pieces [{blocks}]\n    '
        with open(plan, "w") as file:
            file.write(text[:at] + chunk + text[at:] + "\n")
        return self.compiled(model, ranks, None, values, ["--plan", plan])

    def test_blocks_of_the_vocabulary(self):
        """Uneven sequences and blocks, gathered parameters, scattered gradients."""
        model = llama(vocab_size=26)
        data = self.tokens(harness.random_ids(26, 200))
        values = harness.recipe(sequence_length=11, global_batch=4)
        want, _ = self.train(self.compiled(model, 1, None, values), data, 4)
        for ranks, pins, blocks in ((1, None, 4), (2, "tp=2,sp=1,vocab=0", 3), (2, "tp=2,sp=1", 3),
                                    (2, "dp=2,zero=3", 2), (4, "dp=2,tp=2,zero=2", 13),
                                    (2, "dp=2,overlap=1", 2), (2, "dp=2,zero=1,overlap=1", 13)):
            got, _ = self.train(self.in_blocks(model, ranks, pins, blocks, values), data, 4)
            self.assertSteps(got, want, 1e-5, 2e-5)

    def test_blocks_of_gradients_that_are_summed_as_they_come(self):
        """Pieces that the planner chooses are equal where `overlap` sums a gradient as it comes."""
        sizes = llama(vocab_size=37986, max_position_embeddings=2048, num_hidden_layers=2)
        model = self.written(sizes, "config")

        def command(*options):
            return [harness.CLEAVE, "compile", model, "--cluster", "local:4", "--seq-len", "1021",
                    "--global-batch", "12", *options]
        for pins in ("dp=4,micro_batch=3", "dp=2,tp=2,zero=1", "dp=2,pp=2,micro_batch=6"):
            plan = self.fresh("plan", ".mlir")
            done = harness.run(command("--pin", pins + ",overlap=1", "--emit=plan", "-o", plan))
            self.assertEqual(done.returncode, 0, done.stderr)
            done = harness.run(command("--plan", plan, "--emit=exec"))
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(plan, encoding="utf-8") as file:
                uneven, count = re.subn(r'(\["vocab"\] pieces) \[\d+\]', r"\1 [7]", file.read())
            self.assertEqual(count, 1)
            with open(plan, "w", encoding="utf-8") as file:
                file.write(uneven)
            self.refused(command("--plan", plan, "--emit=exec"), "plan.chunk_indivisible",
                         says=("pieces", os.path.basename(plan)))

    def test_a12_tied_matrix_counts_once(self):
        want = read_json(golden("t0-tied", "expected.json"))["steps"][0]["grad_norm"]
        for layout in ("1", "2:tp=2", "4:dp=2,tp=2", "2:tp=2,vocab=0"):
            got = self.first_steps(layout, "t0-tied")[0]["grad_norm"]
            self.assertTrue(abs(got / want - 1) <= 1e-6, f"{layout}: {got}, not {want}")

    def test_a12_tied_export_has_no_head(self):
        out = self.path("export")
        self.golden_run("t0-tied", 1, "--export", out, layout="2:tp=2")
        tensors = harness.read_safetensors(os.path.join(out, "model.safetensors"))
        self.assertNotIn("lm_head.weight", tensors)
        self.assertEqual(sum(math.prod(shape) for shape, _ in tensors.values()), 164416)

    def test_d01_accumulation_and_data_ranks(self):
        want = self.first_steps("1", steps=3)
        for layout in ("1:micro_batch=4", "1:micro_batch=1", "2:dp=2", "4:dp=4", "4:dp=4,micro_batch=1"):
            with self.subTest(layout=layout):
                self.assertSteps(self.first_steps(layout, steps=3), want, 1e-6, 1e-6)

    def test_d01_two_tokens_and_six(self):
        """Six tokens whose loss is 3 and two whose loss is 1, in parts that are not as large."""
        rest = math.log((1 - math.exp(-1) - math.exp(-3)) / 6)
        logarithms = {0: -1.0, 1: -3.0}
        weights = harness.write_safetensors(self.path("weights"), known.weights(
            lambda i, j: 1, 1, lambda i, j: logarithms.get(i, rest) / known.WIDTH))
        data = self.tokens([1, 1, 1, 1, 1, 1, 1, 0, 0])
        values = harness.recipe(global_batch=6, sequence_length=1,
                                learning_rate={"schedule": "constant", "peak": 0})
        for layout in ("1", "1:micro_batch=2", "2:dp=2", "3:dp=3", "2:tp=2", "2:pp=2,micro_batch=2"):
            with self.subTest(layout=layout):
                ranks, _, pins = layout.partition(":")
                log = self.fresh("log", ".jsonl")
                rows, _ = self.train(self.compiled(known.MODEL, ranks, pins, values), data, 1,
                                     "--init", weights, "--eval-data", data, log=log)
                self.assertAlmostEqual(rows[0]["loss"], 3, delta=1e-6)
                (row,) = harness.read_rows(log, "eval_loss")
                self.assertEqual(row["eval_tokens"], 8)
                self.assertAlmostEqual(row["eval_loss"], 2.5, delta=1e-6)

    def test_d01_ranks_and_micro_batches_without_a_valid_token(self):
        """Three sequences, evaluated where a batch has eight: the rest is masked."""
        alone = self.golden_run("t0", 3, recipe_values=harness.recipe(
            global_batch=1, learning_rate={"schedule": "constant", "peak": 0}))
        want = sum(row["loss"] for row in alone) / 3
        values = harness.recipe(learning_rate={"schedule": "constant", "peak": 0})
        for layout in ("1", "1:micro_batch=1", "4:dp=4", "4:dp=4,micro_batch=1", "2:tp=2"):
            with self.subTest(layout=layout):
                log = self.fresh("log", ".jsonl")
                self.golden_run("t0", 1, "--eval-data", golden("t0", "tokens.bin"),
                                "--eval-sequences", "3", layout=layout, recipe_values=values,
                                log=log)
                (row,) = harness.read_rows(log, "eval_loss")
                self.assertEqual(row["eval_tokens"], 3 * 32)
                self.assertTrue(abs(row["eval_loss"] - want) <= 1e-6, f"{row}, not {want}")

    def test_d05_three_and_four_are_five(self):
        """A gradient of norm 3 that every rank has, one of norm 4 that one rank has alone."""
        # One of eight targets is not the word that the head is sure of, so the gradients of
        # two rows of the head are what it reads, over eight, and of the norm's weights their
        # difference; both rows are on the last rank.
        read, apart = 8 / 2 ** 0.5, 8 * 3 / 4
        weights = harness.write_safetensors(self.path("weights"), known.weights(
            lambda i, j: 1, read, lambda i, j: apart if i == 7 else 0))
        data = self.tokens([7, 7, 7, 5, 7, 7, 7, 7, 7])
        values = harness.recipe(global_batch=8, sequence_length=1)
        for layout in ("1", "2:tp=2", "2:tp=2,sp=1", "2:dp=2", "2:dp=2,zero=1", "2:dp=2,zero=3",
                       "2:pp=2", "4:dp=2,tp=2,zero=3", "4:dp=4,zero=2,zero_group=2"):
            with self.subTest(layout=layout):
                ranks, _, pins = layout.partition(":")
                rows, _ = self.train(self.compiled(known.MODEL, ranks, pins, values), data, 1,
                                     "--init", weights)
                self.assertAlmostEqual(rows[0]["grad_norm"], 5, delta=5e-6)

    def test_d05_norm(self):
        for model in ("t0", "t0-tied"):
            want = self.first_steps("1", model)
            for layout in ("2:tp=2", "4:dp=2,tp=2", "4:tp=4", "4:dp=2,tp=2,sp=1,vocab=0", "2:pp=2",
                           "4:dp=4,zero=3,zero_group=2", "4:dp=4,zero=1,zero_group=2"):
                with self.subTest(model=model, layout=layout):
                    self.assertSteps(self.first_steps(layout, model), want, 1e-6, 1e-6)

    def test_d09_norm_weights_under_sequence_parallelism(self):
        """Those of queries and keys too, which all heads share."""
        for model, count in (("t0", 9), ("qwen3-mini", 13)):
            want = self.gradients("1", model)
            for layout in ("2:tp=2,sp=1", "4:tp=4,sp=1", "4:dp=2,tp=2,sp=1"):
                got = self.gradients(layout, model)
                norms = [name for name in want if "norm" in name]
                self.assertEqual(len(norms), count)
                for name in want:
                    self.assertNear(got[name], want[name], 1e-6, f"{layout} {name}")
                for name in norms:
                    # An average over the ranks would be far off.
                    self.assertGreater(max(map(abs, want[name][1])), 1e-4)

    def test_zero_in_uneven_shares(self):
        """Three ranks share the state of tensors whose sizes 3 does not divide."""
        model = harness.config("t0-vocab251")
        values = harness.recipe(global_batch=6)
        data = golden("t0-vocab251", "tokens.bin")
        alone, _ = self.train(self.compiled(model, 1, None, values), data, 5)
        for pins, ranks in (("zero=1", 3), ("zero=2", 3), ("zero=3", 3), ("dp=3,tp=2,zero=3", 6)):
            with self.subTest(pins=pins):
                cut, _ = self.train(self.compiled(model, ranks, pins, values), data, 5)
                self.assertSteps(cut, alone, 1e-5, 1e-5)

    def test_overlap_changes_no_bit(self):
        """Weights a layer ahead, gradients a layer behind: the same numbers to the last bit."""
        for layout, model in (("2:dp=2", "t0"), ("2:dp=2,micro_batch=2", "t0"), ("2:dp=2,zero=1", "gpt2-mini"),
                              ("4:dp=4,zero=1,micro_batch=1", "t0-tied"),
                              ("2:dp=2,zero=2,micro_batch=2", "t0"), ("3:dp=3,zero=3", "t0"),
                              ("4:dp=2,tp=2,sp=1,zero=3,recompute=full", "gpt2-mini"),
                              ("4:pp=2,dp=2,zero=3,micro_batch=1", "t0"),
                              ("4:pp=2,dp=2,zero=2,micro_batch=1,schedule=zb-h1", "t0-tied"),
                              # The last way back of a stage sums.
                              ("4:pp=2,dp=2,micro_batch=1", "t0"),
                              ("4:pp=2,dp=2,zero=1,micro_batch=1,schedule=gpipe", "t0-tied"),
                              ("4:pp=2,dp=2,zero=1,micro_batch=1,schedule=zb-h1", "t0-moe"),
                              ("4:pp=2,vp=2,dp=2,zero=1,micro_batch=1", "gemma2-mini"),
                              ("4:cp=2,dp=2,zero=3", "t0"), ("4:dp=4,zero=3,zero_group=2", "t0"),
                              ("4:dp=4,ep=2,zero=3", "t0-moe"),
                              # Layers that alternate in kind.
                              ("2:dp=2", "gemma2-mini"), ("2:dp=2,zero=1", "gpt-oss-mini"),
                              ("2:dp=2,zero=3", "gpt-oss-mini"), ("3:dp=3,zero=3", "gemma2-mini"),
                              ("4:dp=2,tp=2,zero=3,recompute=full", "gemma2-mini"),
                              ("4:pp=2,dp=2,zero=3,micro_batch=1", "gemma2-mini"),
                              ("2:dp=2,zero=2", "deepseek-v3-mini"),
                              ("2:dp=2,zero=3", "gemma3-mini")):
            with self.subTest(layout=layout, model=model):
                batch = harness.recipe(global_batch=6 if "dp=3" in layout else 8)
                apart, beside = (self.golden_run(model, 4, layout=layout + overlap,
                                                 recipe_values=batch)
                                 for overlap in ("", ",overlap=1"))
                self.assertSteps(beside, apart, loss=0.0, norm=0.0)

    def test_zero_holds_less(self):
        """State of one of four ranks in bytes a parameter: 16, 10, 7 and 4."""
        held = []
        for zero in (0, 1, 2, 3):
            done = harness.run(self.compile_command(harness.config(), 4, f"dp=4,zero={zero}")
                               + ["--emit=image"])
            self.assertEqual(done.returncode, 0, done.stderr)
            image = json.loads(done.stdout)
            held.append(sum(entry[slot][2] for entry in image["state"]
                            for slot in ("value", "gradient", "moment1", "moment2")))
        # Padding of segments aside; all sizes of t0 are multiples of 4.
        self.assertEqual([16 * n / held[0] for n in held], [16, 10, 7, 4])

    def test_bf16_weights_are_rounded_before_they_are_gathered(self):
        """ZeRO-3 gathers what products take rounded in half the bytes; no bit changes."""
        bf16, gathered = harness.recipe(precision="bf16"), {}
        for values in (harness.recipe(), bf16):
            done = harness.run(self.compile_command(harness.config(), 4, "dp=4,zero=3", values) +
                               ["--emit=comm", "--json"])
            self.assertEqual(done.returncode, 0, done.stderr)
            for row in json.loads(done.stdout)["communication"]["rows"]:
                if row["kind"] == "all_gather" and row["source"].endswith("weight value"):
                    gathered.setdefault(row["source"], []).append(row["total"])
        halves = {name for name, bytes in gathered.items() if bytes[0] == 2 * bytes[-1]}
        whole = {name for name, bytes in gathered.items() if bytes[0] == bytes[-1]}
        self.assertEqual(halves | whole, set(gathered))
        self.assertEqual({name.split(".")[-2] for name in halves},
                         {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                          "down_proj", "lm_head"})
        self.assertSteps(self.first_steps("4:dp=4,zero=3", steps=5, precision="bf16"),
                         self.first_steps("4:dp=4,zero=2", steps=5, precision="bf16"))

    def test_recompute_holds_less_and_changes_little(self):
        """Between forward and backward only what layers are given is kept, or products besides."""
        arenas = []
        for pins in ("recompute=none", "recompute=selective", "recompute=full"):
            done = harness.run(self.compile_command(harness.config(), 1, pins) + ["--emit=image"])
            self.assertEqual(done.returncode, 0, done.stderr)
            arenas.append(next(s["bytes"] for s in json.loads(done.stdout)["segments"]
                               if s["name"] == "arena"))
        self.assertLess(arenas[2], 0.6 * arenas[0])
        self.assertLess(arenas[1], 0.8 * arenas[0])
        self.assertGreater(arenas[1], arenas[2])
        for layout in ("1", "2:tp=2,sp=1", "2:pp=2,micro_batch=2,schedule=zb-h1", "2:dp=2,zero=3"):
            kept = self.first_steps(layout, steps=5)
            for value in ("selective", "full"):
                with self.subTest(layout=layout, value=value):
                    pins = layout + ("," if ":" in layout else ":") + f"recompute={value}"
                    self.assertSteps(self.first_steps(pins, steps=5), kept, 1e-6, 1e-6)

    def test_zero_saves_and_goes_on_under_any_stage(self):
        """Moments in shares are saved in global coordinates: another stage goes on from them."""
        folder, log = self.fresh("checkpoint"), self.path("log.jsonl")
        flags = ["--checkpoint", folder, "--resume"]
        for steps, layout in ((2, "2:dp=2,zero=1"), (4, "4:dp=4,zero=3"),
                              (6, "4:dp=2,tp=2,zero=2"), (8, "3:cp=3,zero=3"),
                              (10, "4:dp=2,cp=2,zero=1")):
            rows = self.golden_run("t0", steps, *flags, layout=layout, log=log,
                                   recipe_values=harness.recipe(learning_rate={
                                       "schedule": "constant", "peak": 1e-3, "warmup": 0}))
        want = self.golden_run("t0", 10, recipe_values=harness.recipe(learning_rate={
            "schedule": "constant", "peak": 1e-3, "warmup": 0}))
        self.assertSteps(rows, want, 1e-5, 1e-5)

    def test_experts_go_on_on_other_ranks(self):
        """Saved where every rank has some of the experts, resumed where others have them."""
        folder, log = self.fresh("checkpoint"), self.path("log.jsonl")
        values = harness.recipe(learning_rate={"schedule": "constant", "peak": 1e-3, "warmup": 0})
        for steps, layout in ((2, "2:dp=2,ep=2"), (4, "4:dp=2,tp=2,ep=4,zero=1"), (6, "1"),
                              (8, "2:tp=2,ep=2,sp=1")):
            rows = self.golden_run("t0-moe", steps, "--checkpoint", folder, "--resume",
                                   layout=layout, log=log, recipe_values=values)
        self.assertSteps(rows, self.golden_run("t0-moe", 8, recipe_values=values), 1e-5, 5e-5)

    def test_fresh_experts_do_not_depend_on_the_layout(self):
        """Seeded weights, exported after a step whose rate is 0: a tensor an expert, equal bits."""
        values = harness.recipe(learning_rate={"schedule": "constant", "peak": 0.0, "warmup": 0})
        exported = []
        for ranks, pins in ((1, None), (2, "dp=2,ep=2"), (4, "dp=2,tp=2,ep=4"), (4, "dp=4,ep=4"),
                            (4, "tp=4")):
            out = self.fresh("out")
            binary = self.compiled(harness.config("t0-moe"), ranks, pins,
                                   {**values, "global_batch": 12})
            self.train(binary, golden("t0-moe", "tokens.bin"), 1, "--export", out)
            with open(os.path.join(out, "model.safetensors"), "rb") as file:
                exported.append(file.read())
        self.assertEqual(len(harness.read_safetensors(os.path.join(out, "model.safetensors"))), 79)
        for other in exported[1:]:
            self.assertTrue(other == exported[0])


if __name__ == "__main__":
    harness.main()
