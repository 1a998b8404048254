"""What one node needs of a weight matrix: its row and its column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from dsgt.core import Matrix
from dsgt.topologies.matrix import is_averaging, to_dense


@dataclass(frozen=True)
class Row:
    own: float
    hears: dict[int, float]
    """Whom the node hears, and the weight it gives to each. It may be nobody."""
    tells: Sequence[int]
    """Who hears the node."""
    averaging: bool
    """Whether W is 1/n everywhere, so that one all-reduce does what it does."""

    @cached_property
    def shares(self) -> list[float]:
        """Where the row is a weighted mean: the share of each that is heard in the mean of it, those before it, and the
        node itself; then each needs one pass over memory. Empty where it is none."""
        heard = list(self.hears.values())
        if self.own < 0 or min(heard, default=0) < 0 or abs(self.own + sum(heard) - 1) > 1e-12:
            return []
        _, *totals = accumulate(heard, initial=self.own)
        return [weight / total for weight, total in zip(heard, totals, strict=True)]

    @staticmethod
    def of(W: Matrix, node: int) -> Row:
        row, column = to_dense(W[[node], :])[0], to_dense(W[:, [node]])[:, 0]
        return Row(
            own=float(row[node]),
            hears={int(j): float(row[j]) for j in np.flatnonzero(row) if j != node},
            tells=[int(i) for i in np.flatnonzero(column) if i != node],
            averaging=is_averaging(W) and W.shape[0] > 1,
        )
