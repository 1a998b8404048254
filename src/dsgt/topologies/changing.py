"""Weights that are always the same, and weights that change from round to round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dsgt.core import Matrix, Weights
from dsgt.topologies.assemble import assemble
from dsgt.topologies.matrix import MatrixLike, as_matrix


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Weights):
    """The same W in every round."""

    W: Matrix

    def __init__(self, W: MatrixLike, *, all_reduce: bool = True) -> None:
        object.__setattr__(self, "W", as_matrix(W))
        object.__setattr__(self, "all_reduce", all_reduce)

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


def as_weights(W: MatrixLike | Weights, *, all_reduce: bool = True) -> Weights:
    """A matrix is the same in every round."""
    return W if isinstance(W, Weights) else Fixed(W, all_reduce=all_reduce)


@dataclass(frozen=True, eq=False, repr=False)
class Periodic(Weights):
    """The nodes mix in every ``every``-th round, after ``every`` local steps: in round k if k + 1 is a multiple of it,
    and in the others W = I. The r-th mixing uses matrix r of the weights, so that a cycle is not seen in part only."""

    W: MatrixLike | Weights
    every: int

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every of Periodic is {self.every}; expected at least 1, the number of rounds per mixing")

    def at(self, k: int) -> Matrix:
        r, alone = divmod(k + 1, self.every)
        return self._alone if alone else self._weights.at(r - 1)

    @cached_property
    def push(self) -> Weights:
        second = self._weights.push
        return self if second is self._weights else Periodic(second, self.every)

    @cached_property
    def matrices(self) -> Sequence[Matrix]:
        if self.random:
            return [as_matrix((self._weights.matrices[0] + (self.every - 1) * self._alone) / self.every)]
        return [matrix for W in self._weights.matrices for matrix in [self._alone] * (self.every - 1) + [W]]

    @cached_property
    def single(self) -> Sequence[Matrix]:
        return [*self._weights.single, *[self._alone] * (self.every > 1)]

    @property
    def random(self) -> bool:  # type: ignore[override]
        return self._weights.random

    @property
    def all_reduce(self) -> bool:  # type: ignore[override]
        return self._weights.all_reduce

    @cached_property
    def _weights(self) -> Weights:
        return as_weights(self.W)

    @cached_property
    def _alone(self) -> Matrix:
        return assemble(self._weights.nodes, [], [], [])


@dataclass(frozen=True, eq=False, repr=False)
class TwoMatrices(Weights):
    """Models are mixed with one matrix, ``pull``, and trackers with another, ``push``: for methods such as Push-Pull,
    over directed links whose rows sum to 1 in the one and whose columns do in the other. Both may change."""

    pull: Weights
    second: Weights

    def __init__(self, pull: MatrixLike | Weights, push: MatrixLike | Weights) -> None:
        A, B = as_weights(pull), as_weights(push)
        if A.nodes != B.nodes:
            raise ValueError(
                f"TwoMatrices was given pull for {A.nodes} nodes and push for {B.nodes}; expected two that join "
                "the same nodes"
            )
        object.__setattr__(self, "pull", A)
        object.__setattr__(self, "second", B)

    def at(self, k: int) -> Matrix:
        return self.pull.at(k)

    @property
    def push(self) -> Weights:
        return self.second

    @property
    def matrices(self) -> Sequence[Matrix]:
        return self.pull.matrices

    @property
    def single(self) -> Sequence[Matrix]:
        return self.pull.single

    @property
    def random(self) -> bool:  # type: ignore[override]
        return self.pull.random

    @property
    def all_reduce(self) -> bool:  # type: ignore[override]
        return self.pull.all_reduce
