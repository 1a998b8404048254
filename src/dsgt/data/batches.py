"""Batches: the samples that some nodes draw, round after round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from dsgt.data.sampling import Draws, Sampling, segments
from dsgt.data.shards import Shards

Which = TypeVar("Which", contravariant=True)


class Drawn(Protocol[Which]):
    """Some samples of every node: those of a round, for ``Batches``, or of some parts of the shards, for ``Parts``."""

    fixed: bool
    """Whether node i always has equally many."""
    constant: bool
    """Whether they are always the same."""
    sizes: Tensor
    """How many samples each node has, (n,), or the expected number where it varies."""

    def rows(self, which: Which, /) -> Tensor:
        """The samples, node after node, (M,), where ``fixed``."""

    def ragged(self, which: Which, /) -> tuple[Tensor, Tensor]:
        """The samples, node after node, and how many each node has."""


class Batches:
    """``batches(k)`` gives the samples drawn in round k, node after node, and how many each node drew.

    A pure function of k. Many rounds are computed at once and kept, because a round's own draw is too small to be fast.
    """

    def __init__(self, shards: Shards, sampling: Sampling, seed: int, node: int | None = None) -> None:
        """For all nodes, or for one; a node draws the same either way."""
        nodes = torch.arange(len(shards), device=shards.order.device)
        sizes, b = shards.sizes, sampling.batch_sizes(shards.sizes)
        starts = shards.starts
        if node is not None:
            nodes, sizes, b, starts = (v[node : node + 1] for v in (nodes, sizes, b, starts))
        self._sampling = sampling
        self.fixed, self.constant = sampling.fixed, sampling.constant
        self._draws = Draws(seed, nodes, sizes, b)
        self.sizes = b
        """b_i, (n,): how many samples each node draws, or the expected number where it varies."""
        self._order = None if shards.in_order else shards.order
        row, position = segments(sizes) if not sampling.fixed else self._draws.slots
        self._row, self._offset = row, starts[row] + (0 if sampling.fixed else position)
        self._first, self._end = 0, 0
        self._rows: Sequence[Tensor] | Tensor = ()
        self._alone = node is not None

    def rows(self, k: int) -> Tensor:
        """The drawn samples of round k, node after node, (M,); where batch sizes vary, whether each sample is drawn."""
        if not self._first <= k < self._end:
            rounds = self._sampling.rounds_at_once(self._draws)
            self._first = k - k % rounds
            self._end = self._first + rounds
            drawn = self._sampling.draw(self._draws, self._first, rounds)
            rows = self._taken(drawn) if self._sampling.fixed else drawn
            self._rows = rows if self._alone else rows.unbind()  # a node's batches are too many to be made tensors
        return self._rows[k - self._first]

    def _taken(self, drawn: Tensor) -> Tensor:
        """The samples at these positions within the shards."""
        at = drawn + self._offset
        return at if self._order is None else self._order.index_select(0, at.view(-1)).view(at.shape)

    def ragged(self, k: int) -> tuple[Tensor, Tensor]:
        """The drawn samples of round k, node after node, and how many each node drew."""
        if self._sampling.fixed:
            return self.rows(k), self.sizes
        drawn = self.rows(k)
        at = self._offset[drawn]
        counts = torch.bincount(self._row[drawn], minlength=len(self._draws.nodes))
        return at if self._order is None else self._order[at], counts
