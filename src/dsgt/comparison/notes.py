"""What a careful reader of a comparison's numbers should know beside them."""

from __future__ import annotations

import math

from dsgt.comparison.method_runs import reached_at_once
from dsgt.comparison.result import Comparison
from dsgt.text import listed, short

LEARNED = 0.9
"""Of the first loss; who is above it has not learned much."""


def notes(found: Comparison) -> list[str]:
    """Weights that differ or have a price, rates that were not tuned or lie at the edge of the grid; seeds, losses and
    a target that tell nothing."""
    about_all = (*_same_seeds(found), *_nothing_learned(found), *_no_target(found))
    return [*_other_weights(found), *_price_of_fdla(found), *_edges(found), *about_all]


def _other_weights(found: Comparison) -> list[str]:
    asked = found.settings.weights
    others = [line for line in found.lines if line.weights not in (asked, "all", "file", "")]
    rules = {line.weights for line in others}
    if len(others) == len(found.lines) > 1 and len(rules) == 1:
        return [f"None of these methods may use {asked} weights here, so all ran with {rules.pop()} ones."]
    return [
        f"{line.method} may not use {asked} weights here, so it ran with {line.weights} ones: part of a difference may "
        "be the weights'."
        for line in others
    ]


def _price_of_fdla(found: Comparison) -> list[str]:
    if not any(line.weights == "fdla" for line in found.lines):
        return []
    return [
        "FDLA weights mix fastest, but their smallest eigenvalue is as far from 0 as their second largest, which on "
        "sparse graphs allows smaller steps only: compare with --weights metropolis."
    ]


def _edges(found: Comparison) -> list[str]:
    if not found.settings.tuned:
        return ["The learning rate was given, not tuned: another may suit each method better."] * (len(found.lines) > 1)
    said = []
    for which, better in (("largest", "larger"), ("smallest", "smaller")):
        if edge := [line.method for line in found.lines if line.edge == which]:
            said.append(f"Best at the {which} learning rate tried, so a {better} one may be better: {listed(edge)}.")
    return said


def _same_seeds(found: Comparison) -> list[str]:
    """Of full batches, and one problem for all seeds."""
    finished = [line for line in found.lines if line.converged]
    if found.settings.seeds == 1 or not finished or any(len(set(line.losses)) > 1 for line in finished):
        return []
    return ["All seeds gave the same numbers: nothing was drawn, so this says nothing of other shards or batches."]


def _nothing_learned(found: Comparison) -> list[str]:
    finished = [line for line in found.lines if line.converged]
    start = max((rows[0]["loss"] for line in finished for rows in line.runs), default=0.0)
    lowest = min((line.loss for line in finished), default=0.0)
    if lowest < LEARNED * start or start <= 0:
        return []
    return [
        f"Nobody learned much: the lowest loss is {short(lowest)}, and all began with {short(start)}. Longer runs or "
        "larger learning rates would tell more."
    ]


def _no_target(found: Comparison) -> list[str]:
    target = found.target
    if target is None or not math.isfinite(target) or not reached_at_once(found.lines, target):
        return []
    return [f"A loss of {short(target)} is no better than the start, so what it takes to get there is not shown."]
