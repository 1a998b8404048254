"""D-PSGD; with exact gradients, DGD. Combine, then adapt, as published.

    X' = W X - lr S

Guarantee: O(sigma / sqrt(n K) + n^(1/3) zeta^(2/3) / K^(2/3)) if the nodes' gradients differ by at most zeta
(Lian et al., 2017, Corollary 2). With a constant step the nodes stop O(lr) away from the optimum when their data
differ. Stable on quadratics iff lr L < 1 + lambda_n.
Nedic and Ozdaglar, 2009 (DGD); Lian et al., Can decentralized algorithms outperform centralized algorithms?, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from dsgt.core import Algorithm, Eigenvalues, Mix, Needs, Pending, Polynomial


class State(NamedTuple):
    x: Tensor
    Wx: Pending


@dataclass(frozen=True)
class DPSGD(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(symmetric=True)
    sends: ClassVar[int] = 1
    keeps_x: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, Wx=mix.start(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        x = s.Wx.wait() - lr * g
        return State(x, Wx=mix.start(x))

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(w - c)
