"""Which ranks stand on which nodes, and what crosses them."""
import json

import harness
from harness import config, recipe

# Two nodes of four devices.
CLUSTER = {"name": "two-nodes", "device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 4,
           "levels": [{"name": "nvlink", "span": 4, "bandwidth": 450e9},
                      {"name": "infiniband", "bandwidth": 50e9}]}
STREAM = 4 * 8 * 32 * 64


class Placement(harness.Case):
    def command(self, model, pins):
        return [harness.CLEAVE, "compile", self.written(model), "--recipe", self.written(recipe()),
                "--cluster", self.written(CLUSTER, "cluster"), "--pin", pins]

    def communication(self, pins, model=None):
        done = harness.run(self.command(model or config(), pins) + ["--emit=comm", "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["communication"], done.stderr

    def test_c01_the_heaviest_groups_stay_within_a_node(self):
        found, said = self.communication("tp=4,dp=2")
        self.assertEqual((found["nodes"]["count"], found["nodes"]["devices"]), (2, 4))
        groups = found["nodes"]["groups"]
        self.assertEqual(groups["tensor.0"], [[0, 2], [1, 3], [4, 6], [5, 7]])
        self.assertEqual(groups["data"], [[0, 4], [1, 5], [2, 6], [3, 7]])
        for row in found["rows"]:
            self.assertEqual(row["nodes"], 2 if "data" in row["axes"] else 1, row)
        self.assertNotIn("warning", said)
        # Eight key heads are not held twice, and the axis has one part.
        heads = config(num_attention_heads=8, num_key_value_heads=4, head_dim=8)
        groups = self.communication("tp=4,dp=2", heads)[0]["nodes"]["groups"]
        self.assertEqual(groups["tensor"], [[0, 1, 2, 3], [4, 5, 6, 7]])
        groups = self.communication("tp=2,pp=2,dp=2")[0]["nodes"]["groups"]
        self.assertEqual(groups["tensor"], [[0, 1], [2, 3], [4, 5], [6, 7]])
        self.assertEqual(groups["pipe"], [[0, 4], [1, 5], [2, 6], [3, 7]])

    def test_c01_bytes_that_cross(self):
        """Eight ways across two nodes: allowed, with a warning that says how many bytes."""
        heads = config(num_attention_heads=8, num_key_value_heads=8, head_dim=8)
        found, said = self.communication("tp=8", heads)
        crossing = sum(row["total"] * row["ranks"] for row in found["rows"])
        self.assertEqual(found["between_nodes"], crossing)
        within = sum(row["total"] * row["ranks"] for row in found["rows"]
                     if row["entry"] == "microbatch")
        self.assertIn("warning[plan.group_crosses_nodes]", said)
        self.assertIn(f"{within:,} bytes a step", said)
        # Two sums of the stream in each of four layers, forward and back, embedding and head.
        stream = sum(row["count"] for row in found["rows"] if row["bytes"] == STREAM)
        self.assertEqual(stream, 4 * 4 + 2)
        self.assertGreaterEqual(within, 8 * 18 * STREAM)
        # So does the binary's compilation, which is made all the same.
        out = self.path("train")
        done = harness.run(self.command(heads, "tp=8") + ["-o", out])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning[plan.group_crosses_nodes]", done.stderr)
        text = harness.run(self.command(heads, "tp=8") + ["--emit=comm"]).stdout.splitlines()
        self.assertEqual(text[1], f"{crossing} of these bytes between nodes")
        self.assertIn("tensor: 0 1 2 3 4 5 6 7", text)

    def test_exchanges_between_nodes_run_beside_the_computation(self):
        """Where ranks that share parameters stand on several nodes, unless a pin says otherwise;
        the ranks of a place in a pipeline may all stand on one."""
        for pins, overlaps in (("dp=8", True), ("tp=4,dp=2,zero=3", True), ("tp=2,cp=4", True),
                               ("tp=4,pp=2", False), ("tp=2,dp=2,pp=2", False), ("dp=8,overlap=0", False),
                               ("tp=2,dp=2,pp=2,overlap=1", True),
                               # Sums that come once for several micro-batches win nothing.
                               ("tp=4,dp=2,micro_batch=1", False),
                               ("tp=4,dp=2,micro_batch=1,zero=2", True)):
            with self.subTest(pins=pins):
                done = harness.run(self.command(config(), pins) + ["--emit=plan"])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual("plan.overlap" in done.stdout, overlaps)
        for pins, overlaps in (("dp=4,zero=3", False), ("dp=4,zero=3,overlap=1,bucket=2", True)):
            done = harness.run(self.compile_command(config(), 4, pins) + ["--emit=plan"])
            self.assertEqual("plan.overlap bucket 2097152" in done.stdout, overlaps, done.stdout)
        error = self.refused(self.compile_command(config(), 4, "dp=4,bucket=8") + ["--emit=plan"],
                             "plan.bad_pin", says=["bucket=8"])
        self.assertEqual(error["suggestions"], ["overlap=1,bucket=8"])
        # Nobody in the layers waits for what is in a bucket.
        for pins, warns in (("dp=8,zero=2", False), ("dp=8,zero=3,overlap=0", True)):
            self.assertEqual("group_crosses_nodes" in self.communication(pins)[1], warns)

    def test_axes_stand_in_the_order_that_is_pinned(self):
        found, said = self.communication("tp=4,dp=2,order=dp-tp-cp-pp")
        groups = found["nodes"]["groups"]
        self.assertEqual(groups["data"], [[0, 1], [2, 3], [4, 5], [6, 7]])
        for row in found["rows"]:
            tensor = any(axis.startswith("tensor.0") for axis in row["axes"])
            self.assertEqual(row["nodes"], 2 if tensor else 1, row)
        self.assertIn("warning[plan.group_crosses_nodes]", said)
        groups = self.communication("tp=2,pp=2,dp=2,order=pp-tp-cp-dp")[0]["nodes"]["groups"]
        self.assertEqual(groups["pipe"], [[0, 1], [2, 3], [4, 5], [6, 7]])
        self.assertEqual(groups["tensor"], [[0, 2], [1, 3], [4, 6], [5, 7]])
        self.assertEqual(groups["data"], [[0, 4], [1, 5], [2, 6], [3, 7]])
        # Whether those that share parameters stand on several nodes decides on overlap.
        for pins, overlaps in (("tp=4,dp=2,zero=3,order=dp-tp-cp-pp", False),
                               ("tp=2,dp=2,pp=2,zero=3", False),
                               ("tp=2,dp=2,pp=2,zero=3,order=pp-tp-cp-dp", True)):
            done = harness.run(self.command(config(), pins) + ["--emit=plan"])
            self.assertEqual("plan.overlap" in done.stdout, overlaps, pins)

    def test_mistakes_in_the_order(self):
        for given, works in (("pp-dp", "pp-dp-tp-cp"), ("tp-cp-ep-dp-pp", "tp-cp-dp-pp"),
                             ("tp-tp-dp-pp", "tp-dp-pp-cp"), ("", "tp-cp-dp-pp"), ("dp,", "dp-tp-cp-pp")):
            error = self.refused(self.command(config(), f"tp=2,order={given.rstrip(',')}") + ["--emit=plan"],
                                 "plan.bad_pin", says=["innermost first"])
            self.assertEqual(error["suggestions"], [f"order={works}"])
            done = harness.run(self.command(config(), f"tp=2,dp=4,order={works}") + ["--emit=plan"])
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_order_without_effect_is_said(self):
        """A mesh with one axis of more than one rank has one order."""
        for ranks, pins, idle in ((2, "dp=2,order=pp-dp-cp-tp", True), (4, "dp=2,tp=2,order=dp-tp-cp-pp", False)):
            done = harness.run(self.compile_command(config(), ranks, pins) + ["-o", self.path("train")])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("order=" in done.stderr, idle, done.stderr)

    def test_c01_one_node(self):
        command = self.compile_command(config(), 4, "tp=4") + ["--emit=comm"]
        done = harness.run(command)
        self.assertNotIn("nodes", done.stdout + done.stderr)


if __name__ == "__main__":
    harness.main()
