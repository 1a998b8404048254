"""Stability where no formula is known: the method itself on quadratics, any weights, changing networks."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from dsgt.core import Algorithm, Network

FORGET = 60
"""Rounds after which only the slowest or growing mode is left to see."""


def measured_limit(
    algorithm: Algorithm[Any], network: Network, *, curvature: float = 1.0, rounds: int = 400, highest: float = 100.0
) -> float:
    """The largest lr below which f_i(x) = (curvature/2) |x - a_i|^2 does not grow, to 1 percent; 0 where every lr
    grows. Looked for from highest/curvature down to a hundred-thousandth of it."""
    grid = [highest / curvature * 0.9**i for i in range(110)]
    calm = itertools.dropwhile(lambda lr: _grows(algorithm, network, lr, curvature, rounds), grid)
    stable = next(calm, 0.0)
    if stable in (0.0, grid[0]):
        return stable
    unstable = stable / 0.9
    while unstable - stable > 0.01 * unstable:
        middle = (stable + unstable) / 2
        if _grows(algorithm, network, middle, curvature, rounds):
            unstable = middle
        else:
            stable = middle
    return stable


def _grows(algorithm: Algorithm[Any], network: Network, lr: float, curvature: float, rounds: int) -> bool:
    """Whether the models move faster in the second half of the rounds than after they have forgotten their start."""
    n = network.nodes
    a = torch.randn(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    state = algorithm.init(torch.zeros_like(a), network.at(0))
    sizes = []
    for k in range(rounds):
        state = algorithm.update(state, curvature * (state[0] - a), network.at(k), lr)
        size = float(state[0].norm())
        if not math.isfinite(size) or size > 1e12:
            return True
        sizes.append(size)
    middle = (FORGET + rounds) // 2
    early, late = max(sizes[FORGET:middle]), max(sizes[middle:])
    return late > 1.01 * early
