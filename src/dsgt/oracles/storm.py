"""STORM: momentum whose past is corrected by the same batch at the last point. No pass over all samples is needed.

    v' = g(x'; batch) + (1 - beta) (v - g(x; batch))

beta = 1 is the plain gradient; near 0 it is SARAH without restarts, which drifts. A round costs two gradients of a
batch, the first round one, or a pass over all samples (``full_start``). It keeps two m-vectors.
Guarantee: O(eps^-3) gradients to a stationary point of a smooth function, with lr and beta that fall with the number of
rounds (Cutkosky and Orabona, 2019). A constant lr and beta leave a floor of noise.
Cutkosky and Orabona, Momentum-based variance reduction in non-convex SGD, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dsgt.core import Local, Oracle, parameter
from dsgt.oracles.sarah import Last


@dataclass(frozen=True)
class STORM(Oracle[Last]):
    beta: float = parameter(0.1, "weight of the new gradient", above=0, most=1)
    full_start: bool = parameter(False, "whether the first answer is the gradient of all samples, not of a batch")

    agrees: ClassVar[bool] = True
    keeps: ClassVar[int] = 2

    @property
    def wants(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("gradient", "full") if self.full_start else ("gradient",)

    def init(self, f: Local, x: Tensor) -> Last:
        return Last(x.clone(), torch.zeros_like(x))

    def ask(self, memory: Last, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Last]:
        if k == 0:
            v = f.full(x) if self.full_start else f.gradient(x, k)
        else:
            v = f.gradient(x, k) + (1 - self.beta) * (memory.v - f.gradient(memory.x, k))
        return v, Last(x.clone(), v)
