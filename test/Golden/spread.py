"""Layouts on up to 8 ranks, chosen so that every pair of choices which can go together does.

A layout is a dictionary of choices: degrees, cuts, stage and groups of ZeRO, recomputation,
micro-batches, schedule, experts, pieces of classifier and loss. `every` enumerates those
that are possible for the golden models: 8 sequences a step, 4 heads, 4 layers between embedding
and head, with experts or not, with a vocabulary that 4 divides (`even`) or not. `spread` picks
of them, without chance, until each pair of two choices that any of them has is in one; `text`
is a layout as golden.py takes it.
"""
import itertools

BATCH, HEADS, LAYERS, MOST = 8, 4, 6, 8


def degrees():
    """(dp, cp, tp, pp) that the models can be dealt out over."""
    for dp, cp, tp, pp in itertools.product((1, 2, 4, 8), range(1, 9), (1, 2, 4), range(1, LAYERS + 1)):
        if dp * cp * tp * pp <= MOST:
            yield dp, cp, tp, pp


def groups(dp, cp):
    """Ranks that share state: groups of whole sequences."""
    return [g for g in range(2, dp * cp) if (dp * cp) % g == 0 and g % cp == 0]


def experts_over(dp, tp):
    """Over a part of data, over tensor, or both."""
    return [ep for ep in (2, 4) if dp % ep == 0 or ep in (tp, dp * tp)]


def every(experts, even):
    for dp, cp, tp, pp in degrees():
        cuts = [(0, 1), (1, 1), (0, 0), (1, 0)] if tp > 1 else [(0, 1)]
        states = [(0, 0)]
        if dp * cp > 1:
            states += [(zero, group) for zero in (1, 2, 3) for group in [0, *groups(dp, cp)]]
        each = BATCH // dp
        micros = sorted({each, each // 2 or 1, 1}, reverse=True)
        schedules = [""] if pp == 1 else ["1f1b", "gpipe", "zb-h1"]
        if pp > 1 and 2 * pp <= LAYERS:
            schedules.append("interleaved")
        eps = experts_over(dp, tp) if experts else [1]
        for (sp, vocab), (zero, group), recompute, micro, schedule, ep, pieces in itertools.product(
                cuts, states, ("none", "full"), micros, schedules, eps, ("", "tokens", "vocab")):
            # Pieces are of whole sequences, and blocks of a matrix that ZeRO cuts too are equal;
            # groups that share state have all experts.
            if (pieces == "tokens" and micro == 1) or (pieces == "vocab" and zero and not even) or (
                    group and ep > 1):
                continue
            yield {"dp": dp, "cp": cp, "tp": tp, "pp": pp, "sp": sp, "vocab": vocab, "zero": zero,
                   "group": "all" if zero and not group else "some" if zero else "",
                   "zero_group": group, "recompute": recompute, "schedule": schedule, "ep": ep,
                   "micro": "all" if micro == each else "one" if micro == 1 else "some",
                   "micro_batch": micro, "pieces": pieces}


# Numbers that follow from other choices, and are none of their own.
DERIVED = ("zero_group", "micro_batch")


def pairs(layout):
    return itertools.combinations((item for item in layout.items() if item[0] not in DERIVED), 2)


def spread(experts, even):
    """Each time, among the layouts with the pair that the fewest have, the one with the most
    pairs that are not covered; the smaller one of two, then the first."""
    layouts = list(every(experts, even))
    holders = {}
    for number, layout in enumerate(layouts):
        for pair in pairs(layout):
            holders.setdefault(pair, []).append(number)
    missing = dict.fromkeys(sorted(holders, key=lambda pair: len(holders[pair])))
    picked = []
    while missing:
        rarest = next(iter(missing))
        # Where many have it, a sample of them in even steps.
        candidates = holders[rarest][::max(1, len(holders[rarest]) // 200)]
        best = max(candidates, key=lambda number: (
            sum(pair in missing for pair in pairs(layouts[number])), -ranks(layouts[number])))
        picked.append(layouts[best])
        for pair in pairs(layouts[best]):
            missing.pop(pair, None)
    return picked


def ranks(layout):
    return layout["dp"] * layout["cp"] * layout["tp"] * layout["pp"]


def pins(layout):
    given = [f"{key}={layout[key]}" for key in ("dp", "cp", "tp", "pp")]
    given += [f"{key}={layout[key]}" for key in ("zero", "ep", "sp") if layout[key] > (key == "ep")]
    given += ["vocab=0"] if not layout["vocab"] else []
    given += [f"zero_group={layout['zero_group']}"] if layout["zero_group"] else []
    given += [f"recompute={layout['recompute']}"] if layout["recompute"] != "none" else []
    if layout["schedule"]:
        given.append(f"schedule={layout['schedule']}")
    return ",".join([*given, f"micro_batch={layout['micro_batch']}"])


def text(layout):
    pieces = {"": "", "tokens": f":batch={layout['micro_batch']}",
              "vocab": f":vocab={4 if layout['zero'] else 3}"}
    return f"{ranks(layout)}:{pins(layout)}{pieces[layout['pieces']]}"


if __name__ == "__main__":
    for experts, even in ((False, True), (False, False), (True, True)):
        chosen = spread(experts, even)
        print(f"experts {experts}, even {even}: {len(chosen)} of {len(list(every(experts, even)))}")
        print("\n".join(map(text, chosen)))
