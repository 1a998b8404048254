"""What a careful reader of a comparison's numbers should know beside them."""

from __future__ import annotations

import math

from dsgt.comparison.method_runs import reached_at_once
from dsgt.comparison.result import Comparison
from dsgt.text import listed, short


def notes(found: Comparison) -> list[str]:
    """Weights that differ, rates that were not tuned or lie at the edge of the grid, a target that tells nothing."""
    return [*_other_weights(found), *_edges(found), *_no_target(found)]


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


def _edges(found: Comparison) -> list[str]:
    if not found.settings.tuned:
        return ["The learning rate was given, not tuned: another may suit each method better."] * (len(found.lines) > 1)
    said = []
    for which, better in (("largest", "larger"), ("smallest", "smaller")):
        if edge := [line.method for line in found.lines if line.edge == which]:
            said.append(f"Best at the {which} learning rate tried, so a {better} one may be better: {listed(edge)}.")
    return said


def _no_target(found: Comparison) -> list[str]:
    target = found.target
    if target is None or not math.isfinite(target) or not reached_at_once(found.lines, target):
        return []
    return [f"A loss of {short(target)} is no better than the start, so what it takes to get there is not shown."]
