"""Sirb and Ye: D-PSGD with gradients that are some rounds old, as where computing them takes long.

    X' = W X - lr S,   s_i: the gradient at the model that node i had tau_i rounds ago, drawn anew in every round

The delays need only be bounded in expectation. mean = 0 is D-PSGD. The published text also projects onto a compact set.
Guarantee: O(1/sqrt(K)) of an average of the models, for lr that falls as 1/sqrt(k) (Sirb and Ye, 2018). A constant step
leaves an O(lr) distance when the nodes' data differ.
Sirb and Ye, Decentralized consensus algorithm with delayed and stochastic gradients, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.dpsgd import DPSGD
from dsgt.core import parameter
from dsgt.oracles import Stale


@dataclass(frozen=True)
class SirbYe(DPSGD):
    mean: float = parameter(3.0, "rounds that a gradient is old, in the mean", least=0)
    law: str = parameter("geometric", "of the delays: geometric or uniform")
    longest: int = parameter(0, "the oldest model that is kept, in rounds; 0 for what almost every draw needs", least=0)
    limit: float = parameter(2.0, "gigabytes that the models kept of the nodes here may take", above=0)

    @property
    def asks(self) -> Stale:  # type: ignore[override]
        return Stale(self.mean, self.law, self.longest, self.limit)
