"""The virtual nodes of ADFS: one for each of the q parts of a node's samples. They live in the node and send nothing.

    f_i(x) = (c/2) |x|^2 + sum_u f_iu(x),   c the penalty, f_iu a q-th of part u, of smoothness L_iu

The round of a part (i, u) moves the dual of part u and gives what the node's own dual moves by:

    s x + (1 - s / L_iu) grad f_iu(x) = a + s (y_i / c - y_iu / L_iu),   a = (1 - rho) v_iu + rho y_iu
    v_iu' = grad f_iu(x),   F = a - v_iu'

which has a solution whatever s is. In the round of an edge every node answers with y / c. Only ADFS asks so. A virtual
node that is not drawn makes up for the rounds it missed, by a formula, when its turn comes. It keeps 2 q m-vectors.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dsgt import randomness
from dsgt.core import Local, Oracle, parameter
from dsgt.oracles.drawn_conjugate import charge, solved
from dsgt.oracles.table import fits

Array = np.ndarray[Any, np.dtype[np.float64]]
SAMPLES = 105
"""Other numbers than those that edges are drawn with."""


@dataclass(frozen=True, eq=False)
class Steps:
    """How often each part and each edge is drawn, and how far the steps go."""

    c: float
    rho: float
    sigma: float
    L: Array
    """(n, q)"""
    mu2: Array
    """(n, q): the squared weights of the edges between a node and its virtual ones."""
    p: Array
    """(n, q): the probability of a part. What they lack to 1 is that of an edge."""
    seed: int

    @classmethod
    def of(cls, c: float, L: Array, connectivity: float, edges: int, resistance: float, seed: int) -> Steps:
        """``connectivity``: the lowest nonzero eigenvalue of the Laplacian; ``resistance``: the highest of an edge."""
        kappa = 1 + L.sum(axis=1) / c
        sigma = connectivity / (2 * c * kappa.max())
        root = np.sqrt(1 + L / c)
        talk = np.sqrt(c * sigma / (2 * resistance)) / edges
        work = np.sqrt(kappa.min() / (2 * kappa.max())) / root.sum()
        share = max(0.5, 1 / (1 + work / talk))
        rho = float(min(work * share, talk * (1 - share)))
        return cls(c, rho, sigma, L, L * connectivity / (c * kappa[:, None]), share * root / root.sum(), seed)

    def part(self, k: int) -> tuple[int, int]:
        """The node and the part of round k, if it is a part's."""
        at = bisect.bisect_right(self._upto, self._draws(k) * self._upto[-1])
        return divmod(at, len(self.p[0]))

    @cached_property
    def _upto(self) -> list[float]:
        upto: list[float] = np.cumsum(self.p).tolist()
        return upto

    @cached_property
    def _draws(self) -> randomness.Draws:
        return randomness.Draws(self.seed, SAMPLES)


class Virtual(NamedTuple):
    v: Tensor
    """(..., q, m)"""
    y: Tensor
    since: Tensor
    """(..., q): the round that they are of."""


@dataclass(frozen=True)
class VirtualNodes(Oracle[Virtual]):
    q: int = parameter(10, "parts that every node's samples are cut into, each of which is a virtual node", least=1)
    limit: float = parameter(2.0, "gigabytes that the virtual nodes of the nodes here may take", above=0)
    steps: Steps | None = field(default=None, repr=False)
    ends: Callable[[int], tuple[int, int] | None] = field(default=lambda k: None, repr=False)
    """The edge of round k; None where it is a part's."""

    wants: ClassVar[tuple[str, ...]] = ("inverse", "part", "penalty")

    @property
    def keeps(self) -> int:  # type: ignore[override]
        return 2 * self.q

    def check(self, f: Local, x: Tensor) -> None:
        f.check(self.wants, self.q)
        fits(x, self.keeps, self.limit, f"v and y of q = {self.q} virtual nodes", "or use fewer parts")

    def init(self, f: Local, x: Tensor) -> Virtual:
        zero = x.new_zeros(*x.shape[:-1], self.q, x.shape[-1])
        return Virtual(zero, zero.clone(), torch.zeros(*x.shape[:-1], self.q, dtype=torch.int64, device=x.device))

    def ask(self, memory: Virtual, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Virtual]:
        s = self.steps
        assert s is not None, "ADFS is fitted to a problem before it begins"
        if self.ends(k) is not None:
            return x / s.c, memory
        node, u = s.part(k)
        asked = f.rows == node
        if not asked.any():
            return torch.zeros_like(x), memory
        i, (q, m) = int(asked.flatten().nonzero()), memory.v.shape[-2:]  # its place among the nodes here
        kept_v, kept_y = memory.v.view(-1, q, m)[i, u], memory.y.view(-1, q, m)[i, u]
        since = memory.since.view(-1, q)[i]
        v, y = self._gone_on(kept_v, kept_y, k - int(since[u]))
        L, P = float(s.L[node, u]), float(s.p[node, u])
        step = lr * float(s.mu2[node, u]) * s.rho / (P * s.sigma)
        a = (1 - s.rho) * v + s.rho * y
        r, j = a + step * (x.view(-1, m)[i] / s.c - y / L), torch.full_like(f.rows, u)
        found = solved(f, r.expand_as(x), j, q, step, (1 - step / L) / q, x / s.c, asked)
        before = f.bill()
        new = ((f.part(found, j, q) - s.c * found) / q).view(-1, m)[i]
        charge(f, before, asked)
        F = a - new
        kept_v.copy_(new)
        kept_y.copy_((y - s.rho / P * F + s.rho * new) / (1 + s.rho))
        since[u] = k + 1
        return torch.where(asked, F, torch.zeros_like(x)), memory

    def _gone_on(self, v: Tensor, y: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
        """v, y <- (1 - rho) v + rho y, delta v + (1 - delta) y, so many times: their weighted mean stays, and their
        difference shrinks."""
        rho = self.steps.rho if self.steps else 0.0
        delta = rho * (1 - rho) / (1 + rho)
        mean = (delta * v + rho * y) / (rho + delta)
        apart = (1 - rho - delta) ** rounds * (v - y) / (rho + delta)
        return mean + rho * apart, mean - delta * apart
