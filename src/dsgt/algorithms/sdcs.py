"""SDCS, stochastic decentralized communication sliding: DCS with subgradients of drawn batches.

    U = (X + t/2 U - lr (V + S)) / (1 + t/2),   for t = 1 ... T, from U = X on; then X' = U
    A = sum of (t + 1) U / sum of (t + 1)
    Y' = Y + (I - W) (A + X' - X) / (2 lr high^2),   V' = (I - W) Y'

The rest is as for DCS.
Guarantee: a loss within eps of the lowest in the mean, and nodes within eps of each other, after O(1/eps) mixings and
O(1/eps^2) subgradients of batches (Lan et al., 2020). With a constant T it stops at a distance that falls
with T.
Lan, Lee and Zhou, Communication-efficient algorithms for decentralized and stochastic optimization, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dsgt.algorithms.dcs import DCS
from dsgt.core import Gradient, Oracle


@dataclass(frozen=True)
class SDCS(DCS):
    asks: ClassVar[Oracle[Any]] = Gradient()
