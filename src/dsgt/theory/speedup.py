"""Predicted speedup of n nodes over one (section 5.3 of the paper).

    S = T_1 / T_n = (sum N_i / max N_i) * (L_c / (n L))

The first factor is time per round: the slowest node sets the pace. The second is rounds: local losses that are more
curved than the mean loss force smaller steps. Both are n and 1 under A2 (equal shards of one distribution).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """What one message costs, in the time that one sample's gradient takes on one node."""

    latency: float
    """To start a message."""
    per_vector: float
    """To move one model (m numbers) over one edge."""
    neighbours: int
    """A node sends to each of them, one after the other."""
    sends: int = 2
    """Vectors per neighbour and round: 2 for gradient tracking."""
    hidden: int = 1
    """Of these, how many travel while the next gradient is computed (DSGT's tracker)."""


@dataclass(frozen=True)
class Speedup:
    """How much faster n nodes are than one. An order of magnitude: the paper's constants are O()."""

    balance: float
    """sum N_i / max N_i: n where all shards are equal."""
    curvature: float
    """L_c / (n L) in the paper's units: 1 where all shards look alike, 1/n where one node holds all the curvature."""
    communication: float
    """Time per round without messages over time with them; 1 where none is modelled."""

    @property
    def ideal(self) -> float:
        """The paper's S: messages are free, A1 holds."""
        return self.balance * self.curvature

    @property
    def total(self) -> float:
        return self.ideal * self.communication


def speedup(
    sizes: Sequence[int], L_i: Sequence[float], L_c: float, *, link: Link | None = None, eta: float = 1.0
) -> Speedup:
    """From shard sizes and Lipschitz constants in the package's units (F_i and F are means), where nL -> L.

    ``eta`` is the share of its samples that a node draws per round; it matters against messages only.
    """
    if not sizes or min(sizes) < 1 or len(sizes) != len(L_i):
        raise ValueError(
            f"{len(sizes)} shard sizes and {len(L_i)} Lipschitz constants were given; give one of each per node, every "
            "shard with at least one sample"
        )
    if not (L_c > 0 and min(L_i) >= 0 and max(L_i) > 0):
        raise ValueError(f"L_c is {L_c:g} and max L_i {max(L_i):g}; Lipschitz constants are above 0")
    # F is the mean of the F_i, so L_c <= max L_i; an estimate may be off by its own error
    curvature = min(1.0, L_c / max(L_i))
    share = 1.0
    if link is not None and len(sizes) > 1:
        compute = eta * max(sizes)
        per_send = link.neighbours * (link.latency + link.per_vector)
        behind = max(0.0, link.hidden * per_send - compute)  # what does not fit behind the gradient
        share = compute / (compute + (link.sends - link.hidden) * per_send + behind)
    return Speedup(sum(sizes) / max(sizes), curvature, share)
