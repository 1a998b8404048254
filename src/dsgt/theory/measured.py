"""Stability where no formula is known: the method itself on quadratics, any weights, changing networks."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from dsgt.core import Algorithm, Local, Network
from dsgt.engine.questions import Questions

FORGET = 60
"""Rounds after which only the slowest or growing mode is left to see."""


class Quadratics(Local):
    """f_i(x) = (curvature/2) |x - a_i|^2, all samples of a node being equal. Half of the curvature is a penalty's."""

    def __init__(self, curvature: float, a: Tensor) -> None:
        super().__init__(lambda x, k: curvature * (x - a), torch.arange(len(a))[:, None])
        self._curvature, self._a = curvature, a

    def full(self, x: Tensor) -> Tensor:
        return self._curvature * (x - self._a)

    def part(self, x: Tensor, j: Tensor, q: int) -> Tensor:
        return self.full(x)

    def resolvent(self, v: Tensor, j: Tensor, q: int, lr: float) -> Tensor:
        return (v + lr * self._curvature * self._a) / (1 + lr * self._curvature)

    def conjugate(self, u: Tensor, near: Tensor) -> Tensor:
        return u / self._curvature + self._a

    def inverse(
        self, r: Tensor, j: Tensor, q: int, own: float | Tensor, weight: float | Tensor, near: Tensor
    ) -> Tensor:
        return (r + weight * self._curvature * self._a) / (own + weight * self._curvature / 2)

    def penalty(self) -> float:
        return self._curvature / 2

    def convexity(self) -> Tensor:
        return torch.full((len(self._a), 1), self._curvature, dtype=self._a.dtype)

    def smoothness(self, q: int) -> Tensor:
        return torch.full((len(self._a), q), self._curvature / 2, dtype=self._a.dtype)


def placed(algorithm: Algorithm[Any], network: Network, curvature: float = 1.0) -> tuple[Algorithm[Any], Network]:
    """The method fitted to these quadratics, and the network that it makes of the one it was given."""
    fitted = algorithm.fitted(algorithm.over(network), Quadratics(curvature, _centres(network.nodes)))
    return fitted, fitted.over(network)


def _centres(n: int) -> Tensor:
    return torch.randn(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def measured_limit(
    algorithm: Algorithm[Any], network: Network, *, curvature: float = 1.0, rounds: int = 400, highest: float = 100.0
) -> float:
    """The largest lr below which f_i(x) = (curvature/2) |x - a_i|^2 does not grow, to 1 percent; 0 where every lr
    grows. Looked for from highest/curvature down to a hundred-thousandth of it. See ``placed`` for the network."""
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
    a = _centres(network.nodes)
    state = algorithm.init(torch.zeros_like(a), network.at(0))
    ask = Questions(algorithm.asks, Quadratics(curvature, a), algorithm.point(state))
    sizes = []
    for k in range(rounds):
        state = algorithm.update(state, ask(algorithm.point(state), k, lr), network.at(k), lr)
        size = float(state[0].norm())
        if not math.isfinite(size) or size > 1e12:
            return True
        sizes.append(size)
    middle = (FORGET + rounds) // 2
    early, late = max(sizes[FORGET:middle]), max(sizes[middle:])
    return late > 1.01 * early
