"""DDA, distributed dual averaging: the nodes mix sums of gradients, and a model is made of them anew in every round.

    Z' = W Z + S
    X' = P(X_0 - lr Z')

P is the projection onto a ball or a box about the origin, so x is always feasible. mean(z) is the sum of all mean
gradients. What it promises is the mean of all X' so far, which is the model of a run: ``Algorithm.model``.
Guarantee: O(log(K sqrt(n)) / sqrt(K (1 - sigma_2(W)))) for convex functions with bounded subgradients and
lr = A / sqrt(k + 1) (Duchi et al., 2012, Theorem 2). With a constant step X stops O(lr) away when the nodes' data
differ; without P it is then D-PSGD. Needs equal starts. The message travels during back-propagation.
Duchi, Agarwal and Wainwright, Dual averaging for distributed optimization, 2012.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Eigenvalues, Mix, Pending, Polynomial, parameter


class State(NamedTuple):
    x: Tensor
    start: Tensor
    mean: Tensor
    t: Tensor
    Wz: Pending


@dataclass(frozen=True)
class DDA(Algorithm[State]):
    radius: float = parameter(math.inf, "of the ball or the box that the models stay in", above=0)
    box: bool = parameter(False, "whether |x_i| <= radius for every coordinate, instead of |x| <= radius")

    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = False
    keeps_x: ClassVar[bool] = True
    equal_starts: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, start=x, mean=x, t=torch.zeros_like(x[..., :1]), Wz=Done(torch.zeros_like(x)))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        z, t = s.Wz.wait() + g, s.t + 1
        x = self.project(s.start - lr * z)
        return State(x, s.start, s.mean + (x - s.mean) / t, t, Wz=mix.start(z))

    def project(self, x: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x.clamp(-self.radius, self.radius) if self.box else x * (self.radius / norm).clamp(max=1)

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(w - c)  # where the models are free

    def model(self, s: State) -> Tensor:
        return s.mean
