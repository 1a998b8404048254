"""Who works and who waits: a strip of gradients for every node, and when the slowest of them ended."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dsgt.asynchronous.core import AsyncAlgorithm
from dsgt.asynchronous.run import played
from dsgt.comparison import Settings
from dsgt.comparison.budget import Played
from dsgt.run import iterate
from dsgt.text import short

LEFT, WIDTH, ROW = 30.0, 600.0, 14.0
"""Of a strip: where it begins, and its box."""
SHOWN = 24
"""Nodes that have a strip."""
GRADIENTS = 20
"""So many mean ones are as long as a strip."""
SLOW = 3.0
"""So many times the median is a straggler."""
MARKED = 30
MOST, MOST_NUMBERS = 20_000, 1 << 28
"""Gradients, and numbers in them, that are looked at."""

Gradients = list[tuple[int, float, float]]
"""Node, from, to."""


@dataclass(frozen=True)
class Strip:
    """One node."""

    node: int
    y: float
    title: str
    usual: str
    slow: str
    """Blocks, as the path of an SVG; those of stragglers."""


@dataclass(frozen=True)
class Work:
    """One method."""

    method: str
    share: str
    """Of all nodes' time that they compute."""
    strips: list[Strip]
    height: float
    slowest: list[float]
    """When the slowest gradients ended."""


@dataclass(frozen=True)
class Times:
    methods: list[Work]
    seconds: str
    """How long the strips are."""
    nodes: int
    factor: float = SLOW


def times(settings: Settings, methods: Sequence[str]) -> Times | None:
    """In the first seed that is reported; None where all gradients take the same time and everybody waits for all."""
    if settings.stragglers == "none" and not any(
        isinstance(settings.algorithm(name), AsyncAlgorithm) for name in methods
    ):
        return None
    ends = settings.ends.amount if settings.ends.unit == "s" else float("inf")
    found = {name: _gradients(settings, name, ends) for name in methods}
    took = [end - begin for gradients in found.values() for _, begin, end in gradients]
    seconds, limit = min(ends, GRADIENTS * statistics.fmean(took)), SLOW * statistics.median(took)
    if not seconds:
        return None
    works = [_work(name, gradients, settings.nodes, seconds, limit) for name, gradients in found.items()]
    return Times(works, short(seconds), settings.nodes)


def _gradients(settings: Settings, method: str, ends: float) -> Gradients:
    """Those that begin within the budget: played with gradients of zero, since when things happen does not depend on
    the numbers."""
    seed = settings.reported_seeds[0]
    problem, algorithm = settings.problem(seed), settings.algorithm(method)
    network = settings.network(method, problem, seed)
    found: Gradients = []
    network.activity = found
    most = max(2 * GRADIENTS * settings.nodes, min(MOST, MOST_NUMBERS // problem.dim))
    if isinstance(algorithm, AsyncAlgorithm):
        events = played(algorithm, problem, network)
        while len(found) < most and events.now < ends:
            events.advance(min(ends, max(end for _, _, end in found[-settings.nodes :])))
    else:
        for _ in iterate(algorithm, Played(problem), network, lr=1.0, x0=problem.start(0)):
            if len(found) >= most or network.seconds >= ends:
                break
    return [one for one in found if one[1] < ends]


def _work(method: str, gradients: Gradients, nodes: int, seconds: float, limit: float) -> Work:
    seen = [(i, begin, min(end, seconds), end - begin > limit) for i, begin, end in gradients if begin < seconds]
    busy = [0.0] * nodes
    for i, begin, end, _ in seen:
        busy[i] += end - begin
    strips = []
    for i in range(min(nodes, SHOWN)):
        blocks = [[(begin, end) for j, begin, end, slow in seen if j == i and slow == kind] for kind in (False, True)]
        said = f"node {i}: {len(blocks[0]) + len(blocks[1])} gradients, works {busy[i] / seconds:.0%} of the time"
        strips.append(Strip(i, ROW * i, said, *(_path(some, ROW * i, seconds) for some in blocks)))
    slow = sorted((g for g in gradients if g[2] - g[1] > limit), key=lambda g: g[1] - g[2])[:MARKED]
    return Work(
        method,
        f"{sum(busy) / (nodes * seconds):.0%}",
        strips,
        ROW * len(strips),
        [float(f"{end:.4g}") for _, _, end in slow],
    )


def _path(blocks: Sequence[tuple[float, float]], y: float, seconds: float) -> str:
    scale = (WIDTH - LEFT) / seconds
    high = ROW - 4
    return "".join(
        f"M{LEFT + scale * begin:.1f} {y + 2:g}h{max(0.3, scale * (end - begin) - 0.8):.1f}v{high:g}H"
        f"{LEFT + scale * begin:.1f}z"
        for begin, end in blocks
    )
