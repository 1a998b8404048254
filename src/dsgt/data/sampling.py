"""What is drawn: the mini-batch of node i in round k, a function of (seed, i, k) and of node i's shard only.

Node i draws b_i = eta N_i of its N_i samples. Variance of the sum of b_i drawn gradients r_u, mean r over the shard
(ALGORITHMS, E6):

    with replacement      eta sum ||r_u - r||^2
    without               eta sum ||r_u - r||^2 (N_i - b_i) / (N_i - 1)
    Bernoulli(eta)        eta (1 - eta) sum ||r_u||^2       not centred: it stays when all samples are equal
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dsgt.data.partition import apportion
from dsgt.randomness import Hash, absorb, bits_of, integers_of, uniform_of

DRAWN_AT_ONCE = 1 << 15
"""How many draws are computed in one go: enough to be cheap per round, too few for torch to start threads."""
_REPLACED, _SHUFFLED, _BERNOULLI = 1, 2, 3  # different ways to draw see different numbers


def segments(sizes: Tensor) -> tuple[Tensor, Tensor]:
    """For the concatenation of segments of these sizes: which segment each element is in, and its position there."""
    which = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    return which, torch.arange(len(which), device=sizes.device) - (sizes.cumsum(0) - sizes)[which]


@dataclass(frozen=True, eq=False)
class Draws:
    """The draws of one round, laid out node after node: M = sum b_i of them, and who makes each."""

    seed: int
    nodes: Tensor
    """The numbers i of the nodes that draw, (n,)."""
    sizes: Tensor
    """N_i, (n,)."""
    batch: Tensor
    """b_i, (n,)."""

    @cached_property
    def slots(self) -> tuple[Tensor, Tensor]:
        """For each of the M draws: its row among the nodes, and its number j within the batch."""
        return segments(self.batch)

    @cached_property
    def independent(self) -> tuple[Hash, Tensor]:
        """For each of the M draws with replacement: its stream, before it is told the round, and its node's N_i."""
        row, j = self.slots
        return absorb(absorb(self.seed, _REPLACED, self.nodes)[row.cpu()], j), self.sizes[row].cpu().double()

    @cached_property
    def total(self) -> int:
        return int(self.batch.sum())


@dataclass(frozen=True)
class Sampling(ABC):
    """How nodes draw. Whatever b_i, gradients are weighted so that no node counts for more than its N_i samples."""

    eta = 1.0
    fixed = True
    """Whether every batch of node i has the same size b_i."""
    constant = False
    """Whether every round draws the same."""

    @abstractmethod
    def batch_sizes(self, sizes: Tensor) -> Tensor:
        """b_i for shards of these sizes; the expected size where batches vary."""

    @abstractmethod
    def draw(self, d: Draws, k: int, rounds: int) -> Tensor:
        """Positions within the shards, (rounds, M), for the rounds k, k + 1, ..."""

    def rounds_at_once(self, d: Draws) -> int:
        return max(1, DRAWN_AT_ONCE // d.total)


@dataclass(frozen=True)
class Sized(Sampling):
    """Batches of a given size: a share eta of every shard, or a global batch M shared in proportion, or each b_i."""

    eta: float | None = None  # type: ignore[assignment]
    batch: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        if (self.eta is None) == (self.batch is None):
            raise ValueError(
                "say how much is drawn in one way: eta, the share of every shard; batch=1024, the global batch, shared "
                "in proportion to the shards; or batch=[b_1, b_2, ...], one size per node"
            )
        if self.eta is not None and not 0 < self.eta <= 1:
            raise ValueError(f"eta is {self.eta}, but it is the share of a shard that is drawn: 0 < eta <= 1")

    def batch_sizes(self, sizes: Tensor) -> Tensor:
        N = int(sizes.sum())
        if self.eta is not None:
            return (self.eta * sizes.double()).round_().long().clamp_(min=1)
        if isinstance(self.batch, int):
            if not len(sizes) <= self.batch <= N:
                raise ValueError(
                    f"the global batch is {self.batch}, but {len(sizes)} nodes hold {N} samples and each draws at "
                    f"least one; use {len(sizes)} ... {N}"
                )
            b = torch.from_numpy(apportion(self.batch, sizes.cpu().numpy().astype(np.float64))).to(sizes.device)
            return b.clamp_(min=1)
        b = torch.as_tensor(self.batch, dtype=torch.int64, device=sizes.device)
        if b.shape != sizes.shape or int(b.min()) < 1 or (b > sizes).any():
            i = int((b > sizes).int().argmax()) if b.shape == sizes.shape else -1
            what = f"node {i} holds {int(sizes[i])} samples and is to draw {int(b[i])}" if i >= 0 else f"{len(b)} sizes"
            raise ValueError(
                f"batch gives {what}, but it needs one size for each of the {len(sizes)} nodes, between 1 and the size "
                "of its shard; use eta, which suits every shard"
            )
        return b


@dataclass(frozen=True)
class WithReplacement(Sized):
    """b_i independent uniform draws: the paper's analysis."""

    def draw(self, d: Draws, k: int, rounds: int) -> Tensor:
        streams, held = d.independent
        return integers_of(held, absorb(streams, torch.arange(k, k + rounds)[:, None])).to(d.sizes.device)


@dataclass(frozen=True)
class WithoutReplacement(Sized):
    """Reshuffled epochs: node i goes through a random order of its shard, then through another, for ever.

    A batch may end one epoch and begin the next, so every sample comes exactly once an epoch, also where b_i does not
    divide N_i.
    """

    def rounds_at_once(self, d: Draws) -> int:
        """Whole epochs, where they are whole rounds: no shuffle is then computed twice."""
        N = int(d.sizes.sum())
        return -(-N // d.total) * max(1, DRAWN_AT_ONCE // N)

    def draw(self, d: Draws, k: int, rounds: int) -> Tensor:
        first = k * d.batch // d.sizes  # the epochs that each node sees in these rounds
        epochs = ((k + rounds) * d.batch - 1) // d.sizes - first + 1
        node, epoch = segments(epochs)  # one shuffle per (node, epoch)
        epoch += first[node]
        shuffle, position = segments(d.sizes[node])
        z = absorb(absorb(d.seed, _SHUFFLED, d.nodes[node], epoch)[shuffle.cpu()], position)
        spare = 63 - len(node).bit_length()  # one sort for all: the shuffle's number above, random bits below
        keys = (shuffle << spare) | (bits_of(z).to(shuffle.device) >> (63 - spare))
        order = position[keys.argsort()]

        row, j = d.slots
        held = epochs * d.sizes
        begin = held.cumsum(0) - held - first * d.sizes  # where in ``order`` node i's draw number 0 would be
        number = torch.arange(k, k + rounds, device=row.device)[:, None] * d.batch[row] + j
        return order[begin[row] + number]


@dataclass(frozen=True)
class Bernoulli(Sampling):
    """Each sample by itself with probability eta. Unbiased, but its variance stays when samples agree (E6)."""

    eta: float
    fixed = False

    def __post_init__(self) -> None:
        if not 0 < self.eta <= 1:
            raise ValueError(f"eta is {self.eta}, but it is the probability of drawing a sample: 0 < eta <= 1")

    def batch_sizes(self, sizes: Tensor) -> Tensor:
        return self.eta * sizes.double()

    def draw(self, d: Draws, k: int, rounds: int) -> Tensor:
        """Not positions: whether each sample is drawn, (rounds, N)."""
        row, position = segments(d.sizes)
        z = absorb(absorb(d.seed, _BERNOULLI, d.nodes)[row.cpu()], position)
        return (uniform_of(absorb(z, torch.arange(k, k + rounds)[:, None])) < self.eta).to(row.device)

    def rounds_at_once(self, d: Draws) -> int:
        return max(1, DRAWN_AT_ONCE // int(d.sizes.sum()))


@dataclass(frozen=True)
class Full(Sampling):
    """Every sample in every round: exact gradients."""

    constant = True

    def batch_sizes(self, sizes: Tensor) -> Tensor:
        return sizes

    def draw(self, d: Draws, k: int, rounds: int) -> Tensor:
        return d.slots[1].expand(rounds, -1)

    def rounds_at_once(self, d: Draws) -> int:
        return 1
