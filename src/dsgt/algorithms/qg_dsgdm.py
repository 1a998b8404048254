"""QG-DSGDm, quasi-global momentum: the momentum of where the model went, not of the node's own gradients.

    V = beta M + S
    X' = W (X - lr V)
    M' = mu M + (1 - mu) (X - X') / lr

X - X' holds what the neighbours did, so M is nearly the same everywhere. beta = 0 is adapt-then-combine D-PSGD.
With nesterov S + beta V moves X.
Guarantee: the rate of D-PSGD for non-convex functions (Lin et al., 2021); with a constant step it stops where
adapt-then-combine D-PSGD stops, O(lr) away, whatever beta and mu. Stable on quadratics iff
lr L < 2 + 2 beta (1 - mu) / (1 + mu), for symmetric W with lambda_n > -(1 + mu) / (1 + mu + 2 beta (1 - mu)), by
default -0.913 (beta^2 for beta and lr (1 + beta) for lr with nesterov); below that, and where W has complex eigenvalues
near the unit circle, as large directed rings have, it diverges at every small step.
Lin, Karimireddy, Stich and Jaggi, Quasi-global momentum, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Eigenvalues, Mix, Needs, Polynomial, parameter


class State(NamedTuple):
    x: Tensor
    m: Tensor


@dataclass(frozen=True)
class QGDSGDm(Algorithm[State]):
    beta: float = parameter(0.9, "momentum: the share of M in a step", least=0, below=1)
    mu: float = parameter(0.9, "the share of M that is kept in a round", least=0, below=1)
    nesterov: bool = parameter(False, "whether S + beta V moves X, in the place of V")

    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = False
    divides_by_lr: ClassVar[bool] = True
    arithmetic: ClassVar[bool] = True

    @property
    def needs(self) -> Needs:  # type: ignore[override]  # the floor depends on the parameters
        b = self.beta ** (1 + self.nesterov)
        return Needs(symmetric=True, floor=-(1 + self.mu) / (1 + self.mu + 2 * b * (1 - self.mu)))

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, m=torch.zeros_like(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        v = self.beta * s.m + g
        x = mix(s.x - lr * (g + self.beta * v if self.nesterov else v))
        return State(x, m=self.mu * s.m + (1 - self.mu) * (s.x - x) / lr)

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        a = (1 - c * (1 + self.beta * self.nesterov)) * w
        b = self.beta ** (1 + self.nesterov) * (1 - self.mu) * w
        return 1, -(a + self.mu + b), a * self.mu + b
