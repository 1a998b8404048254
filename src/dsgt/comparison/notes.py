"""What a careful reader of a comparison's numbers should know beside them."""

from __future__ import annotations

import math

from dsgt.comparison.method_runs import reached_at_once
from dsgt.comparison.result import Comparison
from dsgt.text import listed, short


def notes(found: Comparison) -> list[str]:
    """Weights that were not those asked for, rates at the edge of the grid, a target that tells nothing."""
    return [*_other_weights(found), *_edges(found), *_no_target(found)]


def _other_weights(found: Comparison) -> list[str]:
    asked, said = found.settings.weights, []
    for line in found.lines:
        try:
            _, rule = found.settings.weights_for(line.method)
        except (OSError, ValueError):  # the network's file has gone; the numbers have not
            continue
        if rule not in (asked, "all", "push", "file"):
            said.append(f"{line.method} may not use {asked} weights here, so it ran with {rule} ones.")
    return said


def _edges(found: Comparison) -> list[str]:
    said = []
    for end, which, better in ((max, "largest", "larger"), (min, "smallest", "smaller")):
        edge = [x.method for x in found.lines if x.converged and len(x.grid) > 1 and x.lr == end(x.grid)]
        if edge:
            said.append(f"Best at the {which} learning rate tried, so a {better} one may be better: {listed(edge)}.")
    return said


def _no_target(found: Comparison) -> list[str]:
    target = found.target
    if target is None or not math.isfinite(target) or not reached_at_once(found.lines, target):
        return []
    return [f"A loss of {short(target)} is no better than the start, so what it takes to get there is not shown."]
