"""Convex sets that a model must lie in: half-spaces, boxes and balls, each known by its projection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dsgt import randomness

ROUNDS = 20_000
FEASIBLE = 1e-6
"""A point this close to every set, relative to its size, counts as lying in all."""


class ConvexSet(ABC):
    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """The nearest point of the set, for each row: (..., m) -> (..., m)."""

    def distance(self, x: Tensor) -> Tensor:
        """(..., m) -> (..., 1); 0 inside."""
        gap: Tensor = torch.linalg.vector_norm(x - self.project(x), dim=-1, keepdim=True)
        return gap


@dataclass(frozen=True)
class HalfSpace(ConvexSet):
    """normal'x <= most."""

    normal: Sequence[float]
    most: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "normal", tuple(map(float, self.normal)))
        if not any(self.normal):
            raise ValueError(f"the normal of a half-space is {self.normal}; expected a vector that is not zero")

    def project(self, x: Tensor) -> Tensor:
        a = x.new_tensor(self.normal)
        return x - ((x * a).sum(dim=-1, keepdim=True) - self.most).clamp(min=0) * a / (a @ a)


@dataclass(frozen=True)
class Box(ConvexSet):
    """low <= x <= high in every coordinate."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"a box was given low = {self.low} and high = {self.high}; expected low <= high")

    def project(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high)


@dataclass(frozen=True)
class Ball(ConvexSet):
    """|x - centre| <= radius; about the origin without a centre."""

    radius: float
    centre: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if not self.radius >= 0:
            raise ValueError(f"the radius of a ball is {self.radius}; expected at least 0")
        if self.centre is not None:
            object.__setattr__(self, "centre", tuple(map(float, self.centre)))

    def project(self, x: Tensor) -> Tensor:
        middle = torch.zeros_like(x) if self.centre is None else x.new_tensor(self.centre)
        length: Tensor = torch.linalg.vector_norm(x - middle, dim=-1, keepdim=True)
        share = (self.radius / length.clamp(min=torch.finfo(x.dtype).tiny)).clamp(max=1)
        return middle + (x - middle) * share


@dataclass(frozen=True)
class Everything(ConvexSet):
    """No constraint."""

    def project(self, x: Tensor) -> Tensor:
        return x


def drawn(sets: Sequence[ConvexSet], seed: int, i: int, k: int) -> ConvexSet:
    """The one of its sets that node i looks at in round k."""
    return sets[int(randomness.integers(len(sets), seed, i, k))] if sets else Everything()


def node_by_node(f: Callable[[int, Tensor], Tensor], x: Tensor, nodes: Tensor) -> Tensor:
    """f(i, x_i), stacked: the models (n, m) of all nodes, or (m,) of one, and the nodes' numbers (n, 1) or (1,)."""
    numbers = nodes.flatten().tolist()
    found = torch.stack([f(i, row) for i, row in zip(numbers, x.reshape(len(numbers), -1), strict=True)])
    return found if x.ndim > 1 else found[0]


def feasible_point(sets: Sequence[ConvexSet], dim: int) -> Tensor:
    """A point that lies in all sets, by projecting onto one after the other; a ValueError where there is none."""
    x = torch.zeros(dim, dtype=torch.float64)
    for _ in range(ROUNDS):
        for one in sets:
            x = one.project(x)
        off = [one.distance(x).item() for one in sets]
        if max(off, default=0.0) <= FEASIBLE * (1 + x.norm().item()):
            return x
    worst = off.index(max(off))
    raise ValueError(
        f"no model satisfies all {len(sets)} constraints: after {ROUNDS} projections onto each, {sets[worst]} is still "
        f"{off[worst]:.3g} away; loosen or leave out those that contradict each other"
    )
