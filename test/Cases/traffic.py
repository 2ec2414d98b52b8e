"""Tables of communication beside what a binary counted; used by the cases and under MPI."""
import collections
import json

import harness
from harness import golden, recipe

# Over data, context, tensor, stages and experts, what is cut along each, and how often a
# step goes through the model.
LAYOUTS = (
    ("t0", 1, "tp=1"),
    ("t0", 2, "dp=2,micro_batch=2"),
    ("t0", 3, "dp=3"),
    ("t0", 2, "tp=2"),
    ("t0", 4, "tp=4,sp=1,vocab=0"),
    ("t0", 4, "dp=2,tp=2,sp=1,micro_batch=1"),
    ("t0-vocab251", 2, "tp=2,sp=1"),
    ("t0", 3, "cp=3"),
    ("gpt2-mini", 4, "dp=2,cp=2,zero=2"),
    ("t0", 2, "dp=2,zero=1"),
    ("t0-tied", 3, "dp=3,zero=2,micro_batch=1"),
    ("t0", 4, "dp=2,tp=2,zero=3,recompute=full,micro_batch=2"),
    ("gpt2-mini", 4, "dp=2,tp=2,sp=1,recompute=selective,micro_batch=2"),
    ("t0-tied", 2, "pp=2,micro_batch=2"),
    ("t0", 4, "pp=2,tp=2,sp=1,micro_batch=2"),
    ("t0", 4, "pp=2,dp=2,zero=2,schedule=zb-h1,micro_batch=1"),
    ("t0", 4, "pp=2,vp=2,dp=2,micro_batch=1"),
    ("t0-moe", 4, "dp=2,tp=2,ep=2"),
    ("t0", 2, "dp=2,overlap=1"),
    ("t0-tied", 3, "dp=3,zero=1,overlap=1,micro_batch=1"),
    ("gpt2-mini", 4, "dp=2,cp=2,zero=3,overlap=1"),
    ("t0", 4, "pp=2,dp=2,zero=3,micro_batch=1,overlap=1"),
    ("t0-moe-aux", 4, "dp=2,tp=2,ep=2,micro_batch=2"),
    ("t0-moe-aux", 4, "pp=2,dp=2,ep=2,micro_batch=1"),
    ("t0", 4, "dp=2,tp=2,zero=3,order=dp-tp-cp-pp"),
    ("t0-tied", 4, "pp=2,dp=2,zero=1,micro_batch=2,order=pp-dp-cp-tp"),
    ("gpt2-mini", 4, "pp=2,cp=2,micro_batch=2,overlap=1,order=pp-cp-tp-dp"),
    ("t0-moe", 4, "dp=2,tp=2,ep=4,sp=1,order=dp-cp-tp-pp"),
)


def batch_of(pins):
    """A batch that the layout's ranks share evenly."""
    return 6 if "dp=3" in pins else 8


def table(case, model, ranks, pins, **changes):
    """The table of a step."""
    values = recipe(global_batch=batch_of(pins), **changes)
    command = case.compile_command(golden(model, "config.json"), ranks, pins, values)
    done = harness.run(command + ["--emit=comm", "--json"])
    case.assertEqual(done.returncode, 0, done.stderr)
    return json.loads(done.stdout)["communication"]


def planned(case, communication, steps):
    """How many ranks count what: {frozenset of (kind, axes) → (count, bytes)} → ranks."""
    places = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0]))
    ranks = {}

    def add(place, kind, row):
        entry = places[place][(kind, tuple(row["axes"]))]
        entry[0] += row.get("messages", row["count"]) * steps
        entry[1] += row["total"] * steps

    for row in communication["rows"]:
        case.assertEqual(row["total"], row["bytes"] * row["count"])
        ranks[row["place"]] = row["ranks"]
        add(row["place"], row["kind"], row)
        if "to" in row:
            add(row["to"], row["kind"].replace("send", "receive"), row)
    counts = collections.Counter()
    for place, entries in places.items():
        counts[frozen(entries)] += ranks[place]
    return counts


def frozen(entries):
    return frozenset((key, tuple(value)) for key, value in entries.items())


def counted(log):
    """The same of what the ranks of a run counted, as its log has it; and for each rank a list."""
    (row,) = harness.read_rows(log, "traffic")
    counts = collections.Counter()
    ranks = {}
    for rank in row["traffic"]["ranks"]:
        entries = collections.defaultdict(lambda: [0, 0])
        for exchange in rank["exchanges"]:
            entry = entries[(exchange["kind"], tuple(exchange["axes"]))]
            entry[0] += exchange["count"]
            entry[1] += exchange["bytes"]
        ranks[rank["rank"]] = frozen(entries)
        counts[ranks[rank["rank"]]] += 1
    return row["traffic"]["steps"], counts, ranks
