"""Shards: which node holds which samples, as indices into a data set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Shards(Sequence[Tensor]):
    """Node i holds the samples ``shards[i]``. Every sample is in exactly one shard and no shard is empty.

    One tensor for all nodes, because a million small tensors are slow.
    """

    order: Tensor
    """The indices of all samples, node after node, (N,)."""
    sizes: Tensor
    """N_i, how many samples each node holds, (n,)."""

    def __post_init__(self) -> None:
        if len(self.sizes) == 0 or (empty := int((self.sizes < 1).sum())):
            which = "there is none" if not len(self.sizes) else f"node {int(self.sizes.argmin())} holds none"
            many = f" (and {empty - 1} others)" if len(self.sizes) and empty > 1 else ""
            raise ValueError(
                f"every node needs at least one sample, but {which}{many}; use fewer nodes or more samples"
            )
        if int(self.sizes.sum()) != len(self.order):
            raise ValueError(f"the shard sizes sum to {int(self.sizes.sum())}, but there are {len(self.order)} indices")
        if int(self.order.min()) < 0:
            raise ValueError(f"sample indices start at 0, but {int(self.order.min())} was given")
        held = torch.bincount(self.order, minlength=len(self.order))
        if (held[: len(self.order)] != 1).any():
            sample = int((held != 1).nonzero()[0])
            raise ValueError(
                f"sample {sample} is in {int(held[sample])} shards, but every one of the samples 0 ... "
                f"{len(self.order) - 1} must be in exactly one; leave samples out, or copy them, in the data set itself"
            )

    @classmethod
    def of(cls, indices: Iterable[Sequence[int] | Tensor]) -> Shards:
        """From one list of sample indices per node."""
        lists = [torch.as_tensor(i, dtype=torch.int64).reshape(-1) for i in indices]
        sizes = torch.tensor([len(i) for i in lists], dtype=torch.int64)
        return cls(torch.cat(lists) if lists else torch.empty(0, dtype=torch.int64), sizes)

    def __len__(self) -> int:
        """How many nodes."""
        return len(self.sizes)

    @overload
    def __getitem__(self, i: int) -> Tensor: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, i: int | slice) -> Tensor | Sequence[Tensor]:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        i = range(len(self))[i]
        start = int(self.starts[i])
        return self.order[start : start + int(self.sizes[i])]

    @property
    def samples(self) -> int:
        """N, how many samples all nodes hold together."""
        return len(self.order)

    @cached_property
    def starts(self) -> Tensor:
        """Where in ``order`` each node's samples begin, (n,)."""
        return self.sizes.cumsum(0) - self.sizes

    @cached_property
    def in_order(self) -> bool:
        """Whether the samples lie node after node in the data set too."""
        return bool((self.order == torch.arange(len(self.order), device=self.order.device)).all())

    def side_by_side(self) -> Shards:
        """The shards of the same samples, after ``features[order]`` has laid them out node after node."""
        return self if self.in_order else Shards(torch.arange(len(self.order), device=self.order.device), self.sizes)

    def to(self, device: torch.device) -> Shards:
        return self if self.order.device == device else Shards(self.order.to(device), self.sizes.to(device))


@dataclass(frozen=True, eq=False)
class OwnShard(Shards):
    """What a real node knows that has loaded its own samples only: ``order`` are these, 0 ... N_i - 1."""

    node: int = 0

    def __post_init__(self) -> None:
        if (empty := (self.sizes < 1).nonzero()).numel():
            raise ValueError(f"every node needs at least one sample, but node {int(empty[0])} has loaded none")

    @property
    def samples(self) -> int:
        return int(self.sizes.sum())

    @cached_property
    def starts(self) -> Tensor:
        return torch.zeros_like(self.sizes)

    def to(self, device: torch.device) -> Shards:
        return (
            self if self.order.device == device else OwnShard(self.order.to(device), self.sizes.to(device), self.node)
        )
