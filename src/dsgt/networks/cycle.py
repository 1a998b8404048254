"""A network that changes from round to round, over and over in the same order."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dsgt.core import Matrix, Mix, Network
from dsgt.networks.dense import Dense
from dsgt.topologies.matrix import MatrixLike


class Cycle(Network):
    """Round k uses member k modulo their number. Members are weight matrices, or networks of one kind.

    A message that a method sends in round k travels over round k's network, also when the method looks at it in
    round k + 1 only.
    """

    def __init__(self, members: Sequence[Network | MatrixLike]) -> None:
        super().__init__()
        if len(members) == 0:
            raise ValueError("Cycle was given no networks; give at least one weight matrix or network")
        self.members = [m if isinstance(m, Network) else Dense(m) for m in members]
        self.nodes, self.node = self.members[0].nodes, self.members[0].node
        for k, member in enumerate(self.members):
            if (member.nodes, member.node) != (self.nodes, self.node):
                raise ValueError(f"network 0 of the cycle has {self.nodes} nodes, but network {k} has {member.nodes}")
            member.traffic = self.traffic

    @property
    def matrices(self) -> Sequence[Matrix]:
        return [W for member in self.members for W in member.matrices]

    @property
    def takes_arrays(self) -> bool:
        return all(member.takes_arrays for member in self.members)

    def at(self, k: int) -> Mix:
        return self.members[k % len(self.members)].at(k)

    def gather(self, v: Tensor) -> Tensor:
        return self.members[0].gather(v)

    def mean(self, v: Tensor) -> Tensor:
        return self.members[0].mean(v)

    def close(self) -> None:
        for member in self.members:
            member.close()
