"""EquiTopo: graphs of few random shifts that mix at a rate that does not depend on the number of nodes.

Song, Li, Jin, Shi, Yan, Yin and Yuan, Communication-efficient topologies for decentralized learning with O(1) consensus
rate, 2022. Node i hears node i - u for shifts u drawn from 1 ... n - 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, ClassVar

import numpy as np

from dsgt import randomness
from dsgt.core import Matrix, Weights
from dsgt.topologies.assemble import from_entries, paired

Array = np.ndarray[Any, np.dtype[Any]]


def equi_shifts(n: int, M: int | None = None, seed: int = 0) -> tuple[int, ...]:
    """M shifts from 1 ... n - 1, any of them with the same probability, that join all nodes; 2 log2(n) by default."""
    if n < 1:
        raise ValueError(f"n is {n}, but a network has at least one node")
    M = 2 * (n - 1).bit_length() if M is None else M
    if n == 1:
        return ()
    if M < 1:
        raise ValueError(f"M is {M}; expected at least 1, the number of shifts")
    draws = (randomness.integers(n - 1, seed, attempt, np.arange(M)) + 1 for attempt in count())
    return next(tuple(u.tolist()) for u in draws if math.gcd(n, *u.tolist()) == 1)  # else they join some nodes only


def equi_static(n: int, M: int | None = None, seed: int = 0, *, directed: bool = False) -> Matrix:
    """D-EquiStatic: the mean of (n - 1)/n P^u + I/n over M random shifts u, where P^u x moves x by u nodes.
    U-EquiStatic, where it is not directed: the symmetric part of that."""
    shifts = np.array(equi_shifts(n, M, seed), dtype=np.int64)
    if n == 1:
        return np.ones((1, 1))
    i = np.arange(n)
    hops = shifts if directed else np.concatenate([shifts, -shifts])
    rows, columns = np.tile(i, len(hops)), np.concatenate([(i - hop) % n for hop in hops])
    link = np.full(len(rows), (n - 1) / n / len(hops))
    return from_entries(n, np.append(rows, i), np.append(columns, i), np.append(link, np.full(n, 1 / n)))


@dataclass(frozen=True, eq=False, repr=False)
class EquiDyn(Weights):
    """OU-EquiDyn: a random shift u in every round, and from a random node on pairs {i, i + u} of nodes that are still
    free; the two move by eta (n - 1)/n to each other. OD-EquiDyn, ``directed``: every node hears node i - u with that
    weight.

    So each node has one peer a round, and the nodes come as close in a round as in one of the static graph, up to a
    constant. ``shifts`` are those to draw from: all of 1 ... n - 1, or ``equi_shifts`` for few different neighbours.
    """

    random: ClassVar[bool] = True
    n: int
    eta: float = 0.5
    seed: int = 0
    directed: bool = False
    shifts: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.n < 2:
            raise ValueError(f"n of EquiDyn is {self.n}; expected at least 2 nodes, so that there are pairs")
        if not 0 < self.eta <= 1:
            raise ValueError(f"eta of EquiDyn is {self.eta}; expected in (0, 1], and 1/2 for the mean of two nodes")
        odd = [u for u in self._shifts if not 1 <= u < self.n]
        if odd or len(self._shifts) == 0:
            raise ValueError(f"shifts of EquiDyn has {odd or 'no number'}; expected numbers from 1 to {self.n - 1}")

    def at(self, k: int) -> Matrix:
        u = self._shifts[int(randomness.integers(len(self._shifts), self.seed, k, 0))]
        return self._of(u, int(randomness.integers(self.n, self.seed, k, 1)))

    def _of(self, u: int, first: int) -> Matrix:
        i = np.arange(self.n)
        if not self.directed:
            start = _starts(self.n, u)
            return paired(self.n, (first + start) % self.n, (first + start + min(u, self.n - u)) % self.n, self._link)
        values = np.repeat([1 - self._link, self._link], self.n)
        return from_entries(self.n, np.append(i, i), np.append(i, (i - u) % self.n), values)

    @cached_property
    def matrices(self) -> Sequence[Matrix]:
        """By symmetry each node hears node i - u, and i + u where links go both ways, equally often."""
        i, once = np.arange(self.n), self._link / len(self._shifts)
        heard = [
            ((i - u) % self.n, once * (1.0 if self.directed else len(_starts(self.n, u)) / self.n))
            for u in self._shifts
        ]
        heard += [] if self.directed else [((i + u) % self.n, w) for (_, w), u in zip(heard, self._shifts, strict=True)]
        columns, values = np.concatenate([j for j, _ in heard]), np.repeat([w for _, w in heard], self.n)
        own = np.full(self.n, 1 - sum(w for _, w in heard))
        return [from_entries(self.n, np.tile(i, len(heard) + 1), np.append(columns, i), np.append(values, own))]

    @cached_property
    def single(self) -> Sequence[Matrix]:
        return [self._of(u, 0) for u in self._shifts[:2]]  # of two shifts one at most, n/2, is its own inverse

    @property
    def _link(self) -> float:
        return self.eta * (self.n - 1) / self.n

    @cached_property
    def _shifts(self) -> Sequence[int]:
        return range(1, self.n) if self.shifts is None else self.shifts


def _starts(n: int, u: int) -> Array:
    """The nodes i that find i + u free, where node 0 asks first and node n - 1 last. u and n - u are one graph."""
    u = min(u, n - u)
    i = np.arange(n - u)
    return i[i % (2 * u) < u]
