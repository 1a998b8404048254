"""A table of q gradients per node, for SAG and SAGA: one for each part of its samples, as it was last computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from dsgt import randomness
from dsgt.core import Local, Oracle, parameter

PARTS, ORDERS, RESTARTS, DELAYS = 101, 102, 103, 104
"""Different oracles see different numbers, and none those that samples are drawn with."""


ROUNDS_AT_ONCE = 256
_AHEAD: WeakKeyDictionary[Local, dict[int, tuple[int, Sequence[Tensor], Sequence[Tensor]]]] = WeakKeyDictionary()


class Table(NamedTuple):
    phi: Tensor
    """(..., q, m)"""
    mean: Tensor
    """Of phi over its q entries, (..., m)."""

    @classmethod
    def filled(cls, f: Local, x: Tensor, q: int, limit: float) -> Table:
        """With the gradients of all parts at x: one pass over the samples."""
        check_size(x, q, limit)
        phi = x.new_empty(*x.shape[:-1], q, x.shape[-1])
        for j in range(q):
            phi[..., j, :] = f.part(x, torch.full_like(f.rows, j), q)
        return cls(phi, phi.mean(dim=-2))

    def entries(self, entry: Tensor) -> Tensor:
        """phi_j of every node here, (..., m)."""
        return self.phi.view(-1, self.phi.shape[-1]).index_select(0, entry).view(self.mean.shape)

    def replace_(self, entry: Tensor, new: Tensor, k: int) -> tuple[Tensor, Table]:
        """new - phi_j, and the table with new in the place of phi_j, written over this one.

        The mean is computed anew every q rounds, which costs as much as keeping it up to date and stops its rounding
        errors from adding up."""
        q, m = self.phi.shape[-2:]
        all_entries, new_ones = self.phi.view(-1, m), new.view(-1, m)
        change = (new_ones - all_entries.index_select(0, entry)).view(new.shape)
        all_entries.index_copy_(0, entry, new_ones)
        mean = torch.add(self.mean, change, alpha=1 / q) if (k + 1) % q else self.phi.mean(dim=-2)
        return change, Table(self.phi, mean)


def fits(x: Tensor, vectors: int, limit: float, what: str, instead: str) -> None:
    """A ValueError if so many m-vectors for every node here take more gigabytes than the limit."""
    size = x.numel() * vectors * x.element_size() / 1e9
    if size > limit:
        raise ValueError(
            f"a table of {what} of {x.shape[-1]} numbers for {math.prod(x.shape[:-1])} node(s) here takes {size:.3g} "
            f"GB, and the limit is {limit:g} GB; raise it (limit={math.ceil(size)}), {instead}"
        )


def check_size(x: Tensor, q: int, limit: float) -> None:
    """Whether a table of q gradients fits."""
    fits(x, q, limit, f"q = {q} gradients", "use fewer parts, or SVRG, SARAH or AVRG, which keep no table")


@dataclass(frozen=True)
class Tabled(Oracle[Table]):
    """An oracle with a table, filled by one pass before the first round."""

    q: int = parameter(10, "parts that every node's samples are cut into; the table holds so many vectors", least=1)
    limit: float = parameter(2.0, "gigabytes that the tables of the nodes here may take", above=0)

    wants: ClassVar[tuple[str, ...]] = ("part",)

    @property
    def keeps(self) -> int:  # type: ignore[override]
        return self.q + 1

    def check(self, f: Local, x: Tensor) -> None:
        f.check(self.wants, self.q)
        check_size(x, self.q, self.limit)

    def init(self, f: Local, x: Tensor) -> Table:
        return Table.filled(f, x, self.q, self.limit)


def drawn(f: Local, q: int, k: int) -> tuple[Tensor, Tensor]:
    """Which part each node here looks at in round k, (..., 1), and which entries of the tables these are, (n,).

    Many rounds are drawn at once, because one is slow."""
    first, parts, entries = _AHEAD.get(f, {}).get(q, (0, (), ()))
    if not first <= k < first + len(parts):
        first = k - k % ROUNDS_AT_ONCE
        rounds = torch.arange(first, first + ROUNDS_AT_ONCE)
        j = randomness.integers(q, f.seed, PARTS, f.rows, rounds).unsqueeze(-1).movedim(-2, 0).contiguous()
        tables = torch.arange(0, f.rows.numel() * q, q, device=j.device)
        parts, entries = j.unbind(), (j.view(ROUNDS_AT_ONCE, -1) + tables).unbind()
        _AHEAD.setdefault(f, {})[q] = first, parts, entries
    return parts[k - first], entries[k - first]
