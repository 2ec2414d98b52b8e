"""What a step sends: the table before the run, the counters behind it, and sums by hand."""
import harness
import traffic
from harness import config, golden, recipe

# T0: 4 layers of width 64, 180,800 parameters; 8 sequences of 32 tokens.
PARAMETERS = 180800
LAYERS, WIDTH, TOKENS = 4, 64, 8 * 32
# Values between blocks, of all tokens.
STREAM = 4 * TOKENS * WIDTH


def total(rows, **wanted):
    """Bytes of a rank in the rows that have these values."""
    return sum(row["total"] for row in rows
               if all(row.get(key) == value for key, value in wanted.items()))


class Communication(harness.Case):
    def rows(self, ranks, pins, model="t0", **changes):
        return traffic.table(self, model, ranks, pins, **changes)["rows"]

    def test_j01_counters_equal_the_table(self):
        """Every rank, every kind, every group, to the byte, whatever else uses them."""
        for model, ranks, pins in traffic.LAYOUTS:
            with self.subTest(model=model, pins=pins):
                binary = self.compiled(golden(model, "config.json"), ranks, pins,
                                       recipe(global_batch=traffic.batch_of(pins)))
                log, data = self.fresh("log", ".jsonl"), golden(model, "tokens.bin")
                self.train(binary, data, 3, "--profile", "--eval-data", data, "--eval-every", "1",
                           "--checkpoint", self.fresh("saved"), "--save-every", "2", log=log)
                steps, counts, _ = traffic.counted(log)
                self.assertEqual(steps, 3)
                table = traffic.table(self, model, ranks, pins)
                self.assertEqual(counts, traffic.planned(self, table, 3))
                self.assertEqual(bool(table["rows"]), ranks > 1)
                (row,) = harness.read_rows(log, "traffic")
                beside = [e for r in row["traffic"]["ranks"] for e in r["exchanges"] if e.get("beside")]
                self.assertEqual(bool(beside), "overlap=1" in pins)

    def test_j01_every_exchange_is_explained(self):
        """Source, placement before and after, bytes, group, count; sums that fit."""
        for model, ranks, pins in traffic.LAYOUTS:
            table = traffic.table(self, model, ranks, pins)
            sums = {}
            for row in table["rows"]:
                with self.subTest(model=model, pins=pins, row=row):
                    self.assertTrue(row["source"])
                    self.assertNotIn("dist.", row["source"])
                    self.assertGreater(min(row["bytes"], row["count"], row["ranks"]), 0)
                    self.assertGreater(row["group"], 1)
                    self.assertTrue(row["axes"])
                    if "to" not in row:
                        self.assertNotEqual(row["before"], row["after"])
                sums[row["kind"]] = sums.get(row["kind"], 0) + row["total"] * row["ranks"]
            self.assertEqual(sums, {kind: sum_["bytes"] for kind, sum_ in table["kinds"].items()})
            self.assertEqual(sum(sums.values()), sum(s["bytes"] for s in table["axes"].values()))

    def test_selective_recomputation_exchanges_nothing_again(self):
        """What is kept lies as its sums leave it: per kind and axes the bytes are those without."""
        for model, ranks, pins in (("t0", 2, "tp=2"), ("t0", 2, "tp=2,sp=1"), ("t0", 2, "cp=2"),
                                   ("t0", 4, "dp=2,tp=2,sp=1,zero=1"), ("t0", 2, "dp=2,zero=3"),
                                   ("gpt2-mini", 2, "tp=2"), ("gpt2-mini", 2, "tp=2,sp=1"),
                                   ("gemma2-mini", 2, "tp=2,sp=1"), ("olmo2-mini", 2, "tp=2"),
                                   ("gpt-oss-mini", 2, "dp=2,ep=2"), ("t0-moe", 2, "dp=2,ep=2"),
                                   ("t0-moe", 4, "dp=2,tp=2,ep=4,sp=1")):
            with self.subTest(model=model, pins=pins):
                sums = []
                for value in ("none", "selective"):
                    found = {}
                    for row in self.rows(ranks, f"{pins},recompute={value}", model):
                        key = row["kind"], tuple(row["axes"])
                        found[key] = found.get(key, 0) + row["total"]
                    sums.append(found)
                self.assertTrue(sums[0])
                self.assertEqual(*sums)

    def test_a_resumed_run_counts_its_own_steps(self):
        binary = self.compiled(golden("t0", "config.json"), 2, "tp=2")
        saved, data = self.fresh("saved"), golden("t0", "tokens.bin")
        self.train(binary, data, 2, "--checkpoint", saved, log=self.fresh("first"))
        log = self.fresh("log", ".jsonl")
        self.train(binary, data, 5, "--checkpoint", saved, "--resume", "--profile", log=log)
        self.assertEqual(traffic.counted(log)[0], 3)

    def test_tensor_parallelism(self):
        """Two sums of the stream in each layer, forward and back, one in embedding and head."""
        rows = self.rows(2, "tp=2")
        stream = [r for r in rows if r["bytes"] == STREAM]
        self.assertEqual({r["kind"] for r in stream}, {"all_reduce"})
        self.assertEqual(sum(r["count"] for r in stream), 4 * LAYERS + 2)
        self.assertEqual({r["source"] for r in stream if r["entry"] == "microbatch" and r["count"] > 1
                          and "o" in r["source"]} & {"layers.*/mlp.down"}, {"layers.*/mlp.down"})

    def test_sequence_parallelism(self):
        """A gather and a scatter where a sum was; gathered again for the gradients of weights."""
        rows = self.rows(2, "tp=2,sp=1")
        stream = [r for r in rows if r["bytes"] == STREAM]
        count = {kind: sum(r["count"] for r in stream if r["kind"] == kind)
                 for kind in ("all_gather", "reduce_scatter", "all_reduce")}
        self.assertEqual(count, {"all_gather": (2 + 4) * LAYERS + 2,
                                 "reduce_scatter": (2 + 2) * LAYERS + 2, "all_reduce": 0})
        # Of a layer forward as many bytes as without: two sums are a gather and a scatter each.
        layer = [r for r in stream if r["count"] == LAYERS]
        self.assertEqual(sum(r["bytes"] for r in layer), 10 * STREAM)

    def test_data_parallelism(self):
        """Gradients, once a step however many micro-batches there are."""
        for micro in (8, 2, 1):
            rows = self.rows(2, "dp=2", micro_batch=micro // 2 or 1)
            gradients = [r for r in rows if r["source"].endswith(" gradient")]
            self.assertEqual({(r["kind"], r["entry"]) for r in gradients}, {("all_reduce", "update")})
            self.assertEqual(sum(r["total"] for r in gradients), 4 * PARAMETERS)
            # Beside them numbers: how many targets count, the loss.
            self.assertLessEqual(sum(r["total"] for r in rows) - 4 * PARAMETERS, 16)

    def test_zero(self):
        """Stage 1 scatters gradients and gathers weights; 3 gathers them where they are used."""
        rows = self.rows(2, "dp=2,zero=1")
        self.assertEqual(total(rows, kind="reduce_scatter"), 4 * PARAMETERS)
        self.assertEqual(total(rows, kind="all_gather"), 4 * PARAMETERS)
        self.assertLessEqual(total(rows, kind="all_reduce"), 16)
        two = self.rows(2, "dp=2,zero=2", micro_batch=1)
        # What is kept of gradients is a rank's share: scattered in each of 4 micro-batches.
        self.assertEqual(total(two, kind="reduce_scatter"), 4 * 4 * PARAMETERS)
        self.assertEqual(total(two, kind="all_gather"), 4 * PARAMETERS)
        three = self.rows(2, "dp=2,zero=3")
        self.assertEqual(total(three, kind="reduce_scatter"), 4 * PARAMETERS)
        gathered = total(three, kind="all_gather")
        self.assertEqual(gathered % 4, 0)
        self.assertTrue(PARAMETERS < gathered // 4 <= 2 * PARAMETERS, gathered)

    def test_context_parallelism(self):
        """Keys and values of all tokens to all, their gradients back; weights as over data."""
        rows = self.rows(2, "cp=2")
        keys = 4 * TOKENS * 2 * 16
        inner = [r for r in rows if r["entry"] == "microbatch" and r["bytes"] == keys]
        self.assertEqual(total(inner, kind="reduce_scatter"), 2 * LAYERS * keys)
        self.assertEqual(total(inner, kind="all_gather") % (2 * LAYERS * keys), 0)
        gradients = [r for r in rows if r["source"].endswith(" gradient")]
        self.assertEqual(sum(r["total"] for r in gradients), 4 * PARAMETERS)

    def test_pipelines(self):
        """Each micro-batch once over each boundary and back, the last branch added to the stream."""
        for pp, pins, boundaries in ((2, "pp=2", 1), (4, "pp=4", 3), (2, "pp=2,vp=2", 3)):
            for micro in (4, 1):
                rows = self.rows(pp, f"{pins},micro_batch={micro}")
                for kind in ("send_activation", "send_gradient"):
                    sends = [r for r in rows if r["kind"] == kind]
                    self.assertEqual({r["count"] for r in sends}, {8 // micro})
                    self.assertEqual(len(sends), boundaries)
                    self.assertEqual({r["bytes"] for r in sends}, {micro * 32 * WIDTH * 4})

    def test_text_for_people(self):
        command = self.compile_command(config(), 4, "dp=2,tp=2,sp=1")
        done = harness.run(command + ["--emit=comm"])
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = self.rows(4, "dp=2,tp=2,sp=1")
        bytes_ = sum(r["total"] * r["ranks"] for r in rows)
        messages = sum(r["count"] * r["ranks"] for r in rows)
        self.assertEqual(done.stdout.splitlines()[0],
                         f"a step of 4 ranks: {bytes_} bytes in {messages} messages on all of them")
        listed = [int(line.split()[0]) for line in done.stdout.splitlines() if " × " in line
                  and line.split()[0].isdigit()]
        self.assertEqual(listed, sorted(listed, reverse=True))
        self.assertEqual(sum(listed), sum(r["total"] for r in rows))
        self.assertIn("[batch/data, sequence/tensor, model] → [batch/data, sequence, model]",
                      done.stdout)


if __name__ == "__main__":
    harness.main()
