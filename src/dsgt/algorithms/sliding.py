"""What methods for functions with kinks share: many local subgradient steps for one gossip, and a mean taken home."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from torch import Tensor

from dsgt.core import Algorithm, Local, Needs, Network, Oracle, S, parameter
from dsgt.oracles import Exact


@dataclass(frozen=True)
class Sliding(Algorithm[S]):
    """Its state has a field ``mean``: of what it promises something of, one after each gossip."""

    high: float = parameter(0.0, "the highest eigenvalue of I minus the mixing; 0: computed", least=0)

    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    exact: ClassVar[bool] = True
    asks: ClassVar[Oracle[Any]] = Exact()
    keeps_x: ClassVar[bool] = True
    equal_starts: ClassVar[bool] = True

    def fitted(self, network: Network, f: Local) -> Self:
        from dsgt.gossip import eigenvalue_range  # here: who lists methods waits for no graphs

        return replace(self, high=self.high or eigenvalue_range(network)[1])

    def model(self, s: S) -> Tensor:
        mean: Tensor = s.mean  # type: ignore[attr-defined]
        return mean
