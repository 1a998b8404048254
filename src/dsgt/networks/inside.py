"""Several processes behind one node: they add up their gradients among themselves, and ask and tell each for itself."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from dsgt.core import Around, Network
from dsgt.networks.neighbours import NeighbourError
from dsgt.networks.peers import TIMEOUT
from dsgt.networks.transport import Transport


@final
class Processes(Around):
    """All processes of a job in which several make one node. Process r of a node mixes with process r of others; to
    agree, to count and to be saved each has a number of its own, and here ``nodes`` counts processes."""

    def __init__(self, network: Network, inside: Transport, *, timeout: float = TIMEOUT) -> None:
        super().__init__(network)
        assert network.node is not None
        self._inside, self._timeout = inside, timeout
        self.place, self.size = inside.node, inside.size
        """Which of the node's processes this is, and how many there are."""
        self._check(network.node)
        self.nodes, self.node = network.nodes * self.size, network.node * self.size + self.place

    def average(self, v: Tensor) -> Tensor:
        """v becomes the mean over the node's processes, the same bits at each."""
        return self._add_up(v).div_(self.size)

    def of_first(self, v: Tensor) -> Tensor:
        """What the first process of the node has for v."""
        return self._add_up(v.clone() if self.place == 0 else torch.zeros_like(v))

    def name(self, number: int) -> str:
        node, place = divmod(number, self.size)
        return f"process {place} of node {node}"

    def gather(self, v: Tensor) -> Tensor:
        return self.inner.gather(self._rows(v)).flatten(0, 1)

    def mean(self, v: Tensor) -> Tensor:
        return self.inner.mean(self.average(v.clone()))

    def _rows(self, v: Tensor) -> Tensor:
        """What every process of the node has for v."""
        rows = torch.zeros(self.size, *v.shape, dtype=v.dtype, device=v.device)
        rows[self.place] = v
        return self._add_up(rows)

    def _add_up(self, v: Tensor) -> Tensor:
        there = v.to(self._inside.device)
        try:
            self._inside.all_reduce(there).finish(self._timeout)
        except (RuntimeError, TimeoutError) as error:
            node = self.inner.node or 0
            known = f"has lost one of its {self.size} processes, or waited for it for {self._timeout:g} s"
            raise NeighbourError(node, None, self._timeout, str(error), known=known) from error
        return v if there is v else v.copy_(there)

    def _check(self, node: int) -> None:
        nodes = self._rows(torch.tensor([float(node)], dtype=torch.float64))[:, 0].long().tolist()
        if set(nodes) != {node}:
            raise ValueError(
                f"the processes of inside= are nodes {nodes} of the network; expected the processes of one node: make "
                "the network with TorchPeers(W, group=...), whose group has one process of every node"
            )
        mine = torch.tensor([float(self.size), float(self.place)], dtype=torch.float64)
        for number, (size, place) in enumerate(self.inner.gather(mine).long().tolist()):
            if (size, place) != (self.size, self.place):
                raise ValueError(
                    f"this is process {self.place} of the {self.size} of node {node}, but it mixes with process "
                    f"{place} of the {size} of node {number}; give every node as many processes, and the network's "
                    "group those with the same place in their nodes"
                )
