"""`cleave verify`: layouts that agree, and planted faults that it finds and names.

A fault is an edit of the program of a plan, as a pass that got something wrong would have
left it.
"""
import json
import os
import re
import time
import unittest

import harness
from harness import CLEAVE, golden, run

CONFIGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Frontend", "configs")


def notes(error):
    """The parts of a mismatch by name."""
    return dict(note["message"].split(": ", 1) for note in error["notes"])


class Verify(harness.Case):
    def verified(self, *words):
        """The report of layouts that agree."""
        done = run([CLEAVE, "verify", *words, "--json"])
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")
        report = json.loads(done.stdout)
        self.assertTrue(report["equal"])
        return report


class Agreement(Verify):
    def test_a_layout_and_one_rank(self):
        report = self.verified(golden("t0", "config.json"), "--pin", "tp=2,dp=2,sp=1")
        self.assertEqual((report["ranks"], report["against_ranks"]), (4, 1))
        self.assertEqual(report["shrunk"]["hidden_size"], [64, 8])
        self.assertEqual(report["steps"], 2)
        self.assertGreater(report["values"], 200)
        # Eleven matrices and vectors of a layer, embedding, last norm, head.
        self.assertEqual(report["gradients"], 2 * (2 * 9 + 3))
        self.assertLess(report["largest_difference"], 1e-12)
        self.assertEqual(len(report["losses"]), 2)

    def test_the_largest_model_in_a_pipeline_takes_seconds(self):
        begin = time.monotonic()
        report = self.verified(os.path.join(CONFIGS, "llama-3.1-405b.json"), "--pin", "pp=4,tp=4")
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(report["ranks"], 16)
        # 31 and 32 layers of a stage become one and two; heads stay 16 to a key head.
        self.assertEqual(report["shrunk"]["num_hidden_layers"], [126, 6])
        self.assertEqual(report["shrunk"]["num_attention_heads"], [128, 64])
        self.assertEqual(report["shrunk"]["num_key_value_heads"], [8, 4])

    def test_sizes_keep_their_rests(self):
        shrunk = self.verified(os.path.join(CONFIGS, "gpt2-xl.json"), "--pin", "tp=5,dp=2")["shrunk"]
        for key in ("n_embd", "n_head", "vocab_size"):
            before, after = shrunk[key]
            self.assertEqual(before % 10, after % 10, key)

    def test_kinds_of_layers_stay(self):
        shrunk = self.verified(os.path.join(CONFIGS, "gemma-3-27b.json"), "--pin", "tp=2,cp=2")["shrunk"]
        # Five with a window, one without; a window ends within the shorter sequence.
        self.assertEqual(shrunk["num_hidden_layers"], [62, 6])
        self.assertLess(shrunk["sliding_window"][1], shrunk["sequence_length"][1])

    def test_every_kind_of_cut(self):
        for model, pins in (("t0-tied", "pp=3,dp=2"), ("t0", "zero=3,dp=2,cp=2,tp=2,recompute=full"),
                            ("gpt2-mini", "tp=4,vocab=0"), ("qwen3-mini", "pp=2,schedule=zb-h1,tp=2"),
                            ("t0-vocab251", "tp=4,pp=2,vp=2"), ("mistral-window-mini", "cp=3,tp=2,sp=1"),
                            ("t0-moe-aux", "pp=2,dp=2,ep=2"), ("t0-moe-aux", "cp=4,ep=2,zero=3")):
            with self.subTest(model=model, pins=pins):
                self.verified(golden(model, "config.json"), "--pin", pins)

    def test_experts_and_latent_attention(self):
        for pins in ("tp=2,dp=2,ep=2", "pp=2,cp=2,zero=2"):
            with self.subTest(pins=pins):
                shrunk = self.verified(os.path.join(CONFIGS, "deepseek-v3.json"), "--pin", pins)["shrunk"]
                # Three dense layers, then those with experts.
                self.assertEqual(shrunk["num_hidden_layers"], [61, 4])
                self.assertLess(shrunk["kv_lora_rank"][1], 512)

    def test_one_plan_against_another(self):
        plans = []
        for pins in ("tp=2,dp=2,micro_batch=2", "pp=2,dp=2,micro_batch=1"):
            folder = self.fresh("kept")
            self.verified(golden("t0", "config.json"), "--pin", pins, "--global-batch", "8",
                          "--keep", folder)
            plan = self.fresh("plan", ".mlir")
            done = run([CLEAVE, "compile", golden("t0", "config.json"), "--cluster", "local:4",
                        "--pin", pins, "--global-batch", "8", "--emit=plan", "-o", plan])
            self.assertEqual(done.returncode, 0, done.stderr)
            plans.append(plan)
        report = self.verified(golden("t0", "config.json"), "--plan", plans[0], "--against", plans[1])
        self.assertEqual((report["layout"], report["against"]),
                         ("data=2 × tensor=2", "pipe=2 × data=2"))

    def test_weights_and_tokens_of_files(self):
        report = self.verified(golden("t0", "config.json"), "--pin", "dp=2", "--full-size",
                               "--init", golden("t0", "model.safetensors"), "--data",
                               golden("t0", "tokens.bin"), "--seq-len", "32", "--global-batch", "8",
                               "--steps", "1")
        expected = harness.read_json(golden("t0", "expected.json"))
        self.assertEqual(report["shrunk"], {})
        self.assertAlmostEqual(report["losses"][0], expected["steps"][0]["loss"], delta=1e-9)


class Faults(Verify):
    def program(self, model, pins, *words):
        """What a plan runs: the words that verify it, and its text."""
        folder = self.fresh("kept")
        self.verified(golden(model, "config.json"), "--pin", pins, "--keep", folder, *words)
        with open(os.path.join(folder, "program.mlir"), encoding="utf-8") as file:
            text = file.read()
        return ["--plan", os.path.join(folder, "plan.mlir")], folder, text

    def mismatch(self, planned, text):
        """The parts of what is found in the edited program."""
        plan, folder, before = planned
        self.assertNotEqual(text, before, "the fault is not planted")
        path = self.fresh("program", ".mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        error = self.refused([CLEAVE, "verify", folder, *plan, "--program", path],
                             "verify.mismatch", 4)
        return notes(error)

    @staticmethod
    def inside(text, function, edit):
        """The text with one function edited."""
        begin = text.index(f"@{function}(")
        end = text.index("func.func", begin)
        return text[:begin] + edit(text[begin:end]) + text[end:]

    @staticmethod
    def without(op, body, after=""):
        """A function in which what is given to the first `op` behind `after` is used as it is."""
        start = body.index(after)
        line = re.search(rf"\n *(%\w+) = {op} (%[\w#]+) [^\n]*", body[start:])
        rest = body[start + line.end():]
        return body[:start + line.start()] + re.sub(rf"{line[1]}(?![\w#])", line[2], rest)

    def test_unedited(self):
        plan, folder, _ = self.program("t0", "tp=2,dp=2")
        self.verified(folder, *plan, "--program", os.path.join(folder, "program.mlir"))

    def test_d03_a_skipped_collective(self):
        planned = self.program("t0", "tp=2,dp=2")
        text = self.inside(planned[2], "block.forward", lambda body: self.without(
            "dist.all_reduce", body, '"attention.out"'))
        found = self.mismatch(planned, text)
        self.assertEqual(found["path"], "mlp.residual")
        self.assertEqual((found["step"], found["micro_batch"], found["layer"], found["phase"],
                          found["rank"]), ("1", "0", "0", "forward", "0"))
        self.assertIn("attention.out (agrees)", found["reads"])

    def test_a_skipped_collective_of_the_backward(self):
        planned = self.program("t0", "tp=2,dp=2")
        text = self.inside(planned[2], "block.backward", lambda body: self.without(
            "dist.all_reduce", body, '"mlp.norm"'))
        found = self.mismatch(planned, text)
        # From the last layer to the first.
        self.assertEqual((found["layer"], found["phase"], found["path"]),
                         ("1", "backward", "mlp.norm"))

    def test_a_skipped_collective_of_a_part(self):
        planned = self.program("t0", "pp=2,tp=2")
        last = planned[2].index("module @part.1")
        text = planned[2][:last] + self.inside(planned[2][last:], "block.forward", lambda body: (
            self.without("dist.all_reduce", body, '"mlp.down"')))
        found = self.mismatch(planned, text)
        # Its stage has the second of two layers; the head adds up what that leaves.
        self.assertEqual((found["layer"], found["path"], found["rank"]),
                         ("head", "head.residual", "2"))

    def test_a_wrong_axis(self):
        planned = self.program("t0", "tp=2,dp=2")
        load = planned[2].index('q_proj.weight" gradient', planned[2].index("@update("))
        text = planned[2][:load] + planned[2][load:].replace('on @mesh ["data"]',
                                                             'on @mesh ["tensor"]', 1)
        found = self.mismatch(planned, text)
        self.assertEqual(found["phase"], "reduced gradient")
        self.assertRegex(found["tensor"], r"^model\.layers\.\d\.self_attn\.q_proj\.weight$")

    def test_swapped_ranks(self):
        planned = self.program("t0", "dp=2,cp=2,zero=3")
        gather = planned[2].index("dist.all_gather", planned[2].index("nn.repeat"))
        text = planned[2][:gather] + planned[2][gather:].replace('["data", "context"]',
                                                                 '["context", "data"]', 1)
        found = self.mismatch(planned, text)
        self.assertEqual((found["layer"], found["phase"], found["path"]),
                         ("0", "forward", "attention.norm"))

    def test_a_swapped_mesh(self):
        planned = self.program("t0", "tp=2,dp=2")
        text = planned[2].replace('@mesh ["data", "tensor"] =', '@mesh ["tensor", "data"] =', 1)
        found = self.mismatch(planned, text)
        self.assertEqual((found["step"], found["layer"], found["path"]),
                         ("1", "embed", "embed.tokens"))

    def test_a12_an_unsummed_tied_copy(self):
        planned = self.program("t0-tied", "pp=2,dp=2")
        text = planned[2]
        for part in ("part.0", "part.1"):
            begin = text.index(f"module @{part}")
            text = text[:begin] + self.inside(text[begin:], "update", lambda body: self.without(
                "dist.stage_sum", body, "embed_tokens.weight gradient"))
        found = self.mismatch(planned, text)
        self.assertEqual((found["phase"], found["tensor"]),
                         ("reduced gradient", "model.embed_tokens.weight"))

    def test_a_sum_that_one_place_leaves_out(self):
        plan, folder, text = self.program("t0-tied", "pp=2,dp=2")
        begin = text.index("module @part.1")
        text = text[:begin] + self.inside(text[begin:], "update", lambda body: self.without(
            "dist.stage_sum", body, "embed_tokens.weight gradient"))
        path = self.fresh("program", ".mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.refused([CLEAVE, "verify", folder, *plan, "--program", path], "verify.program_failed")

    def test_an_average_for_a_sum(self):
        planned = self.program("t0", "tp=2,dp=2")

        def edit(body):
            start = body.index('"attention.out"')
            line = re.search(r"\n *(%\w+) = dist.all_reduce [^\n]*: (tensor<[^\n]*>)", body[start:])
            name, kind = line[1], line[2]
            average = (f"\n    %half = nn.fill {{value = 0.5 : f64}} : () -> tensor<f32>"
                       f"\n    %average = nn.mul {name}, %half : ({kind}, tensor<f32>) -> {kind}")
            rest = re.sub(rf"{name}(?![\w#])", "%average", body[start + line.end():])
            return body[:start + line.end()] + average + rest

        found = self.mismatch(planned, self.inside(planned[2], "block.forward", edit))
        self.assertEqual((found["layer"], found["phase"], found["path"]),
                         ("0", "forward", "mlp.residual"))

    def test_an_average_of_a_gradient(self):
        """Adam hardly sees it: the gradients themselves are compared."""
        planned = self.program("t0", "dp=2")
        begin = planned[2].index("lm_head.weight gradient", planned[2].index("@update("))
        line = re.search(r"\n *(%\w+) = dist.all_reduce [^\n]*: (tensor<[^\n]*>)", planned[2][begin:])
        at = begin + line.end()
        name, kind = line[1], line[2]
        average = (f"\n    %half = nn.fill {{value = 0.5 : f64}} : () -> tensor<f32>"
                   f"\n    %average = nn.mul {name}, %half : ({kind}, tensor<f32>) -> {kind}")
        end = planned[2].index("func.func", at)
        rest = re.sub(rf"{name}(?![\w#])", "%average", planned[2][at:end])
        found = self.mismatch(planned, planned[2][:at] + average + rest + planned[2][end:])
        self.assertEqual((found["phase"], found["tensor"]), ("reduced gradient", "lm_head.weight"))

    def test_a_wrong_update(self):
        planned = self.program("t0", "dp=2")
        found = self.mismatch(planned, planned[2].replace("weight_decay = 1.0", "weight_decay = 2.0", 1))
        self.assertEqual((found["phase"], found["tensor"]), ("weight", "model.embed_tokens.weight"))


class Refusals(Verify):
    def edited(self, path, changes):
        """A copy of a file with some of its text replaced."""
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        copy = self.fresh("edited", ".mlir")
        with open(copy, "w", encoding="utf-8") as file:
            file.write(text)
        return copy

    def test_refused(self):
        t0 = golden("t0", "config.json")
        module = self.fresh("model", ".mlir")
        run([CLEAVE, "compile", t0, "--emit=nn", "-o", module])
        plan, other = self.fresh("plan", ".mlir"), self.fresh("plan", ".mlir")
        for path, batch in ((plan, "4"), (other, "8")):
            run([CLEAVE, "compile", t0, "--cluster", "local:2", "--pin", "dp=2", "--global-batch",
                 batch, "--emit=plan", "-o", path])
        # 2 modulo 2^64.
        many = self.edited(plan, (('"data" [2]', '"data" [3]'), ('"tensor" [1]', f'"tensor" [{(2 ** 64 + 2) // 3}]')))
        self.refused([CLEAVE, "compile", t0, "--plan", many, "--cluster", "local:2", "--emit=dist"],
                     "plan.ranks_mismatch")
        broken = self.fresh("program", ".mlir")
        with open(broken, "w", encoding="utf-8") as file:
            file.write("module {")
        for words, kind in (
                ([module, "--pin", "dp=2"], "verify.not_shrinkable"),
                ([t0, "--pin", "dp=2", "--init", golden("t0", "model.safetensors")], "verify.init_size"),
                ([t0, "--plan", plan, "--against", other], "verify.batch_mismatch"),
                ([t0, "--plan", plan, "--pin", "dp=2"], "plan.conflict"),
                ([t0, "--plan", plan, "--cluster", "local:4"], "plan.ranks_mismatch"),
                ([t0, "--plan", plan, "--global-batch", "8"], "plan.conflict"),
                ([t0, "--plan", plan, "--set", "precision=bf16"], "plan.conflict"),
                ([t0, "--pin", "dp=2", "--program", module], "verify.program_mismatch"),
                ([t0, "--pin", "dp=2", "--program", broken], "verify.program_invalid"),
                ([t0, "--pin", "dp=2", "--steps", "0"], "usage.bad_value"),
                ([t0, "--pin", "tp=3"], "plan.heads_indivisible"),
                ([t0, "--pin", "dp=16385"], "verify.too_many_ranks"),
                ([t0, "--pin", f"dp={2 ** 62},tp={2 ** 62}"], "verify.too_many_ranks"),
                ([t0, "--plan", many], "verify.too_many_ranks"),
                ([t0, "--plan", many, "--cluster", "local:2"], "verify.too_many_ranks"),
                ([t0, "--plan", plan, "--against", many], "verify.too_many_ranks"),
                ([t0, "--plan", t0], "plan.unreadable")):
            with self.subTest(kind=kind):
                error = self.refused([CLEAVE, "verify", *words], kind)
                # Without a cluster each degree that divides the heads can be had.
                if kind == "plan.heads_indivisible":
                    self.assertEqual(error["suggestions"], ["tp one of 2, 4"])

    def test_rounding_is_no_mistake_of_a_layout(self):
        """bf16 beside fp32 differs; what is suggested agrees."""
        t0 = golden("t0", "config.json")
        error = self.refused([CLEAVE, "verify", t0, "--pin", "dp=2", "--set", "precision=bf16"],
                             "verify.mismatch", 4)
        self.assertTrue(any("precision=fp32" in s for s in error["suggestions"]), error)
        self.assertTrue(any("--tolerance 0.05" in s for s in error["suggestions"]), error)
        done = run([CLEAVE, "verify", t0, "--pin", "dp=2", "--set", "precision=bf16",
                    "--tolerance", "0.05"])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_plan_in_bf16_is_compared_by_its_layout(self):
        """Plans for devices are in bf16 by default; nobody has to know that to verify one."""
        t0, plan = golden("t0", "config.json"), self.path("narrow.mlir")
        done = run([CLEAVE, "compile", t0, "--cluster", "dgx-a100:1", "--pin", "dp=8,zero=1",
                    "--set", "precision=bf16", "--emit=plan", "-o", plan])
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(plan, encoding="utf-8") as file:
            self.assertIn("plan.precision", file.read())
        command = [CLEAVE, "verify", t0, "--plan", plan]
        for more in ([], ["--set", "precision=fp32"], ["--against", plan]):
            done = run([*command, *more])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("compared in fp32, without its lines plan.precision", done.stderr)
        # What is asked for is done.
        self.refused([*command, "--tolerance", "1e-9"], "verify.mismatch", 4)
        self.refused([*command, "--set", "precision=bf16"], "verify.mismatch", 4)
        done = run([*command, "--tolerance", "0.05"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("note", done.stderr)

    def test_one_rank_with_itself_is_said(self):
        done = run([CLEAVE, "verify", golden("t0", "config.json"), "--pin", "zero=3"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("one rank is compared with itself", done.stderr)


if __name__ == "__main__":
    harness.main()
