"""Diffusion-AVRG: Exact Diffusion with amortised variance reduction under random reshuffling.

    Z = X - lr V - d,   F = (W - I) Z / 2,   X' = Z + F,   d' = d - F
    v = g_j(x) - g_j(z) + a,   z: the model when the epoch began,   a: the mean of the g_j(x) of the epoch before

Every epoch goes through the q parts of each node's samples in a random order of the node's own. It needs no table and
no pass over all samples; one common q makes the epochs of nodes with more and fewer samples end together.
Guarantee: linear on strongly convex functions, to the optimum, with a constant lr (Yuan et al., 2019).
Yuan, Ying, Liu and Sayed, Variance-reduced stochastic learning by networked agents under random reshuffling, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.exact_diffusion import ExactDiffusion
from dsgt.core import parameter
from dsgt.oracles import AVRG


@dataclass(frozen=True)
class DiffusionAVRG(ExactDiffusion):
    q: int = parameter(10, "parts that every node's samples are cut into: the rounds of an epoch", least=1)

    @property
    def asks(self) -> AVRG:  # type: ignore[override]
        return AVRG(self.q)
