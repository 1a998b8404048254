"""Parts: every shard cut into q pieces as equal as can be, of which a node may ask for any."""

from __future__ import annotations

import torch
from torch import Tensor

from dsgt.data.sampling import segments
from dsgt.data.shards import Shards


class Parts:
    """Part j of node i are the samples floor(j N_i / q) ... floor((j + 1) N_i / q) - 1 of its shard.

    What ``Batches`` is for rounds: ``rows(j)`` are the samples, node after node, where node i asks for its part j_i.
    """

    constant = False

    def __init__(self, shards: Shards, q: int, node: int | None = None) -> None:
        smallest = int(shards.sizes.argmin())
        if not 1 <= q <= int(shards.sizes[smallest]):
            raise ValueError(
                f"q is {q}, but node {smallest} holds {int(shards.sizes[smallest])} samples, and each of its q parts "
                f"needs one at least; use 1 <= q <= {int(shards.sizes[smallest])}, or shards of more equal sizes"
            )
        here = slice(None) if node is None else slice(node, node + 1)
        self._held, self._starts = shards.sizes[here], shards.starts[here]
        self._order, self._q = shards.order, q
        self.fixed = bool((self._held % q == 0).all())
        """Whether all parts of a node are equally large."""
        self.sizes = self._held // q if self.fixed else self._held.double() / q
        """N_i / q, (n,): how large a part of node i is, in the mean."""
        self._table: Tensor | None = None
        if self.fixed and int(self.sizes.min()) == int(self.sizes.max()):  # then part j of node i is a row of a table
            first, held = int(self._starts[0]), int(self._held.sum())
            self._table = self._order[first : first + held].view(-1, int(self.sizes[0]))
            self._first = torch.arange(0, len(self._table), q, device=self._order.device)
        elif self.fixed:
            row, position = segments(self.sizes)
            self._row, self._offset = row, self._starts[row] + position

    def rows(self, j: Tensor) -> Tensor:
        """The samples of these parts, node after node; for parts of fixed sizes."""
        if self._table is not None:
            which = j.view(-1) + self._first
            if which.is_cpu:  # NumPy starts twice as fast
                return torch.from_numpy(self._table.numpy().take(which.numpy(), 0).reshape(-1))
            return self._table.index_select(0, which).view(-1)
        begin = j.reshape(-1) * self.sizes
        return self._order.index_select(0, begin.index_select(0, self._row).add_(self._offset))

    def ragged(self, j: Tensor) -> tuple[Tensor, Tensor]:
        """The samples of these parts, node after node, and how many each node has."""
        begin, end = (
            torch.div(t * self._held, self._q, rounding_mode="floor") for t in (j.reshape(-1), j.reshape(-1) + 1)
        )
        row, position = segments(end - begin)
        return self._order[(self._starts + begin)[row] + position], end - begin
