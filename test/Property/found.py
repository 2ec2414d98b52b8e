"""Random models × clusters, searched: each plan that is found is equal to one rank (case I04).

    found.py CLEAVE FORMATS [options of equal_or_refused.py]

Clusters have up to eight devices in nodes of any size, links and networks of any speed, and for a
third of the cases little memory, which the sizes of the model are near to; some values are pinned or
forbidden, so that plans are not all alike. What is found must be checked and run by `cleave verify`,
which compares every tensor, and compile to an image; or nothing is found, by a kind of the docs.
"""
import json

import equal_or_refused
import layouts
import models

DEVICES = ("h100-sxm-80gb", "a100-sxm-80gb", "h800-sxm-80gb", "mi300x-192gb")
# Nothing that contradicts another one of these.
FORBIDDEN = ("tp", "cp", "pp", "zero=3", "zero", "schedule=gpipe", "recompute", "micro_batch=1",
             "overlap", "sp", "vocab")


def cluster_of(random):
    """A cluster of up to eight devices."""
    nodes, per_node = random.choice(((1, 1), (1, 2), (1, 3), (1, 4), (1, 6), (1, 7), (1, 8), (2, 1), (2, 2),
                                     (2, 3), (2, 4), (3, 1), (3, 2), (4, 2)))
    levels = [{"name": "link", "span": per_node, "bandwidth": random.choice((1e8, 1e10, 4e11))}]
    if nodes > 1:
        levels.append({"name": "network", "bandwidth": random.choice((1e8, 1e10, 5e10))})
    found = {"device": random.choice(DEVICES), "nodes": nodes, "devices_per_node": per_node,
             "levels": levels}
    if random.random() < 0.33:
        found["device_memory"] = random.choice((2e4, 5e4, 1e5, 3e5, 1e6))
    return found


class FoundCase(equal_or_refused.Case):
    def outcome(self):
        self.config = models.model(self.random)
        request = layouts.request(self.random, self.config)
        self.write("config.json", json.dumps(self.config, indent=1))
        cluster = cluster_of(self.random)
        self.write("cluster.json", json.dumps(cluster))
        ranks = cluster["nodes"] * cluster["devices_per_node"]
        where = ["--cluster", "cluster.json"]
        if self.random.random() < 0.3:
            where = ["--cluster", f"local:{ranks}"]
        words = ["--seq-len", str(request["sequence"]), "--global-batch",
                 str(ranks * self.random.choice((1, 1, 2, 3, 4)))]
        if self.random.random() < 0.5:
            forbidden = self.random.sample(FORBIDDEN, self.random.randint(1, 4))
            words += ["--forbid", ",".join(forbidden)]
        elif self.random.random() < 0.3:
            words += ["--pin", self.random.choice(("zero=3", "pp=2", "tp=2", "cp=2", "recompute=full", "recompute=selective", "zero=2"))]
        if refused := self.run("plan", "config.json", *where, *words, "--set", "precision=fp32",
                                "--top", "1", "-o", "plan.mlir"):
            return refused
        steps = "1" if models.layers(self.config) > 8 else "2"
        for last in (["verify", "--steps", steps], ["compile", "--cluster", f"local:{ranks}", "--emit=image", "-o", "image"]):
            if refused := self.run(last[0], "config.json", "--plan", "plan.mlir", *last[1:]):
                raise equal_or_refused.Wrong(f"{last[0]} refuses what was found: {refused}")
        return "equal"


if __name__ == "__main__":
    equal_or_refused.main(FoundCase)
