"""DSBA, decentralized stochastic backward aggregation: EXTRA whose stochastic gradients are taken where the step ends.

    X' + lr g_j(X') = psi,   psi = W~ (2 X - X_before) + lr ((1 - 1/q) delta + phi_j),   phi_j <- g_j(X')

delta is the last change of the table phi, and the first psi is W X + lr (phi_j - mean(phi)). That is EXTRA with the
estimates of implicit SAGA: a round solves one equation, a resolvent, for one of the q parts of a node's samples.
Guarantee: linear on strongly convex functions, to the optimum, with a constant lr of about 1/(24 L), in a number of
rounds in which the condition number enters linearly (Shen et al., 2018).
The published variant that sends sparse differences by relays, DSBA-s, is not here.
Shen, Mokhtari, Zhou, Zhao and Qian, Towards more efficient stochastic decentralized learning, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dsgt.algorithms.extra import EXTRA, State
from dsgt.core import parameter
from dsgt.oracles.implicit_saga import ImplicitSAGA


@dataclass(frozen=True)
class DSBA(EXTRA):
    q: int = parameter(10, "parts that every node's samples are cut into; the table holds so many vectors", least=1)
    limit: float = parameter(2.0, "gigabytes that the tables of the nodes here may take", above=0)

    @property
    def asks(self) -> ImplicitSAGA:  # type: ignore[override]
        return ImplicitSAGA(self.q, self.limit)

    def point(self, s: State) -> Tensor:
        """Where EXTRA is before it subtracts lr g."""
        return s.x + s.F.wait() - s.q
