"""Pipelines as plans and as tables: what users ask for, and the numbers that come of it.

Formulas and sums are worked out here again, from the printed plan and the printed table.
"""
import itertools
import json
import re

import harness
from harness import config, recipe

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-h1")


class Pipelines(harness.Case):
    def printed(self, model, ranks, pins, emit, values=None, extra=()):
        done = harness.run(self.compile_command(model, ranks, pins, values or recipe(),
                                                [f"--emit={emit}", *extra]))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def table(self, model, ranks, pins, values=None):
        return json.loads(self.printed(model, ranks, pins, "pipe", values, ["--json"]))["schedule"]

    def stages(self, plan):
        """For each stage a list of (kind, count)."""
        found = re.findall(r"plan.stage layers \[(.*)\] counts \[(.*)\]", plan)
        return [list(zip(json.loads(f"[{kinds}]"), json.loads(f"[{counts}]")))
                for kinds, counts in found]

    def blocks(self, plan):
        return [sum(n for kind, n in stage if kind == "block") for stage in self.stages(plan)]

    def test_a03_layers_are_dealt_out_exactly(self):
        """Any number of layers, contiguous, evenly."""
        thirty = config(num_hidden_layers=30)
        self.assertEqual(self.blocks(self.printed(thirty, 4, "pp=4", "plan")), [8, 8, 7, 7])
        for layers, pp, vp in itertools.product((4, 7, 30), (2, 3, 4), (1, 2)):
            if pp * vp > layers:
                continue
            with self.subTest(layers=layers, pp=pp, vp=vp):
                plan = self.printed(config(num_hidden_layers=layers), pp, f"pp={pp},vp={vp}", "plan")
                blocks = self.blocks(plan)
                self.assertEqual(len(blocks), pp * vp)
                self.assertEqual(sum(blocks), layers)
                self.assertLessEqual(max(blocks) - min(blocks), 1)
                order = [kind for stage in self.stages(plan) for kind, n in stage for _ in range(n)]
                self.assertEqual(order, ["embed"] + ["block"] * layers + ["head"])

    def test_embedding_and_head_alone(self):
        """As many stages as layers; the ends are stages of their own."""
        plan = self.printed(config(), 6, "pp=6", "plan")
        self.assertEqual(self.stages(plan), [[("embed", 1)]] + [[("block", 1)]] * 4 + [[("head", 1)]])
        # By hand, as anyone may: an embedding alone, uneven blocks.
        plan = self.printed(config(), 2, "pp=2", "plan")
        first, second = re.findall(r"plan.stage .*", plan)
        edited = plan.replace(first, 'plan.stage layers ["embed"] counts [1]')
        edited = edited.replace(second, 'plan.stage layers ["block", "head"] counts [4, 1]')
        path = self.path("plan.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(edited)
        text = self.printed(config(), 2, None, "pipe", extra=["--plan", path])
        self.assertIn('pipe.stage 0 on 0 layers ["embed"] counts [1]', text)
        self.assertIn('pipe.stage 1 on 1 layers ["block", "head"] counts [4, 1]', text)

    def test_a12_tied_embedding_is_noted(self):
        """One parameter with two places, and the plan says so."""
        for pp in (2, 4):
            plan = self.printed(config("t0-tied"), pp, f"pp={pp}", "plan")
            self.assertIn(f'plan.shared "model.embed_tokens.weight" stages [0, {pp - 1}]', plan)
        self.assertNotIn("plan.shared", self.printed(config(), 4, "pp=4", "plan"))

    def check_cells(self, table, apart):
        """Each once, none before what it depends on, none beside another on a rank."""
        ends = {}
        for cell in table["cells"]:
            key = (cell["kind"], cell["stage"], cell["micro_batch"])
            self.assertNotIn(key, ends)
            self.assertEqual(cell["rank"], cell["stage"] % table["ranks"])
            ends[key] = cell
        kinds = ["forward", "backward"] + ["weight_gradient"] * apart
        last = table["stages"] - 1
        self.assertEqual(len(ends), len(kinds) * table["stages"] * table["micro_batches"])
        for (kind, stage, micro), cell in ends.items():
            before = []
            if kind == "forward" and stage > 0:
                before.append(("forward", stage - 1, micro))
            if kind == "backward":
                before.append(("forward", stage, micro))
                if stage < last:
                    before.append(("backward", stage + 1, micro))
            if kind == "weight_gradient":
                before.append(("backward", stage, micro))
            for key in before:
                self.assertGreaterEqual(cell["start"], ends[key]["end"])
        for rank in range(table["ranks"]):
            cells = sorted((c["start"], c["end"]) for c in table["cells"] if c["rank"] == rank)
            for (_, end), (start, _) in zip(cells, cells[1:]):
                self.assertGreaterEqual(start, end)
        self.assertEqual(table["makespan"], max(cell["end"] for cell in table["cells"]))

    def in_flight(self, table, last):
        """For each rank the most micro-batches between the start of forward and the end of `last`."""
        most = []
        for rank in range(table["ranks"]):
            events = []
            for cell in table["cells"]:
                if cell["rank"] == rank and cell["kind"] == "forward":
                    events.append((cell["start"], 1))
                if cell["rank"] == rank and cell["kind"] == last:
                    events.append((cell["end"], -1))
            most.append(max(itertools.accumulate(n for _, n in sorted(events))))
        return most

    def test_j04_b04_one_forward_one_backward(self):
        """The table of four stages and eight micro-batches, and what is in flight."""
        eight = recipe(global_batch=8, micro_batch=1)
        table = self.table(config(), 4, "pp=4", eight)
        self.check_cells(table, apart=False)
        for kind in ("forward", "backward"):
            self.assertEqual(sum(c["kind"] == kind for c in table["cells"]), 32)
        self.assertEqual(table["makespan"], 33)
        self.assertEqual([table["makespan"] - busy for busy in table["busy"]], [9] * 4)
        self.assertEqual(table["in_flight"], [4, 3, 2, 1])
        self.assertEqual(self.in_flight(table, "backward"), [4, 3, 2, 1])
        two = self.table(config(), 4, "pp=4", recipe(global_batch=2, micro_batch=1))
        self.assertEqual(two["in_flight"], [2, 2, 2, 1])
        all_forward = self.table(config(), 4, "pp=4,schedule=gpipe", eight)
        self.assertEqual(all_forward["in_flight"], [8] * 4)

    def test_a09_c05_bubbles(self):
        """(P - 1) / (M + P - 1), also with fewer micro-batches than stages."""
        for pp, batch, bubble in ((6, 3, 5 / 8), (8, 8, 7 / 15), (8, 16, 7 / 23)):
            deep = config(num_hidden_layers=8)
            table = self.table(deep, pp, f"pp={pp}", recipe(global_batch=batch, micro_batch=1))
            self.assertAlmostEqual(table["bubble"], bubble, places=12)

    def test_every_schedule(self):
        """Sizes at, below and beside multiples of the ranks."""
        deep = config(num_hidden_layers=12)
        for name, pp, batch in itertools.product(SCHEDULES, (2, 3, 4), (1, 2, 4, 5, 8, 12)):
            with self.subTest(schedule=name, pp=pp, batch=batch):
                vp = 3 if name == "interleaved" else 1
                table = self.table(deep, pp, f"pp={pp},vp={vp},schedule={name}",
                                   recipe(global_batch=batch, micro_batch=1))
                self.assertEqual(table["name"], name)
                apart = name == "zb-h1"
                self.check_cells(table, apart)
                last = "weight_gradient" if apart else "backward"
                self.assertEqual(table["in_flight"], self.in_flight(table, last))
                idle = {table["makespan"] - busy for busy in table["busy"]}
                if name in ("gpipe", "1f1b"):
                    self.assertEqual(idle, {3 * (pp - 1)})
                elif apart and batch >= pp:
                    self.assertEqual(idle, {pp - 1})
                elif name == "interleaved" and batch % pp == 0:
                    self.assertEqual(idle, {3 * (pp - 1)})

    def test_a_head_in_pieces_sums_its_gradients_last(self):
        """It adds to them on the way forward; where the stage's way back sums gradients over ranks, that
        is the entry which does it for the head too, whether the stage has other layers or none."""
        few = recipe(sequence_length=32, global_batch=8, learning_rate={"schedule": "constant", "peak": 1e-2})
        model = harness.golden("t0", "config.json")
        plan = self.printed(model, 4, "pp=2,dp=2,overlap=1,zero=1,micro_batch=1", "plan", few)
        pieces = '    plan.chunk "head" along ["batch", "sequence"] pieces [1, 4]\n'
        at = plan.index("    plan.parameter")
        first, second = re.findall(r"plan.stage .*", plan)
        one = self.golden_run("t0", 6, recipe_values=few)
        for stages in ((first, second), ('plan.stage layers ["embed", "block"] counts [1, 4]',
                                         'plan.stage layers ["head"] counts [1]')):
            with self.subTest(stages=stages):
                path = self.fresh("pieces", ".mlir")
                with open(path, "w", encoding="utf-8") as file:
                    file.write((plan[:at] + pieces + plan[at:]).replace(first, stages[0])
                               .replace(second, stages[1]))
                done = harness.run([harness.CLEAVE, "verify", model, "--plan", path])
                self.assertEqual(done.returncode, 0, done.stderr)
                binary = self.compiled(model, 4, None, few, ["--plan", path])
                steps, _ = self.train(binary, harness.golden("t0", "tokens.bin"), 6, "--init",
                                      harness.golden("t0", "model.safetensors"))
                self.assertSteps(steps, one, loss=1e-5, norm=5e-5)

    def test_beside_other_parallelism(self):
        """The pipeline's axis is the outermost; micro-batches are of a data rank."""
        plan = self.printed(config(), 8, "pp=2,dp=2,tp=2,micro_batch=1", "plan",
                             recipe(global_batch=8))
        axes = re.findall(r'plan.axis "(\w+)" \[(.*)\]', plan)
        self.assertEqual(axes, [("pipe", "2"), ("data", "2"), ("tensor", "2")])
        table = self.table(config(), 8, "pp=2,dp=2,tp=2,micro_batch=1", recipe(global_batch=8))
        self.assertEqual((table["ranks"], table["micro_batches"]), (2, 4))
        # Left out, a micro-batch is small enough that a pipeline has a use.
        free = self.table(config(), 2, "pp=2", recipe(global_batch=64))
        self.assertEqual(free["micro_batches"], 8)

    def test_same_request_same_bytes(self):
        for emit in ("plan", "pipe"):
            once, again = (self.printed(config(), 4, "pp=2,vp=2", emit) for _ in range(2))
            self.assertEqual(once, again)

    def test_no_pipeline_is_one_stage(self):
        plan = self.printed(config(), 1, None, "plan")
        self.assertNotIn("pipe", plan)
        self.assertEqual(plan, self.printed(config(), 1, "pp=1,vp=1,schedule=1f1b", "plan"))
        table = self.table(config(), 1, "micro_batch=2", recipe(global_batch=8))
        self.assertEqual((table["stages"], table["micro_batches"], table["bubble"]), (1, 4, 0))

    def test_a04_plans_that_do_not_fit(self):
        """A plan, edited wrongly at one place; one of them with too few layers."""
        four = recipe(global_batch=8, micro_batch=1)
        made = self.printed(config("t0-tied"), 4, "pp=2,tp=2,micro_batch=1", "plan", four)
        for old, new, kind, *says in (
                ("counts [1, 2]", "counts [1, 1]", "plan.stage_layers_mismatch", "3", "4"),
                ("counts [2, 1]", "counts [9223372036854775807, 1]", "plan.stage_layers_mismatch"),
                ('["block", "head"] counts [2, 1]', '["head", "block"] counts [1, 2]',
                 "plan.stage_layers_mismatch", "layer 3", "block"),
                ('["block", "head"]', '["blok", "head"]', "plan.unknown_kind", "block"),
                ('over "pipe"', 'over "pip"', "plan.unknown_axis", "pipe"),
                ('over "pipe"', 'over "tensor"', "plan.axis_used_twice", "tensor"),
                ('"1f1b"', '"1f2b"', "plan.unknown_schedule", "1f1b"),
                ('"1f1b"', '"interleaved"', "plan.schedule_stages", "1f1b"),
                ('"model.embed_tokens.weight" stages', '"model.norm.weight" stages',
                 "plan.shared_mismatch", "model.embed_tokens.weight"),
                ('"pipe" [2]', '"pipe" [1]', "plan.ranks_mismatch")):
            with self.subTest(new=new):
                self.assertIn(old, made)
                self.refused_plan(made.replace(old, new, 1), 4, four, kind, says)
        shared = re.search(r" *plan.shared.*\n", made)[0]
        self.refused_plan(made.replace(shared, ""), 4, four, "plan.shared_mismatch",
                     ["stages [0, 1]"])
        head = re.search(r" *plan.stage layers \[\"block\", \"head\"\].*\n", made)[0]
        more = ' plan.stage layers ["block"] counts [1]\n' + head.replace("[2, 1]", "[1, 1]")
        self.refused_plan(made.replace(head, more), 4, four, "plan.stages_indivisible", ["3", "2"])
        # A04: one stage that says it has fewer layers than the model.
        single = self.printed(config(), 1, None, "plan")
        layout = re.search(r" *plan.layout.*\n", single)[0]
        single = single.replace(layout, ' plan.axis "pipe" [1]\n' + layout + """
            plan.pipeline "1f1b" over "pipe" {
              plan.stage layers ["embed", "block", "head"] counts [1, 1, 1]
            }\n""")
        self.refused_plan(single, 1, None, "plan.stage_layers_mismatch", ["1", "4"], model=config())

    def refused_plan(self, plan, ranks, values, kind, says, model=None):
        path = self.fresh("plan", ".mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(plan)
        error = self.refused_compile(kind, model or config("t0-tied"), ranks, None,
                                     values or recipe(), extra=["--plan", path, "--emit=pipe"],
                                     says=says)
        self.assertTrue(error["rule"], error)
        self.assertTrue(error["suggestions"], error)
        self.assertTrue(error["where"], error)

    def edited_plan(self, model, ranks, pins, changes, values=None):
        """A plan file with some of the printed plan's text replaced."""
        text = self.printed(model, ranks, pins, "plan", values)
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        path = self.fresh("plan", ".mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a12_trains_as_one_rank(self):
        """Any schedule, number of micro-batches and company of other axes."""
        for model in ("t0", "t0-tied"):
            want = self.golden_run(model, 5)
            for layout in ("2:pp=2", "2:pp=2,micro_batch=8", "2:pp=2,schedule=gpipe",
                           "3:pp=3,micro_batch=4", "2:pp=2,vp=3", "4:pp=4,schedule=zb-h1",
                           "6:pp=6,micro_batch=2", "4:pp=2,dp=2,zero=2", "4:pp=2,tp=2,sp=1",
                           "6:pp=3,cp=2,schedule=zb-h1", "2:pp=2,recompute=full"):
                with self.subTest(model=model, layout=layout):
                    self.assertSteps(self.golden_run(model, 5, layout=layout), want, 1e-5, 2e-5)

    def test_a09_fewer_micro_batches_than_stages(self):
        """Six stages, three micro-batches, under every schedule; no wait without end."""
        model, values = config(), recipe(global_batch=3, micro_batch=1)
        data = harness.golden("t0", "tokens.bin")
        want, _ = self.train(self.compiled(model, 1, None, values), data, 4)
        for pins, ranks in (("pp=6", 6), ("pp=6,schedule=gpipe", 6), ("pp=6,schedule=zb-h1", 6),
                            ("pp=2,vp=3", 2)):
            with self.subTest(pins=pins):
                got, _ = self.train(self.compiled(model, ranks, pins, values), data, 4)
                self.assertSteps(got, want, 1e-5, 1e-5)

    def test_uneven_stages_and_ranks(self):
        """Stages of the embedding, of the head, of most layers; tokens in uneven shares."""
        want = self.golden_run("t0-tied", 4)
        model = harness.golden("t0-tied", "config.json")
        first = 'plan.stage layers ["embed", "block"] counts [1, 2]'
        last = 'plan.stage layers ["block", "head"] counts [2, 1]'
        for stages in ((1, 4), (0, 5)):
            alone, rest = ('layers ["embed"] counts [1]', 'layers ["block", "head"] counts [4, 1]')
            if stages[0] == 0:
                alone, rest = ('layers ["embed", "block"] counts [1, 4]', 'layers ["head"] counts [1]')
            plan = self.edited_plan(model, 2, "pp=2", [(first, "plan.stage " + alone),
                                                       (last, "plan.stage " + rest)])
            binary = self.compiled(model, 2, None, None, ["--plan", plan])
            rows, _ = self.train(binary, harness.golden("t0-tied", "tokens.bin"), 4, "--init",
                                 harness.golden("t0-tied", "model.safetensors"))
            self.assertSteps(rows, want, 1e-5, 2e-5)
        odd = recipe(sequence_length=13, global_batch=6)
        data = harness.golden("t0-vocab251", "tokens.bin")
        alone, _ = self.train(self.compiled(config("t0-vocab251"), 1, None, odd), data, 4)
        for ranks, pins in ((6, "pp=2,dp=3,zero=3"), (6, "pp=3,tp=2,sp=1"), (6, "pp=2,cp=3")):
            with self.subTest(pins=pins):
                cut, _ = self.train(self.compiled(config("t0-vocab251"), ranks, pins, odd), data, 4)
                self.assertSteps(cut, alone, 1e-5, 2e-5)

    def test_e03_e06_saved_under_one_layout_read_under_another(self):
        """A pipeline goes on from where others stopped, and they from it."""
        values = recipe(learning_rate={"schedule": "constant", "peak": 1e-3, "warmup": 0})
        for model in ("t0", "t0-tied"):
            folder, log = self.fresh("checkpoint"), self.fresh("log", ".jsonl")
            flags = ["--checkpoint", folder, "--resume"]
            for steps, layout in ((2, "4:pp=2,tp=2,sp=1"), (4, "1"), (6, "3:pp=3"),
                                  (8, "4:dp=2,tp=2,zero=3"), (10, "4:pp=2,vp=2,dp=2,zero=1")):
                rows = self.golden_run(model, steps, *flags, layout=layout, log=log,
                                       recipe_values=values)
            want = self.golden_run(model, 10, recipe_values=values)
            self.assertSteps(rows, want, 1e-5, 2e-5)

    def exported(self, layout, *flags, model="t0-tied", steps=0):
        out = self.fresh("export")
        ranks, _, pins = layout.partition(":")
        binary = self.compiled(harness.golden(model, "config.json"), ranks, pins)
        self.train(binary, harness.golden(model, "tokens.bin"), steps, "--export", out, *flags)
        return harness.read_safetensors(out + "/model.safetensors")

    def test_weights_start_and_leave_alike(self):
        """Initial weights depend on seed, name and element alone; a tied matrix is saved once."""
        alone = self.exported("1")
        self.assertNotIn("lm_head.weight", alone)
        for layout in ("2:pp=2", "4:pp=2,tp=2", "6:pp=6,micro_batch=1"):
            self.assertEqual(self.exported(layout), alone)

    def test_twice_the_same(self):
        runs = [self.exported("4:pp=2,dp=2,zero=1", steps=3) for _ in range(2)]
        self.assertEqual(runs[0], runs[1])

    def test_evaluates(self):
        """Three sequences, evaluated where a batch has eight, on stages that pass them on."""
        values = recipe(learning_rate={"schedule": "constant", "peak": 0})
        rows = []
        for layout in ("1", "2:pp=2", "2:pp=2,vp=2", "4:pp=2,dp=2,micro_batch=2", "3:pp=3"):
            log = self.fresh("log", ".jsonl")
            self.golden_run("t0", 1, "--eval-data", harness.golden("t0", "tokens.bin"),
                            "--eval-sequences", "3", layout=layout, recipe_values=values, log=log)
            (row,) = harness.read_rows(log, "eval_loss")
            self.assertEqual(row["eval_tokens"], 3 * 32)
            rows.append(row["eval_loss"])
        for loss in rows[1:]:
            self.assertTrue(abs(loss - rows[0]) <= 1e-6, rows)

    def test_b04_c05_memory_of_micro_batches_in_flight(self):
        """GPipe keeps all micro-batches, 1F1B on rank r at most P - r."""
        def slots(pins):
            image = json.loads(self.printed(config(), 4, pins, "image", recipe(global_batch=8)))
            return [next((s.get("copies", 1) for s in program["segments"] if s["name"] == "slots"))
                    for program in image["programs"]]
        self.assertEqual(slots("pp=4,micro_batch=1"), [4, 3, 2, 1])
        self.assertEqual(slots("pp=4,micro_batch=1,schedule=gpipe"), [8, 8, 8, 8])
        self.assertEqual(slots("pp=4,micro_batch=4"), [2, 2, 2, 1])


if __name__ == "__main__":
    harness.main()
