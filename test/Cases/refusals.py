"""Every refusal that can be reached here speaks of what the user gave.

It has a kind, values, the rule and a way out; it ends with exit code 2 and
leaves nothing behind. Kinds whose cases have a file of their own (weights,
data, checkpoints, configs) are asked there.
"""
import json
import os

import harness
from harness import CLEAVE, config, golden, llama, random_ids, recipe


class Refusals(harness.Case):
    def explained(self, error):
        """No part of the error is missing."""
        kind = error["kind"]
        # Of what is missing there is no value.
        self.assertTrue(error["given"] or error["where"] or "missing" in kind,
                        f"{kind} names no value: {error}")
        self.assertTrue(error["rule"], f"{kind} names no rule: {error}")
        self.assertTrue(error["suggestions"], f"{kind} has no suggestion: {error}")

    def check_pins(self, *cases, model=None, ranks=4):
        for pins, kind, *says in cases:
            with self.subTest(pins=pins):
                self.explained(self.refused_compile(kind, model or config(), ranks, pins, says=says))

    def test_pins(self):
        self.check_pins(
            ("tp=3", "plan.ranks_mismatch", "tp=3", "ranks=4"),
            ("dp=4,tp=4", "plan.ranks_mismatch", "dp=4", "tp=4", "ranks=4"),
            ("dp=3", "plan.ranks_mismatch", "dp=3"),
            ("dp=6148914691236517206,tp=6", "plan.ranks_mismatch"),
            ("tp=0", "plan.bad_pin", "tp=0"), ("tp=-1", "plan.bad_pin"), ("tp=x", "plan.bad_pin"),
            ("tp=99999999999999999999", "plan.bad_pin"), ("tp", "plan.bad_pin"),
            ("tp=2.0", "plan.bad_pin"), ("tp=2,tp=2", "plan.bad_pin"),
            ("tp=2, tp=2", "plan.bad_pin"), ("sp=2", "plan.bad_pin"), ("vocab=2", "plan.bad_pin"),
            ("foo=1", "plan.unknown_pin", "foo"), ("=2", "plan.unknown_pin"),
            # As other software calls it.
            ("fsdp=8", "plan.unknown_pin", "dp=8,zero=3"), ("fsdp=1", "plan.unknown_pin", "zero=3"),
            ("tensor_parallel=2", "plan.unknown_pin", "tp=2"),
            ("gradient_checkpointing=1", "plan.unknown_pin", "recompute=full"),
            ("micro_batch=0", "plan.bad_pin"),
            ("pp=0", "plan.bad_pin", "pp=0"), ("pp=3", "plan.ranks_mismatch", "pp=3", "ranks=4"),
            ("pp=2,tp=4", "plan.ranks_mismatch", "pp=2", "tp=4", "ranks=4"),
            ("pp=4,vp=2", "plan.stages_gt_layers", "vp=2", "layers=6"),
            ("pp=9223372036854775807,vp=2", "plan.stages_gt_layers"),
            ("vp=2", "plan.bad_pin", "vp=2", "pp=2"), ("cp=0", "plan.bad_pin", "cp=0"),
            ("cp=3", "plan.ranks_mismatch", "cp=3", "ranks=4"),
            ("cp=2,tp=4", "plan.ranks_mismatch", "cp=2", "tp=4", "dp × cp × tp"),
            ("pp=2,vp=2,schedule=gpipe", "plan.schedule_stages", "schedule=gpipe", "vp=1"),
            ("pp=2,vp=1,schedule=interleaved", "plan.schedule_stages", "vp=2"),
            ("pp=2,schedule=1f2b", "plan.bad_pin", "schedule=1f2b", "schedule=1f1b"),
            ("ep=2", "plan.no_experts", "ep=2", "ep=1"), ("etp=2", "plan.unsupported_pin"),
            ("precision.mlp=fp16", "plan.bad_pin", "precision.mlp=fp16"),
            ("precision.mlp=fp8", "plan.unsupported_pin", "precision.mlp=bf16"),
            ("precision.mpl=bf16", "plan.unknown_path", "mpl", "precision.mlp=bf16"),
            ("zero=4", "plan.bad_pin", "zero=4"),
            ("zero_group=2", "plan.bad_pin", "zero_group=2", "zero=1"),
            ("zero=1,zero_group=3", "plan.bad_pin", "zero_group=3", "zero_group=4"),
            ("zero=1,cp=2,zero_group=1", "plan.bad_pin", "cp=2", "zero_group=4"), ("schedule=gpipe", "plan.bad_pin", "pp=2"),
            ("recompute=some", "plan.bad_pin", "recompute=some", "none, selective or full",
             "recompute=selective"))
        self.check_pins(("tp=5", "plan.heads_indivisible"), ranks=5)
        self.check_pins(("ep=3", "plan.experts_indivisible", "ep=3", "dp=4", "experts=4"),
                        ("ep=8", "plan.ep_gt_ranks", "ep=8", "ep one of 1, 2, 4"), ("ep=0", "plan.bad_pin"),
                        ("tp=4,ep=2", "plan.experts_indivisible", "ep=2", "tp=4"),
                        model=config("t0-moe"))
        self.check_pins(("tp=16", "plan.heads_indivisible"), ranks=16)

    def test_a08_batches(self):
        """The nearest batches that can be dealt out."""
        for batch, pins, nearest in ((256, "dp=7", ["252", "259"]),
                                     (256, "dp=7,micro_batch=2", ["252", "266"]),
                                     (3, "dp=7", ["7"])):
            error = self.refused_compile("plan.batch_indivisible", config(), 7, pins,
                                         recipe(global_batch=batch), says=["dp=7"])
            self.explained(error)
            self.assertEqual(error["suggestions"], [f"global_batch={n}" for n in nearest])
        error = self.refused_compile("plan.microbatches_too_many", config(), 2,
                                     "pp=2,micro_batch=1", recipe(global_batch=2 * 10 ** 6),
                                     says=["micro 4"])
        self.explained(error)
        self.explained(self.refused_compile("plan.microbatches_too_many", config(), 1,
                                            "micro_batch=1", recipe(global_batch=10 ** 12),
                                            extra=["--emit=pipe"]))
        # A large number is no reason to take long.
        self.refused_compile("plan.batch_indivisible", config(), 2, "dp=2,micro_batch=7",
                             recipe(global_batch=10 ** 15))

    def test_plans(self):
        """A plan, edited wrongly at one place."""
        made = harness.run(self.compile_command(config(), 4, "dp=2,tp=2") + ["--emit=plan"])
        self.assertEqual(made.returncode, 0, made.stderr)
        for old, new, kind, *says in (
                ("plan.solution", "plan.solutoin", "plan.unreadable"),
                ("version 1", "version 99", "plan.invalid", "99"),
                ('plan.axis "tensor" [2]', 'plan.axis "tensor" [2]\n    plan.axis "tensor" [2]',
                 "plan.invalid", "tensor"),
                ('"tensor" [2]', '"tensor" [3]', "plan.ranks_mismatch", "4"),
                ("global 8", "global 9", "plan.batch_indivisible", "9"),
                ('vocab = ["tensor"]', 'vocab = ["tensr"]', "plan.unknown_axis", "tensr", "tensor"),
                ('vocab = ["tensor"]', 'vocab = ["tensor.7"]', "plan.unknown_axis"),
                ('plan.assign "block"', 'plan.assign "blok"', "plan.unknown_kind", "block"),
                ('"mlp.gate"', '"mlp.gat"', "plan.unknown_path", "mlp.gate"),
                ('{ffn = ["tensor"]}', '{fnn = ["tensor"]}', "plan.unknown_factor", "ffn"),
                ('"head.loss.scale" {}', '"head.loss.scale" {vocab = ["tensor"]}',
                 "plan.unknown_factor", "remove 'vocab'"),
                ('"mlp.up_proj.weight"', '"mlp.upp_proj.weight"', "plan.unknown_parameter",
                 "mlp.up_proj.weight"),
                ('vocab = ["tensor"]', 'vocab = ["tensor", "tensor"]', "plan.axis_used_twice"),
                ("sequence 32", "sequence 0", "plan.bad_value")):
            with self.subTest(new=new):
                self.assertIn(old, made.stdout)
                path = self.path("plan.mlir")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(made.stdout.replace(old, new, 1))
                error = self.refused_compile(kind, config(), 4, extra=["--plan", path], says=says)
                self.assertTrue(error["rule"] or kind == "plan.unreadable", error)

    def test_two_plans(self):
        """Which of two is meant nobody can tell."""
        made = harness.run(self.compile_command(config(), 1) + ["--emit=plan"])
        path = self.path("plan.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(made.stdout + made.stdout)
        self.explained(self.refused_compile("plan.unreadable", config(), 1,
                                            extra=["--plan", path], says=["2"]))

    def test_idle_pins_are_said(self):
        """A pin that changes nothing is carried out and said."""
        said = harness.run(self.compile_command(config(), 2, "dp=1,tp=2,zero=3,sp=1") +
                           ["-o", self.path("train")])
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("note: zero=3 changes nothing", said.stderr + said.stdout)
        self.assertNotIn("sp=1 changes", said.stderr + said.stdout)

    def test_large_batches_compile(self):
        """What is compiled is as large for a large batch; the memory that it takes is not ours."""
        done = harness.run(self.compile_command(
            config(), 1, None, recipe(global_batch=10 ** 6, sequence_length=256)) +
            ["--emit=image", "-o", self.path("image")])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_recipes(self):
        rate = recipe()["learning_rate"]
        for values, kind, *says in (
                (recipe(unknown=1), "recipe.unknown_key", "unknown"),
                (recipe(globl_batch=1), "recipe.unknown_key", "global_batch"),
                (recipe(global_batch="8"), "recipe.wrong_type"),
                (recipe(global_batch=0), "recipe.out_of_range"),
                (recipe(global_batch=-3), "recipe.out_of_range"),
                (recipe(global_batch=2.5), "recipe.wrong_type"),
                (recipe(sequence_length=257), "recipe.sequence_too_long", "257", "256"),
                (recipe(version=2), "recipe.version_unsupported", "2"),
                (recipe(learning_rate={**rate, "schedule": "cosin"}), "recipe.unknown_value", "cosine"),
                (recipe(learning_rate={"schedule": "wsd"}), "recipe.missing_key", "decay"),
                (recipe(learning_rate={**rate, "peak": -1}), "recipe.out_of_range"),
                (recipe(precision="fp17"), "recipe.unknown_value"),
                (recipe(z_loss=1e-4), "recipe.unsupported", "z_loss"),
                (recipe(dropout=0.1), "recipe.unsupported", "dropout"),
                (recipe(data={"documents": "mask"}), "recipe.unknown_value"),
                (recipe(optimizer={"type": "sgd"}), "recipe.unknown_value", "adamw")):
            with self.subTest(kind=kind, says=says):
                self.explained(self.refused_compile(kind, config(), 1, None, values, says=says))

    def test_precision(self):
        bf16 = recipe(precision="bf16")
        plan = self.path("plan.mlir")
        for values, other in ((bf16, "fp32"), (recipe(precision="fp32"), "bf16")):
            done = harness.run(self.compile_command(config(), 1, None, values) +
                               ["--emit=plan", "-o", plan])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.explained(self.refused_compile("plan.conflict", config(), 1, None,
                                                recipe(precision=other), ["--plan", plan],
                                                says=["precision", other]))

    def test_commands(self):
        model = self.written(config())
        for arguments, kind in (
                ([], "usage.subcommand"), (["compil"], "usage.subcommand"),
                (["compile", model, "--emit=planet"], "usage.emit"),
                (["compile", model, "--unknown"], "usage.option"),
                (["compile", model, model, "-o", self.path("x")], "usage.extra"),
                (["compile"], "usage.missing"), (["compile", model], "usage.missing"),
                (["compile", model, "--target", "rocm", "-o", self.path("x")], "usage.target"),
                (["compile", model, "--arch", "sm_90", "-o", self.path("x")], "usage.arch"),
                (["compile", model, "--target", "cuda", "--arch", "sm_90,hopper", "-o", self.path("x")],
                 "usage.arch"),
                (["compile", model, "--set", "sequence_length", "-o", self.path("x")],
                 "recipe.bad_setting"),
                (["compile", model, "--cluster", "loca:2", "-o", self.path("x")], "cluster.unknown"),
                (["compile", model, "--cluster", "local:0", "-o", self.path("x")],
                 "cluster.bad_count"),
                (["compile", self.path("absent.json"), "-o", self.path("x")], "file.read_failed")):
            with self.subTest(arguments=arguments):
                error = self.refused([CLEAVE, *arguments], kind)
                if kind == "file.read_failed":
                    self.assertIn("absent.json", error["message"])
                else:
                    self.assertTrue(error["rule"] and error["suggestions"], error)
                self.assertFalse(os.path.exists(self.path("x")))

    def test_texts_that_are_no_json(self):
        for text, kind in (("", "json.empty"), ("{", "json.syntax"), ("{} x", "json.trailing"),
                           ('{"a": 1, "a": 2}', "json.duplicate_key"), ('{"a": NaN}', "json.nan"),
                           ("\ufeff{}", "json.bom"), ("[" * 600 + "]" * 600, "json.depth"),
                           ('{"a": 1e999}', "json.number"), ("// a\n{}", "json.syntax")):
            with self.subTest(text=text[:20]):
                path = self.path("bad.json")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                error = self.refused([CLEAVE, "inspect", path], kind)
                self.assertIn("bad.json", error["where"]["file"])
                self.assertTrue(error["rule"], error)

    def test_configs(self):
        for model, kind in ((config(model_type="mamba"), "config.family_unsupported"),
                            (config(model_type=...), "config.missing_key"),
                            (config(hidden_size="64"), "config.wrong_type"),
                            (config(hidden_size=0), "config.out_of_range"),
                            (config(hidden_act="swish2"), "config.activation_unsupported"),
                            (config(num_key_value_heads=3), "config.heads_indivisible"),
                            (config(head_dim=15), "config.head_dim_odd"),
                            (config(attention_dropout=0.1), "config.dropout_unsupported")):
            with self.subTest(kind=kind):
                values = recipe(dropout=...)
                self.explained(self.refused_compile(kind, model, 1, None, values))

    def test_training_binary(self):
        data = self.tokens(random_ids(97, 100))
        binary = self.compiled(llama(), 2, "dp=2", recipe(sequence_length=8, global_batch=2))
        ok = ["--data", data, "--steps", "1"]
        for flags, kind, *says in (
                (["--stepz", "1"], "flags.unknown", "--steps"), (["--qqq"], "flags.unknown", "--qqq"),
                (["--steps"], "flags.missing_value", "--steps"), (["--steps", "1"], "flags.missing"),
                (["--data", data], "flags.missing", "--steps"),
                ([*ok, "--steps", "x"], "flags.bad_value"), ([*ok, "word"], "flags.unexpected"),
                ([*ok, "--resume"], "flags.missing", "--checkpoint"),
                ([*ok, "--save-every", "1"], "flags.missing"),
                ([*ok, "--ranks", "3"], "runtime.world_mismatch", "2", "3"),
                ([*ok, "--token-bits", "12"], "flags.bad_value")):
            with self.subTest(flags=flags):
                self.explained(self.refused([binary, *flags], kind, says=says))
        self.refused([binary, *ok, "--device", "cuda"], "device.unavailable", 3)
        done = harness.run([binary, *ok, "--json"], env={**os.environ, "OMPI_COMM_WORLD_SIZE": "4",
                                                         "OMPI_COMM_WORLD_RANK": "0"})
        # Variables of a launcher alone are no launcher; test/Processes has worlds of other sizes.
        self.assertEqual(done.returncode, 3, done.stderr)
        error = json.loads(done.stderr.strip().splitlines()[-1])["error"]
        self.assertEqual(error["kind"], "runtime.transport_missing")
        self.explained(error)

    def test_resumes(self):
        """What a resumed run may not change, and a folder that holds another run."""
        data = golden("t0", "tokens.bin")
        short = {"sequence_length": 8, "global_batch": 2}
        folder = self.path("saved")
        binary = self.compiled(config(), 1, None, recipe(**short))
        self.train(binary, data, 2, "--checkpoint", folder)
        tail = ["--steps", "3", "--checkpoint", folder]
        self.explained(self.refused([binary, "--data", data, *tail], "checkpoint.exists"))
        tail.append("--resume")
        other = self.tokens(random_ids(256, 1000))
        self.explained(self.refused([binary, "--data", other, *tail], "resume.data_changed"))
        self.explained(self.refused([binary, "--data", data, "--steps", "1", *tail[2:]],
                                    "resume.past_end"))
        for changes, kind in (({"global_batch": 4}, "resume.batch_changed"),
                              ({"sequence_length": 16}, "resume.batch_changed"),
                              ({"seed": 2}, "resume.seed_changed"),
                              ({"data": {"order": "shuffle"}}, "resume.order_changed")):
            with self.subTest(changes=changes):
                changed = self.compiled(config(), 1, None, recipe(**{**short, **changes}))
                self.explained(self.refused([changed, "--data", data, *tail], kind))
        wider = self.compiled(config(hidden_size=32), 1, None, recipe(**short))
        self.explained(self.refused([wider, "--data", data, *tail], "checkpoint.shape_mismatch"))
        self.assertEqual(sorted(os.listdir(folder)), ["step-2"])

    def test_a_cluster_that_pins_need_is_suggested(self):
        """Who gave degrees and no cluster means the degrees."""
        for pins, cluster in (("dp=4", "local:4"), ("pp=2", "local:2"), ("cp=2,tp=2", "local:4"),
                              ("dp=3,tp=2", "local:6")):
            with self.subTest(pins=pins):
                error = self.refused_compile("plan.ranks_mismatch", config(), 1, pins)
                self.assertIn("--cluster " + cluster, error["suggestions"])
        error = self.refused([CLEAVE, "compile", golden("t0", "config.json"), "--cluster", "4",
                              "-o", self.fresh("refused")], "cluster.unknown")
        self.assertEqual(error["suggestions"], ["local:4"])
        for asked, meant in (("H100:16", "dgx-h100:16"), ("nvl72:2", "gb200-nvl72:2"), ("2", "local:2")):
            error = self.refused([CLEAVE, "plan", golden("t0", "config.json"), "--cluster", asked],
                                 "cluster.unknown")
            self.assertEqual(error["suggestions"], [meant])

    def test_a_binary_for_cuda_says_how_it_runs_here(self):
        binary = self.path("gpu")
        done = harness.run(self.compile_command(config(), 1, None, recipe(),
                                                ["--target", "cuda", "-o", binary]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--device emulated", done.stderr)
        # A prediction for processors is none for what they emulate.
        self.assertNotIn("predicted", done.stderr)
        self.assertRegex(harness.run([binary, "--info"]).stdout, r"device +cuda\n")
        self.refused([binary, "--data", golden("t0", "tokens.bin"), "--steps", "2", "--device", "tpu"],
                     "device.unavailable", 3, says=("compiled for cuda", "--device emulated"))

    def test_steps_within_a_warm_up(self):
        """Without a total the run's steps are one: more of them need no new program."""
        rates = {"schedule": "cosine", "peak": 1e-3, "warmup": 20}
        binary = self.compiled(config(), 1, None, recipe(learning_rate=rates))
        data = golden("t0", "tokens.bin")
        error = self.refused([binary, "--data", data, "--steps", "2"], "recipe.conflict")
        self.assertEqual(error["suggestions"], ["--steps 20", "learning_rate.total = 20"])

    def test_a_stage_on_each_rank_is_suggested(self):
        """Four blocks, embedding and head: five ranks can have one stage, not two."""
        error = self.refused_compile("plan.stages_gt_layers", config(), 5,
                                     "pp=5,schedule=interleaved", recipe(global_batch=8))
        self.assertEqual(error["suggestions"], ["vp=1, schedule=1f1b"])
        made = harness.run(self.compile_command(config(), 5, "pp=5,vp=1,schedule=1f1b",
                                                recipe(global_batch=8)) + ["--emit=plan"])
        self.assertEqual(made.returncode, 0, made.stderr)

    def test_values_beyond_a_device_are_said(self):
        """Its state fits, the values of a micro-batch do not: known before it runs. A program for
        processors is not measured by a device's memory, but by what the cost model says of one."""
        def said(batch, *words):
            done = harness.run([CLEAVE, "compile", golden("t0", "config.json"), "--cluster",
                                "dgx-h100:1", "--pin", "dp=8", "--global-batch", str(batch),
                                "-o", self.fresh("large"), *words])
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr

        large = said(2 ** 23)
        self.assertIn("warning[plan.over_budget]: by the cost model a rank takes", large)
        self.assertIn("GB a rank are memory of a host", large)
        large = said(2 ** 23, "--target", "cuda")
        self.assertIn("warning[plan.over_budget]: a rank takes", large)
        self.assertNotIn("memory of a host", large)
        for words in ((), ("--target", "cuda")):
            self.assertNotIn("warning", said(8, *words))

    def test_a_prediction_is_for_a_core_each(self):
        """More ranks than cores are slower than predicted, and the run says why."""
        cores = len(os.sched_getaffinity(0))
        for ranks in (1, 2 * cores):
            binary = self.compiled(config(), ranks, None, recipe())
            log = self.fresh("log", ".jsonl")
            done = harness.run([binary, "--data", golden("t0", "tokens.bin"), "--steps", "3", "--log",
                                log])
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(log, encoding="utf-8") as file:
                summary = json.loads(file.readlines()[-1])["summary"]
            self.assertIsNotNone(summary["predicted_step_time"])
            self.assertEqual(summary.get("crowded"),
                             {"ranks": ranks, "cores": cores} if ranks > cores else None)
            self.assertEqual("with a core for each rank; here" in done.stdout + done.stderr, ranks > cores)
            info = harness.run([binary, "--info"]).stdout
            self.assertEqual("s, with a core for each rank" in info, ranks > 1)


if __name__ == "__main__":
    harness.main()
