"""Random requests for a plan: pins and a recipe that mostly fit a model."""
import math

import models


def degrees(random, config):
    """Ranks along (dp, cp, tp, pp), at most eight in all."""
    keys, group = models.heads(config)
    while True:
        dp, cp, tp, pp = (random.choice((1, 1, 2, 2, 3, 4, 5, 7)), random.choice((1, 1, 1, 2, 2, 3)),
                          random.choice((1, 1, 2, 2, 3, 4)), random.choice((1, 1, 1, 2, 2, 3, 4)))
        fits = (group % (tp // math.gcd(tp, keys)) == 0 and pp <= models.layers(config) + 2
                and not (pp > 1 and models.is_balanced(config)))
        if dp * cp * tp * pp <= 8 and (fits or random.random() < 0.03):
            return dp, cp, tp, pp


def pipeline(random, config, pp):
    if pp == 1:
        return {}
    schedule = random.choice(("1f1b", "gpipe", "zb-h1", "interleaved"))
    stages = (models.layers(config) + 2) // pp
    if schedule == "interleaved" and stages < 2 and random.random() < 0.9:
        schedule = "1f1b"
    vp = {"vp": random.randint(2, max(2, min(stages, 3)))} if schedule == "interleaved" else {}
    return {"pp": pp, "schedule": schedule, **vp}


def state(random, dp, cp):
    """ZeRO, in groups or not."""
    zero = random.choice((0, 0, 1, 2, 3))
    groups = [cp * n for n in range(1, dp + 1) if dp % n == 0 and cp * n > 1]
    if zero and groups and random.random() < 0.4:
        return {"zero": zero, "zero_group": random.choice(groups)}
    return {"zero": zero} if zero else {}


def experts(random, config, dp, tp):
    count = models.expert_count(config)
    fitting = [ep for ep in {*range(1, dp + 1), tp, dp * tp}
               if ep > 1 and count % ep == 0 and (dp % ep == 0 or ep in (tp, dp * tp))] if count else []
    if fitting and random.random() < 0.6:
        return {"ep": random.choice(sorted(fitting))}
    return {"ep": random.randint(2, 4)} if random.random() < 0.02 else {}


def batch(random, config, dp):
    """Sequences of a step and of a micro-batch."""
    micro, count = random.choice((1, 1, 2, 3)), random.choice((1, 2, 3, 4, 5))
    if models.is_balanced(config) and random.random() < 0.9:
        count = 1
    return dp * micro * count + (random.random() < 0.03), micro


def recipe(random):
    settings = {}
    if random.random() < 0.2:
        settings["clip_norm"] = random.choice((0, 0.01))
    if random.random() < 0.2:
        settings["optimizer.weight_decay"] = random.choice((0, 0.5))
    return settings


def request(random, config):
    """Pins, ranks, sequence, batch and settings."""
    dp, cp, tp, pp = degrees(random, config)
    global_batch, micro = batch(random, config, dp)
    pins = {"dp": dp, "tp": tp, "micro_batch": micro, **pipeline(random, config, pp)}
    if cp > 1:
        pins["cp"] = cp
    pins.update(experts(random, config, dp, tp))
    if "ep" in pins:
        zero = random.choice((0, 0, 1, 2, 3))
        pins.update({"zero": zero} if zero else {})
    else:
        pins.update(state(random, dp, cp))
    if random.random() < 0.5:
        pins["sp"] = random.randint(0, 1)
    if random.random() < 0.3:
        pins["vocab"] = 0
    if random.random() < 0.25:
        pins["recompute"] = random.choice(("selective", "full"))
    length = models.positions(config)
    if random.random() < 0.5:
        length = random.randint(1, length)
    return {"pins": pins, "ranks": dp * cp * tp * pp, "sequence": length,
            "global_batch": global_batch, "settings": recipe(random)}
