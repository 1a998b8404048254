"""One round of weighted averaging with the neighbours, in the words that a method may use."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from dsgt.core.messages import Pending, Sendable


class Mix(ABC):
    """One round of weighted averaging with the neighbours. A word that a mixing does not know is refused."""

    @property
    def k(self) -> int:
        """The round."""
        raise self._unknown("the number of the round")

    @property
    def nodes(self) -> int:
        """How many nodes the network joins."""
        raise self._unknown("the number of nodes")

    @property
    def rows(self) -> Tensor:
        """The numbers of the nodes that live here, (..., 1)."""
        raise self._unknown("the numbers of the nodes")

    @property
    def push(self) -> Mix:
        """The same round over the second matrix; over the first where there is only one."""
        raise self._unknown("a second matrix")

    @abstractmethod
    def start(self, v: Sendable) -> Pending:
        """Send v; what arrives is sum_j W[i, j] v_j, the node itself included."""

    @abstractmethod
    def start_flow(self, v: Sendable) -> Pending:
        """Send v; what arrives is sum_j W[i, j] (v_j - v_i), that is (W - I) v computed from the differences.

        For a symmetric W its sum over the nodes is zero up to the rounding of the *differences*, so a method that
        adds up flows does not drift once the nodes agree. ``mix(v) - v`` would round at the size of v, for ever.
        """

    def __call__(self, v: Sendable) -> Tensor:
        return self.start(v).wait()

    def flow(self, v: Sendable) -> Tensor:
        return self.start_flow(v).wait()

    def together(self, *vs: Tensor) -> tuple[Tensor, ...]:
        """Mix several tensors in one message, so that they arrive at one moment and over one network."""
        mixed = self(torch.cat(vs, dim=-1))
        return tuple(mixed.split([v.shape[-1] for v in vs], dim=-1))

    def start_exchange(self, v: Tensor) -> Pending:
        """Send letters; what arrives is what each neighbour sent, (..., len(hears), m), unweighted.

        v is (..., 1, m), the same letter to all, or (..., len(tells), m), one for each."""
        raise self._unknown("letters to single neighbours")

    def exchange(self, v: Tensor) -> Tensor:
        return self.start_exchange(v).wait()

    @property
    def hears(self) -> Tensor:
        """The numbers of those whom a node hears, (..., d). Where all nodes live in one process and some have fewer
        neighbours than d, -1 stands for none, and zeros arrive from it."""
        raise self._unknown("whom a node hears")

    @property
    def tells(self) -> Tensor:
        """The numbers of those who hear a node, (..., d), filled up with -1."""
        raise self._unknown("who hears a node")

    @property
    def weights(self) -> Tensor:
        """What a node gives to each of those whom it hears, (..., d, 1); 0 where there is none."""
        raise self._unknown("single weights")

    @property
    def own(self) -> Tensor:
        """What a node gives to itself, (..., 1)."""
        raise self._unknown("a node's weight of its own")

    def _unknown(self, what: str) -> Exception:
        return TypeError(f"{type(self).__name__} does not know {what}, which this method asks for; use another network")
