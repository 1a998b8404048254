"""Stale gradients: node i computes its gradient at a model that it had tau rounds ago, tau drawn anew every round.

    s_i = g(x_i of round k - tau_i(k); the batch of round k)

Delays need only be bounded in expectation: geometric ones have no bound, uniform ones lie in 0 ... 2 mean. Models older
than ``longest`` rounds are forgotten and the oldest is taken in their place; by default that is one draw in a million.
mean = 0 is the plain gradient. A round costs one gradient of a batch; it keeps longest + 1 m-vectors.
Guarantee: with a falling lr as without delays, up to constants that grow with the mean delay (Sirb and Ye, 2018).
Sirb and Ye, Decentralized consensus algorithm with delayed and stochastic gradients, 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dsgt import randomness
from dsgt.core import Local, Oracle, parameter
from dsgt.oracles.table import DELAYS, fits

LAWS = ("geometric", "uniform")


class Past(NamedTuple):
    x: Tensor
    """The models of the last rounds, (..., longest + 1, m); that of round k is at k mod (longest + 1)."""


@dataclass(frozen=True)
class Stale(Oracle[Past]):
    mean: float = parameter(3.0, "rounds that a gradient is old, in the mean", least=0)
    law: str = parameter("geometric", "of the delays: geometric or uniform")
    longest: int = parameter(0, "the oldest model that is kept, in rounds; 0 for what almost every draw needs", least=0)
    limit: float = parameter(2.0, "gigabytes that the models kept of the nodes here may take", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.law not in LAWS:
            raise ValueError(f"law of Stale is {self.law!r}; expected {' or '.join(LAWS)}")

    @property
    def kept(self) -> int:
        """How many models are kept besides the newest."""
        if self.law == "uniform":
            most = math.floor(2 * self.mean)
        else:
            most = math.ceil(-math.log(1e6) / math.log(self._stays)) if self.mean else 0
        return min(most, self.longest) if self.longest else most

    @property
    def _stays(self) -> float:
        """The probability that a geometric delay is one round longer."""
        return self.mean / (1 + self.mean)

    @property
    def keeps(self) -> int:  # type: ignore[override]
        return self.kept + 1

    def check(self, f: Local, x: Tensor) -> None:
        f.check(self.wants)
        fits(x, self.keeps, self.limit, f"the last {self.keeps} models", "or keep fewer (longest=...)")

    def init(self, f: Local, x: Tensor) -> Past:
        return Past(x.unsqueeze(-2).repeat(*[1] * (x.ndim - 1), self.kept + 1, 1))

    def ask(self, memory: Past, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Past]:
        length = self.kept + 1
        memory.x[..., k % length, :] = x
        at = ((k - self.delays(f, k)) % length).to(x.device)
        stale = memory.x.gather(-2, at.unsqueeze(-1).expand(*at.shape, x.shape[-1])).squeeze(-2)
        return f.gradient(stale, k), memory

    def delays(self, f: Local, k: int) -> Tensor:
        """How old the gradient of each node here is in round k, (..., 1)."""
        if self.law == "uniform":
            tau = randomness.integers(math.floor(2 * self.mean) + 1, f.seed, DELAYS, f.rows, k)
        elif self.mean:
            u = randomness.uniform(f.seed, DELAYS, f.rows, k)
            tau = (torch.log1p(-u) / math.log(self._stays)).floor().long()
        else:
            tau = torch.zeros_like(f.rows)
        return tau.clamp(max=min(k, self.kept))
