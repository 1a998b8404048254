"""Weights that are always the same, and weights that change from round to round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsgt.core import Matrix, Weights
from dsgt.topologies.matrix import MatrixLike, as_matrix


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Weights):
    """The same W in every round."""

    W: Matrix

    def __init__(self, W: MatrixLike) -> None:
        object.__setattr__(self, "W", as_matrix(W))

    @property
    def matrices(self) -> Sequence[Matrix]:
        return [self.W]

    def at(self, k: int) -> Matrix:
        return self.W


@dataclass(frozen=True, eq=False, repr=False)
class Cycle(Weights):
    """Round k uses matrix k modulo their number.

    A message that a method sends in round k travels over round k's network, also when the method looks at it in
    round k + 1 only.
    """

    members: Sequence[Matrix]

    def __init__(self, members: Sequence[MatrixLike]) -> None:
        if len(members) == 0:
            raise ValueError("Cycle was given no weights; give at least one weight matrix")
        found = tuple(as_matrix(W) for W in members)
        for k, W in enumerate(found):
            if W.shape != found[0].shape:
                raise ValueError(
                    f"matrix 0 of the cycle has {found[0].shape[0]} nodes, but matrix {k} has {W.shape[0]}; a cycle "
                    "joins the same nodes in every round"
                )
        object.__setattr__(self, "members", found)

    def at(self, k: int) -> Matrix:
        return self.members[k % len(self.members)]

    @property
    def matrices(self) -> Sequence[Matrix]:
        return self.members


def as_weights(W: MatrixLike | Weights) -> Weights:
    """A matrix is the same in every round."""
    return W if isinstance(W, Weights) else Fixed(W)
