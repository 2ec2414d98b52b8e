"""What a plan takes, why it was chosen, and what is said where none fits."""
import json
import math
import os
import random
import re

import harness
from harness import CLEAVE, config, run

T0_PARAMETERS = 180800


def llama(layers, hidden, heads, key_heads, ffn, vocabulary, **more):
    return {"model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": key_heads,
            "intermediate_size": ffn, "vocab_size": vocabulary,
            "max_position_embeddings": 8192, "tie_word_embeddings": False, **more}


LLAMA_70B = llama(80, 8192, 64, 8, 28672, 128256)
LLAMA_405B = llama(126, 16384, 128, 8, 53248, 128256)
TINYLLAMA = llama(22, 2048, 32, 4, 5632, 32000)
GPT3 = {"model_type": "gpt2", "hidden_size": 12288, "num_hidden_layers": 96,
        "num_attention_heads": 96, "vocab_size": 51200, "max_position_embeddings": 2048}


class Planning(harness.Case):
    def cluster(self, nodes=1, per_node=1, device="h100-sxm-80gb", **more):
        return self.written({"device": device, "nodes": nodes, "devices_per_node": per_node,
                             **more}, "cluster")

    def plan(self, model, cluster, *options, fails=False):
        """The JSON of `cleave plan`, or its error."""
        path = self.written(model, "config")
        done = run([CLEAVE, "plan", path, "--cluster", cluster, "--json", *options])
        self.assertEqual(done.returncode, 2 if fails else 0, done.stdout + done.stderr)
        answer = json.loads(done.stdout)
        return answer["error"] if fails else answer

    def best_of_all(self, model, ranks, *options):
        """A plan whose search left nothing out."""
        found = self.plan(model, f"local:{ranks}", *options)
        self.assertTrue(found["search"]["complete"])
        self.assertEqual(found["search"]["gap"], 0)
        return found

    def test_a03_stages_hold_every_layer(self):
        found = self.plan(config(num_hidden_layers=30), "local:4", "--pin",
                          "pp=4,vp=1,schedule=1f1b", "--global-batch", "16", "--seq-len", "32")
        stages = found["plan"]["stages"]
        self.assertEqual(sum(stages), 32)
        blocks = [stages[0] - 1, *stages[1:-1], stages[-1] - 1]
        self.assertLessEqual(max(blocks) - min(blocks), 1)
        # Each element is on one place, but for what a rank repeats.
        kept = sum(place["weights"] for place in found["plan"]["memory_of_places"])
        one = self.plan(config(num_hidden_layers=30), "local:1", "--global-batch", "16",
                        "--seq-len", "32")["plan"]["memory_of_places"][0]["weights"]
        self.assertEqual(kept, one)

    def test_c03_slow_links_favour_pipelines(self):
        # Four all-reduces of 33,554,432 bytes a layer move 234.9 MB a rank on a ring.
        moved = 4 * 2 * 7 / 8 * (4096 * 4096 * 2)
        self.assertAlmostEqual(moved / 1e6, 234.9, places=1)
        model = llama(48, 4096, 32, 32, 11008, 32000)
        slow = [{"name": "slow", "span": 8, "bandwidth": 10e9}]
        found = self.plan(model, self.cluster(1, 8, levels=slow, device_memory=400e9),
                          "--seq-len", "4096", "--global-batch", "64", "--compare", "tp=8")
        tensor = found["compared"][0]["best"]
        self.assertEqual(found["plan"]["layout"]["tp"], 1)
        self.assertGreater(tensor["step"], 1.5 * found["plan"]["step"])
        # The time of what is exchanged is that of the bytes over the link.
        per_rank = 48 * moved * 64 / (64 / 64)
        exchanged = tensor["parts"]["tensor exchanges"]
        self.assertGreater(exchanged, 0.4 * per_rank / 10e9)

    def test_c04_next_best_with_parts(self):
        cluster = "dgx-h100:16"
        found = self.plan(LLAMA_70B, cluster, "--seq-len", "8192", "--global-batch", "512",
                          "--top", "8")
        self.assertGreaterEqual(len(found["next"]), 5)
        for choice in found["next"]:
            for part in ("products", "recomputation", "tensor exchanges", "data exchanges",
                         "bubble"):
                self.assertIn(part, choice["parts"])
            self.assertAlmostEqual(sum(choice["parts"].values()) / choice["step"], 1, places=2)
        steps = [choice["step"] for choice in found["next"]]
        self.assertEqual(steps, sorted(steps))
        # Full recomputation is one more forward of the layers.
        pins = "tp=8,pp=4,vp=1,schedule=1f1b,cp=1,zero=1,micro_batch=1,sp=1"
        kept = self.plan(LLAMA_70B, cluster, "--seq-len", "8192", "--global-batch", "512",
                         "--pin", pins + ",recompute=none", "--allow-over-budget")
        again = self.plan(LLAMA_70B, cluster, "--seq-len", "8192", "--global-batch", "512",
                          "--pin", pins + ",recompute=full", "--allow-over-budget")
        head = 6 * 8192 * 128256 * 8192 * 512
        whole = kept["operations"]["exact"]
        self.assertEqual(again["operations"]["exact"], whole)
        self.assertAlmostEqual((again["operations"]["executed"] - head) / (whole - head), 4 / 3,
                               places=6)

    def test_a_network_that_nobody_stated_is_noted(self):
        sizes = ("--seq-len", "2048", "--global-batch", "32")
        bare = self.plan(TINYLLAMA, self.cluster(2, 4, name="pair"), *sizes)
        self.assertRegex("".join(bare["notes"]), "pair .* 2 nodes .* 50 GB/s")
        levels = [{"name": "nvlink", "span": 4}, {"name": "net", "bandwidth": 50e9}]
        said = self.plan(TINYLLAMA, self.cluster(2, 4, levels=levels, name="pair"), *sizes)
        self.assertEqual(said["notes"], [])
        # What is taken is what the note says; without in-switch reduction, as levels have it.
        self.assertEqual(bare["plan"]["layout"], said["plan"]["layout"])
        path = self.written(TINYLLAMA, "config")
        done = run([CLEAVE, "compile", path, "--cluster", self.cluster(2, 4), *sizes,
                    "--emit=plan"])
        self.assertIn("network between its 2 nodes", done.stderr)

    def test_cost_keeps_the_nodes_that_are_given(self):
        # A small model is cheapest on one node, and still stands on two where these are asked for.
        def ranks(*options):
            return self.plan(TINYLLAMA, "dgx-h100:4", "--global-batch", "64", "--seq-len", "2048",
                             "--objective", "cost", *options)["ranks"]["count"]

        self.assertEqual(ranks(), 8)
        self.assertEqual(ranks("--nodes", "2"), 16)
        self.assertEqual(ranks("--nodes", "3"), 24)
        fastest = self.plan(TINYLLAMA, "dgx-h100:4", "--global-batch", "64", "--seq-len", "2048",
                            "--nodes", "2")
        cheapest = self.plan(TINYLLAMA, "dgx-h100:4", "--global-batch", "64", "--seq-len", "2048",
                             "--nodes", "2", "--objective", "cost")
        self.assertEqual(fastest["plan"], cheapest["plan"])

    def test_c05_launches_and_bubbles(self):
        # 8 stages: 7/15 and 7/23; see also PlannerTests.Search.ManySmallMicroBatchesDoNotHideLaunches.
        model = llama(62, 1024, 8, 8, 2816, 1000)
        cluster = self.cluster(1, 8)
        pins = "pp=8,vp=1,schedule=1f1b,zero=0,recompute=none,micro_batch="

        def bubble(micro, batch):
            found = self.plan(model, cluster, "--seq-len", "4096", "--global-batch", str(batch),
                              "--pin", pins + str(micro))
            parts = found["plan"]["parts"]
            busy = sum(parts[name] for name in ("products", "attention", "passes over memory",
                                                "launches"))
            return parts["bubble"] / (parts["bubble"] + busy)
        self.assertAlmostEqual(bubble(1, 8), 7 / 15, delta=0.03)
        self.assertAlmostEqual(bubble(1, 16), 7 / 23, delta=0.03)

    def test_i01_time_does_not_grow_with_depth_or_devices(self):
        import time

        def took(model, nodes):
            path = self.written(model, "config")
            start = time.process_time(), os.times()
            done = run([CLEAVE, "plan", path, "--cluster", f"dgx-h100:{nodes}", "--seq-len", "8192",
                        "--global-batch", "2048", "--json"])
            self.assertEqual(done.returncode, 0, done.stdout)
            spent = os.times()
            return spent.children_user - start[1].children_user, done.stdout
        deep, first = took(LLAMA_405B, 2048)
        self.assertLess(deep, 60)
        self.assertEqual(took(LLAMA_405B, 2048)[1], first)
        found = json.loads(first)
        self.assertTrue(found["search"]["complete"])

    def test_i01_same_bytes(self):
        path = self.written(config(), "config")
        texts = []
        for name in ("a.mlir", "b.mlir"):
            done = run([CLEAVE, "plan", path, "--cluster", "local:4", "--seq-len", "32", "--global-batch",
                        "8", "-o", self.path(name)])
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(self.path(name), encoding="utf-8") as file:
                texts.append(file.read())
        self.assertEqual(*texts)

    def test_what_is_asked_twice_is_asked_alike(self):
        command = [CLEAVE, "plan", self.written(config(), "config"), "--cluster", "local:2",
                   "--global-batch", "8", "--micro-batch", "2", "--pin"]
        self.refused(command + ["micro_batch=1"], "plan.conflict", says=("--micro-batch 2",))
        self.assertEqual(run(command + ["micro_batch=2"]).returncode, 0)

    def test_forbidden_without_means_with(self):
        banned, pinned = (self.plan(config(), "local:2", "--global-batch", "8", *asked)["plan"]
                          for asked in (("--forbid", "overlap=0"), ("--pin", "overlap=1")))
        self.assertEqual(banned["layout"], pinned["layout"])

    def test_a_cluster_without_a_device_is_refused_by_its_key(self):
        cluster = self.written({"nodes": 1, "devices_per_node": 2}, "cluster")
        self.refused([CLEAVE, "plan", self.written(config(), "config"), "--cluster", cluster,
                      "--global-batch", "8"], "device.unknown", says=("h100-sxm-80gb",))

    def test_fp32_is_as_slow_as_the_data_sheet_says(self):
        """An H100's vector units do 67 TFLOP/s, its products of bf16 989; where nobody says what
        a device does in fp32, nothing is assumed."""
        model, sizes = llama(32, 4096, 32, 8, 14336, 32000), ("--seq-len", "4096", "--global-batch", "8")
        pins = ("--pin", "dp=8,zero=3", "--allow-over-budget")
        narrow, wide = (self.plan(model, self.cluster(1, 8), *sizes, *pins, "--set",
                                  f"precision={precision}")["plan"]["parts"]
                        for precision in ("bf16", "fp32"))
        for part in ("products", "attention"):
            self.assertGreater(wide[part], 10 * narrow[part])
            self.assertLess(wide[part], 16 * narrow[part])
        unknown = self.cluster(1, 8, device="tpu-v5p-95gb")
        self.assertEqual(self.plan(model, unknown, *sizes, *pins)["notes"], [])
        error = self.plan(model, unknown, *sizes, *pins, "--set", "precision=fp32", fails=True)
        self.assertEqual(error["kind"], "device.rate_unknown")

    def test_a_precision_of_some_paths_is_priced(self):
        """The MLP has 32 × 3 × 4096 × 14336 of 7.11e9 elements that tokens are multiplied with."""
        model, sizes = llama(32, 4096, 32, 8, 14336, 32000), ("--seq-len", "4096", "--global-batch", "8")
        rows = "dp=8,zero=3,micro_batch=1,recompute=none"

        def ask(precision, pins="", **more):
            return self.plan(model, self.cluster(1, 8, **more), *sizes, "--allow-over-budget", "--set",
                             f"precision={precision}", "--pin", rows + pins)

        def products(*words):
            return ask(*words)["plan"]["parts"]["products"]

        narrow, wide = products("bf16"), products("fp32")
        share = 32 * 3 * 4096 * 14336 / 7.11e9
        for found in (products("bf16", ",precision.mlp=fp32") - narrow,
                      wide - products("fp32", ",precision.mlp=bf16")):
            self.assertAlmostEqual(found / (wide - narrow), share, delta=0.04)
        # What is kept of the MLP takes twice as much, the rest as before.
        kept = [ask("bf16", pins)["plan"]["memory_of_places"][0]["activations"]
                for pins in ("", ",precision.mlp=fp32")] + [
                    ask("fp32")["plan"]["memory_of_places"][0]["activations"]]
        self.assertLess(kept[0], kept[1])
        self.assertLess(kept[1], kept[2])
        found = ask("bf16", ",precision.mlp=fp32", device="tpu-v5p-95gb")
        self.assertRegex("".join(found["notes"]), "device.rate_unknown.*precision.mlp")
        self.assertTrue(found["plan"]["pins"].endswith(",precision.mlp=fp32"))

    def test_a_refusal_suggests_something_though_nothing_helps_alone(self):
        error = self.plan(config(), self.cluster(device_memory=20000), "--global-batch", "1",
                          "--forbid", "micro_batch=1", fails=True)
        self.assertEqual(error["kind"], "plan.infeasible")
        self.assertTrue(error["suggestions"])

    def test_i03_infeasible_names_what_conflicts(self):
        one = self.cluster(device="cpu", device_memory=1e6)
        for precision, state in (("fp32", 16 * T0_PARAMETERS), ("bf16", 18 * T0_PARAMETERS)):
            error = self.plan(config(), one, "--seq-len", "32", "--global-batch", "1", "--set",
                              f"precision={precision}", fails=True)
            self.assertEqual(error["kind"], "plan.infeasible")
            least = float(error["message"].split("rank is ")[1].split(" bytes")[0])
            self.assertGreaterEqual(least, state)
            self.assertLess(least, 2 * state)
            self.assertIn("memory", error["given"])
            self.assertTrue(any("device_memory" in s for s in error["suggestions"]))
        # Enough in all, too little where nothing may be shared.
        four = self.cluster(1, 4, device="cpu", device_memory=1.5e6)
        sizes = ("--seq-len", "32", "--global-batch", "4", "--set", "precision=fp32")
        self.plan(config(), four, *sizes)
        error = self.plan(config(), four, *sizes, "--pin", "tp=1,pp=1,zero=0", fails=True)
        for member in ("tp=1", "zero=0", "memory"):
            self.assertIn(member, error["given"])
        self.assertTrue(any(s.startswith("without ") for s in error["suggestions"]))

    def test_i03_the_memory_that_is_suggested_suffices(self):
        # An allocator and a driver take some of what a device has.
        model = llama(32, 4096, 32, 8, 14336, 32000)
        sizes = ("--seq-len", "4096", "--global-batch", "8")
        error = self.plan(model, self.cluster(), *sizes, fails=True)
        needed = next(re.search(r'"device_memory": (\d+)', s) for s in error["suggestions"]
                      if "device_memory" in s)
        self.plan(model, self.cluster(device_memory=int(needed[1])), *sizes)
        self.plan(model, self.cluster(device_memory=int(needed[1]) - 10), *sizes, fails=True)

    def test_i03_the_nodes_that_are_suggested_suffice(self):
        model = self.written(llama(80, 8192, 64, 8, 28672, 128256), "config")
        sizes = ("--seq-len", "4096", "--global-batch", "64")
        def ask(cluster):
            return run([CLEAVE, "plan", model, "--cluster", cluster, *sizes])
        words = re.search(r"suggestion: --cluster (dgx-h100:(\d+)), whose (\d+) ranks",
                          ask("dgx-h100:1").stderr)
        self.assertEqual(int(words[3]), 8 * int(words[2]))
        self.assertEqual(ask(words[1]).returncode, 0)
        self.assertNotEqual(ask(f"dgx-h100:{int(words[2]) // 2}").returncode, 0)
        # A degree that whole nodes don't have is not answered with another kind of cluster.
        error = self.plan(config(), "dgx-h100:2", "--pin", "tp=3", fails=True)
        self.assertEqual(error["kind"], "plan.ranks_mismatch")
        self.assertFalse(any("local" in s for s in error["suggestions"]), error)

    def test_what_reports_say_is_about_what_was_asked(self):
        model, plan = self.written(llama(32, 4096, 32, 8, 14336, 32000), "config"), self.path("p.mlir")
        def ask(*words):
            done = run([CLEAVE, "plan", model, "--cluster", "dgx-h100:4", "--seq-len", "4096",
                        "--global-batch", "64", *words])
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        cheap = ask("--objective", "cost")
        step = float(re.search(r"^step ([\d.]+) s", cheap, re.M)[1])
        found = re.search(r"^cost ([\d.e+]+) device-seconds a step, the least on 4, 2, 1 nodes", cheap, re.M)
        ranks = int(cheap.split(" ", 1)[0])
        self.assertAlmostEqual(float(found[1]) / (step * ranks), 1, delta=2e-3)
        self.assertNotIn("device-seconds", ask("-o", plan))
        # Pins that the best plan has anyway are not compared with it.
        layout = next(line for line in ask().splitlines() if line.startswith(("dp=", "tp=", "cp=")))
        why = run([CLEAVE, "explain", plan, "--why-not", layout.split(",")[0]]).stdout
        self.assertIn("the best plan is one with these", why)
        self.assertNotIn("costs", why)
        # A front is thinned out for people, and whole for scripts.
        front = ask("--pareto").split("faster or smaller than all others: ")[1]
        shown, of = (int(n) for n in re.match(r"(\d+) of (\d+)", front).groups())
        sizes = [float(n) for n in re.findall(r" ([\d.]+) GB ", front)]
        self.assertEqual(len(sizes), shown)
        self.assertTrue(all(b <= 0.985 * a for a, b in zip(sizes, sizes[1:])), sizes)
        self.assertEqual(len(json.loads(ask("--pareto", "--json"))["pareto"]), of)

    def test_what_is_found_is_carried_out(self):
        """Pipelines with exchanges beside the computation and a head in pieces, as large models get."""
        model, plan = self.written(LLAMA_70B, "config"), self.path("found.mlir")
        sizes = ["--cluster", "dgx-h100:16", "--seq-len", "8192", "--global-batch", "512"]
        for more in ((), ("--forbid", "cp"), ("--pin", "pp=8,overlap=1")):
            done = run([CLEAVE, "plan", model, *sizes, *more, "-o", plan])
            self.assertEqual(done.returncode, 0, done.stderr)
            done = run([CLEAVE, "compile", model, "--cluster", "dgx-h100:16", "--plan", plan, "--emit=dist"])
            self.assertEqual(done.returncode, 0, done.stderr[:2000])
            self.assertIn("pipe", done.stdout)

    def test_more_ranks_than_cores_are_said(self):
        cores = len(os.sched_getaffinity(0))
        model = self.written(config(), "config")
        for ranks in (1, 4 * cores):
            done = run([CLEAVE, "plan", model, "--cluster", f"local:{ranks}", "--seq-len", "32",
                        "--global-batch", str(4 * cores)])
            self.assertEqual("a core of its own" in done.stdout, ranks > cores)

    def test_j02_what_was_asked_stays_with_the_plan(self):
        path, plan = self.written(llama(32, 4096, 32, 8, 14336, 32000), "config"), self.path("p.mlir")
        done = run([CLEAVE, "plan", path, "--cluster", "dgx-h100:1", "--nodes", "1", "--seq-len", "4096",
                    "--global-batch", "8", "--pin", "dp=8,zero=0", "--allow-over-budget", "-o", plan])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the plan is the best one", run([CLEAVE, "explain", plan]).stdout)
        with open(plan, encoding="utf-8") as file:
            text = file.read()
        for key, before, after in (("global_batch", "global 8", "global 16"),
                                   ("sequence_length", "sequence 4096", "sequence 2048"),
                                   ("ranks", '"data" [8]', '"data" [4]')):
            self.assertEqual(text.count(before), 1)
            with open(self.path("edited.mlir"), "w", encoding="utf-8") as file:
                file.write(text.replace(before, after))
            self.refused([CLEAVE, "explain", self.path("edited.mlir")], "plan.conflict", says=(key,))
        # What `compile` would not carry out is not explained either.
        for kind, before, after in (("plan.bad_value", "micro 1", "micro 0"),
                                    ("plan.bad_value", "micro 1", "micro -1"),
                                    ("plan.batch_indivisible", "micro 1", "micro 3"),
                                    ("plan.unknown_axis", 'batch = ["data"]', 'batch = ["dta"]')):
            self.assertIn(before, text)
            with open(self.path("edited.mlir"), "w", encoding="utf-8") as file:
                file.write(text.replace(before, after))
            self.refused([CLEAVE, "explain", self.path("edited.mlir")], kind)

    def test_a_pin_that_names_the_neutral_schedule_stays_a_name(self):
        # The search of the cheapest number of nodes makes several problems one after the other.
        found = self.plan(config(), "dgx-a100:4", "--seq-len", "32", "--global-batch", "64", "--pin",
                          "schedule=1f1b,zero=3", "--objective", "cost")
        self.assertEqual(found["plan"]["layout"]["schedule"], "1f1b")
        self.assertNotIn("schedule", found["plan"]["pins"])

    def test_pins_that_the_search_does_not_look_at(self):
        path = self.written(config(), "config")
        command = [CLEAVE, "plan", path, "--cluster", "local:2", "--seq-len", "32"]
        self.refused([*command, "--pin", "precision.nothing=bf16"], "plan.unknown_path")
        self.refused([*command, "--pin", "bucket=1048577,overlap=1"], "plan.bad_pin")
        self.refused([*command, "--compare", "precision.mlp=bf16"], "plan.unsupported_pin",
                     says=("precision.mlp",))
        # Data ranks that nobody asked for are not what is in the way.
        error = self.plan(config(), "local:4", "--seq-len", "1", "--global-batch", "7", "--pin",
                          "cp=2,zero=3", fails=True)
        self.assertEqual((error["kind"], error["given"]), ("plan.infeasible", "cp=2"))
        # A pin that decides nothing is no difference.
        plan = self.path("idle.mlir")
        done = run([*command, "--pin", "vocab=0,tp=1", "-o", plan])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the plan is the best one", run([CLEAVE, "explain", plan]).stdout)
        # The name in a cluster's file is the user's.
        named = self.cluster(2, 2, name="rack:A")
        self.assertEqual(self.plan(config(), named, "--seq-len", "32")["cluster"], "rack:A")

    def test_what_cannot_hold_is_refused_by_its_rule(self):
        sizes = ("--seq-len", "16", "--global-batch")
        for ranks, batch, pins, given, rule in (
                (4, 8, "micro_batch=3", "micro_batch=3", "dp × micro_batch divides global_batch"),
                (6, 7, "ep=4,zero=1", "ep=4", "ep is for models whose layers have experts"),
                (6, 1, "dp=3", "dp=3", "dp divides global_batch"),
                (12, 8, "cp=12,zero=1", "cp=12", "each context rank has tokens of both ends of a sequence"),
                (2, 8, "vp=9", "vp=9", "pp × vp is at most the number of layers"),
                (2, 8, "schedule=zb-h1,vp=2", "vp=2, schedule=zb-h1", "interleaved takes vp of at least 2")):
            with self.subTest(pins=pins):
                error = self.plan(config(), f"local:{ranks}", *sizes, str(batch), "--pin", pins, fails=True)
                if error["kind"] == "plan.infeasible":
                    self.assertEqual(error["given"], given)
                self.assertIn(rule, error["rule"])
        # Values that nobody asked for are not said to be given.
        error = self.plan(config(), "local:7", *sizes, "7", "--pin", "tp=4", fails=True)
        self.assertEqual((error["kind"], error["given"]), ("plan.ranks_mismatch", "tp=4, ranks=7"))
        # No memory is in the way where no layout is.
        error = self.plan(config(), "local:7", "--seq-len", "3", "--global-batch", "5", fails=True)
        self.assertEqual(error["kind"], "plan.batch_indivisible")
        path, plan = self.written(config(), "config"), self.path("plan.mlir")
        done = run([CLEAVE, "plan", path, "--cluster", "local:2", "--seq-len", "16", "-o", plan])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("micro_batch=3 cannot hold together: dp × micro_batch divides global_batch",
                      run([CLEAVE, "explain", plan, "--why-not", "micro_batch=3"]).stdout)
        self.refused([CLEAVE, "explain", plan, "--why-not", ";"], "plan.bad_pin")

    def test_i04_found_plans_are_checked_and_run(self):
        chance = random.Random(4)
        for _ in range(12):
            heads = chance.choice([2, 4, 6])
            model = config(hidden_size=16 * heads, num_attention_heads=heads,
                           num_key_value_heads=chance.choice([1, 2]), head_dim=16,
                           num_hidden_layers=chance.randint(1, 5),
                           intermediate_size=chance.choice([48, 96, 128]),
                           vocab_size=chance.choice([64, 251]))
            ranks, batch = chance.choice([1, 2, 3, 4, 6]), chance.choice([6, 12, 24])
            path, plan = self.written(model, "config"), self.fresh("plan", ".mlir")
            done = run([CLEAVE, "plan", path, "--cluster", f"local:{ranks}", "--seq-len", "16",
                        "--global-batch", str(batch), "-o", plan, "--json"])
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            # Every tensor as each rank holds it, forward, backward and update.
            done = run([CLEAVE, "verify", path, "--plan", plan, "--steps", "1"])
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_j02_every_decision_has_an_alternative(self):
        path, plan = self.written(config(), "config"), self.path("plan.mlir")
        done = run([CLEAVE, "plan", path, "--cluster", "local:4", "--seq-len", "32", "--global-batch",
                    "8", "-o", plan])
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run([CLEAVE, "explain", plan])
        self.assertEqual(done.returncode, 0, done.stderr)
        text = done.stdout.split("each decision")[1]
        for field in ("dp", "tp", "cp", "pp", "zero", "sp", "recompute", "overlap", "micro_batch"):
            line = next(row for row in text.splitlines() if row.split()[:1] == [field])
            self.assertRegex(line, r"%|at least|no other")
        done = json.loads(run([CLEAVE, "explain", plan, "--json"]).stdout)
        self.assertTrue(done["at_hand"]["is_best"])
        self.assertEqual(done["at_hand"]["plan"]["layout"], done["plan"]["layout"])
        for decision in done["decisions"]:
            line = next(row for row in text.splitlines() if row.split()[:1] == [decision["field"]])
            if "more" in decision:
                self.assertIn(f"{100 * decision['more']:+.2f} %", line)
                self.assertGreaterEqual(decision["more"], 0)
        done = run([CLEAVE, "explain", plan, "--why-not", "tp=4", "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        other = json.loads(done.stdout)["compared"][0]["best"]
        self.assertEqual(other["layout"]["tp"], 4)

    def test_j02_links_change_what_depends_on_them(self):
        def parts(bandwidth):
            levels = [{"name": "link", "span": 8, "bandwidth": 450e9},
                      {"name": "network", "bandwidth": bandwidth}]
            found = self.plan(TINYLLAMA, self.cluster(2, 8, levels=levels), "--seq-len", "2048",
                              "--global-batch", "32", "--pin",
                              "dp=2,tp=8,sp=1,vocab=1,zero=0,overlap=0,recompute=none,micro_batch=4,"
                              "order=tp-cp-dp-pp")
            return found["plan"]["parts"]
        slow, fast = parts(25e9), parts(50e9)
        changed = {name for name in slow if slow[name] != fast[name]}
        # A step that is shorter waits less for the slowest of many hosts, by a share of itself.
        self.assertEqual(changed - {"fixed"}, {"data exchanges"})
        self.assertLess(fast["data exchanges"], slow["data exchanges"])

    def test_j02_recomputation_of_175b(self):
        """Full recomputation adds one forward, that of passes far less, and products none."""
        found = {}
        for value in ("none", "selective", "full"):
            found[value] = self.plan(
                GPT3, "dgx-a100:128", "--seq-len", "2048", "--global-batch", "1536", "--set",
                "dropout=0", "--allow-over-budget", "--pin",
                f"tp=8,pp=16,vp=1,schedule=1f1b,cp=1,sp=1,zero=1,micro_batch=1,recompute={value}")
        plans = {value: answer["plan"] for value, answer in found.items()}
        self.assertEqual({v: p["layout"]["recompute"] for v, p in plans.items()}, {v: v for v in plans})
        again = {value: plan["parts"]["recomputation"] for value, plan in plans.items()}
        parts = plans["none"]["parts"]
        # A third of what is computed, where the backward takes two thirds; passes take 1.7 times
        # as long in the backward, attention 2.5 times.
        forward = parts["products"] / 3 + parts["attention"] / 3.5 + parts["passes over memory"] / 2.7
        self.assertEqual(again["none"], 0)
        self.assertAlmostEqual(again["full"] / (forward + parts["tensor exchanges"] / 2), 1, delta=0.1)
        self.assertGreater(again["selective"], 0)
        self.assertLess(again["selective"], 0.2 * again["full"])
        self.assertLess(again["selective"], parts["passes over memory"] / 2.7)
        steps = [plans[value]["step"] for value in ("none", "selective", "full")]
        self.assertEqual(steps, sorted(steps))
        memory = [plans[value]["memory"] for value in ("full", "selective", "none")]
        self.assertEqual(memory, sorted(memory))
        # In widths of the model: without, what comes in, twice a norm's result and queries, keys,
        # values, what attention makes, the sum behind it, 4 before and 4 behind the activation;
        # with, what comes in, queries, keys, values, what attention makes and what is made of it,
        # and 4.
        activations = [plans[value]["memory_of_places"][4]["activations"]
                       for value in ("full", "selective", "none")]
        self.assertAlmostEqual(activations[1] / activations[2], 10 / 16, delta=0.01)
        self.assertAlmostEqual(activations[0] / activations[2], 1 / 16, delta=0.01)
        executed = {value: answer["operations"]["executed"] / answer["operations"]["exact"]
                    for value, answer in found.items()}
        self.assertEqual(executed["selective"], 1)
        self.assertGreater(executed["full"], 1.3)

    def test_j02_a_set_of_paths_is_recognised(self):
        """By `diff` and `explain`, which say so where it is another than that of a value."""
        path = self.written(config(), "config")
        plans = {}
        for value in ("selective", "full"):
            plans[value] = self.path(f"{value}.mlir")
            done = run([CLEAVE, "plan", path, "--cluster", "local:2", "--seq-len", "32", "--pin",
                        f"tp=2,recompute={value}", "-o", plans[value]])
            self.assertEqual(done.returncode, 0, done.stderr)
        changed = run([CLEAVE, "diff", plans["full"], plans["selective"]])
        self.assertRegex(changed.stdout, r"recompute: full → selective")
        done = json.loads(run([CLEAVE, "explain", plans["selective"], "--json"]).stdout)
        self.assertTrue(done["at_hand"]["is_best"])
        self.assertNotIn("kept_otherwise", done["at_hand"])
        why = json.loads(run([CLEAVE, "explain", plans["selective"], "--why-not", "recompute=none",
                              "--json"]).stdout)
        self.assertEqual(why["compared"][0]["best"]["layout"]["recompute"], "none")
        with open(plans["selective"], encoding="utf-8") as file:
            text = file.read()
        with open(plans["full"], "w", encoding="utf-8") as file:
            file.write(text.replace('"mlp.up", ', ""))
        other = json.loads(run([CLEAVE, "explain", plans["full"], "--json"]).stdout)
        self.assertEqual(other["at_hand"]["kept_otherwise"], "block")
        self.assertFalse(other["at_hand"]["is_best"])
        self.assertIn('keeps other results of "block"', run([CLEAVE, "explain", plans["full"]]).stdout)
        found = self.plan(config(), "local:2", "--seq-len", "32", "--global-batch", "8", "--pin",
                          "recompute=selective", "--forbid", "recompute", fails=True)
        self.assertEqual(found["kind"], "plan.infeasible")

    def test_why_not_heeds_the_order_of_axes(self):
        """What --why-not says of an order is what a search under that pin finds."""
        model, plan = self.written(config()), self.path("order.mlir")

        def planned(pins, *more):
            done = run([CLEAVE, "plan", model, "--cluster", "dgx-h100:2", "--seq-len", "32",
                        "--global-batch", "16", "--pin", pins, "--json", *more])
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["plan"]

        free = planned("dp=4,tp=2,pp=2", "-o", plan)
        pinned = planned("dp=4,tp=2,pp=2,order=pp-dp-cp-tp")
        self.assertNotEqual(free["layout"]["order"], pinned["layout"]["order"])
        why = json.loads(run([CLEAVE, "explain", plan, "--why-not", "order=pp-dp-cp-tp",
                              "--json"]).stdout)
        self.assertEqual(why["compared"][0]["best"]["layout"], pinned["layout"])
        self.assertEqual(why["compared"][0]["best"]["step"], pinned["step"])

    def test_j06_no_flags_give_the_best(self):
        for ranks in (1, 2, 4, 8):
            found = self.best_of_all(config(), ranks, "--seq-len", "32", "--global-batch", "8")
            self.assertLessEqual(found["plan"]["memory"], found["memory_limit"])
        for ranks in (1, 2, 4, 8):
            found = self.plan(TINYLLAMA, self.cluster(1, ranks), "--seq-len", "2048",
                              "--global-batch", "32")
            self.assertTrue(found["search"]["complete"])
        found = self.best_of_all(config(), 4, "--seq-len", "32", "--global-batch", "8", "--pin",
                                 "tp=2")
        self.assertEqual(found["plan"]["layout"]["tp"], 2)
        layout = found["plan"]["layout"]
        self.assertEqual(layout["dp"] * layout["cp"] * layout["pp"], 2)

    def test_k01_energy_and_money(self):
        cluster = self.cluster(20, 8, "a100-sxm-40gb", power_overhead=1.0)
        found = self.plan(TINYLLAMA, cluster, "--seq-len", "2048", "--global-batch", "1280",
                          "--tokens", "1000000000000")
        told = found["run"]
        self.assertAlmostEqual(told["device_hours"], told["days"] * 24 * 160, places=3)
        # 400 W each.
        self.assertAlmostEqual(told["energy_kwh"], told["device_hours"] * 0.4, places=3)
        self.assertIsNone(told["money"])
        self.assertIsNone(told["interruptions"])
        # A device of which nobody says what it draws.
        unknown = self.plan(TINYLLAMA, self.cluster(2, 8, "tpu-v5p-95gb"), "--seq-len", "2048",
                            "--global-batch", "64", "--tokens", "1000000000")
        self.assertIsNone(unknown["run"]["energy_kwh"])

    def test_k03_ranks_that_keep_the_batch(self):
        model = llama(4, 512, 8, 8, 1408, 1000)
        sizes = ("--seq-len", "512", "--global-batch", "2880", "--pin",
                 "tp=1,pp=1,cp=1,micro_batch=6")
        found = self.plan(model, self.cluster(60, 8), *sizes)
        micros = {row["ranks"]: row["micro_batches"] for row in found["other_ranks"]}
        self.assertEqual((micros[480], micros[240], micros[160]), (1, 2, 3))
        self.assertNotIn(472, micros)
        error = self.plan(model, self.cluster(59, 8), *sizes, fails=True)
        self.assertEqual(error["kind"], "plan.batch_indivisible")
        self.assertIn("global_batch=2832", error["suggestions"])
        error = self.plan(model, self.cluster(80, 8), *sizes, fails=True)
        self.assertEqual(error["kind"], "plan.batch_indivisible")

    def test_classic_layout_beside_the_best(self):
        found = self.plan(GPT3, "dgx-a100:128", "--seq-len", "2048", "--global-batch", "1536",
                          "--set", "dropout=0", "--compare", "tp=8,pp=16,dp=8")
        classic = found["compared"][0]["best"]
        self.assertEqual([classic["layout"][k] for k in ("tp", "pp", "dp")], [8, 16, 8])
        self.assertLessEqual(found["plan"]["step"], classic["step"])
        self.assertTrue(math.isfinite(classic["step"] / found["plan"]["step"]))


if __name__ == "__main__":
    harness.main()
