"""Who holds what data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dsgt.comparison import Settings
from dsgt.data import counts
from dsgt.problems.erm import EmpiricalRisk

MOST_NODES, MOST_LABELS = 48, 24
"""A larger table is summarised."""
BINS = 24


@dataclass(frozen=True)
class Holdings:
    """The shards of the first seed."""

    sizes: list[int]
    """N_i, how many samples each node holds."""
    table: list[list[int]]
    """How many of each label, node after node; empty where the targets are no labels."""

    @property
    def labels(self) -> int:
        return len(self.table[0]) if self.table else 0

    @property
    def most(self) -> int:
        return max((max(row) for row in self.table), default=0)

    @property
    def fits(self) -> bool:
        return len(self.sizes) <= MOST_NODES and self.labels <= MOST_LABELS

    @property
    def sentence(self) -> str:
        low, high = min(self.sizes), max(self.sizes)
        each = f"{low:,} samples each" if low == high else f"{low:,} to {high:,} samples each"
        held = f"{sum(self.sizes):,} samples on {len(self.sizes):,} nodes, {each}"
        if not self.table:
            return held + "."
        kinds = [sum(count > 0 for count in row) for row in self.table]
        few = f"{min(kinds)}" if min(kinds) == max(kinds) else f"{min(kinds)} to {max(kinds)}"
        return f"{held}; a node knows {few} of the {self.labels} labels."


def holdings(settings: Settings) -> Holdings | None:
    """The shards of seed 0, where the problem is made of samples."""
    problem = settings.problem(0)
    if not isinstance(problem, EmpiricalRisk):
        return None
    targets = problem.data.targets
    labelled = problem.data.labelled and targets.ndim == 1
    return Holdings(problem.shards.sizes.tolist(), counts(problem.shards, targets).tolist() if labelled else [])


def histograms(held: Holdings) -> list[dict[str, Any]]:
    """For many nodes: how many of them hold so many samples, and so many labels."""
    found = [_histogram("samples", held.sizes)]
    if held.table:
        found.append(_histogram("labels", [sum(count > 0 for count in row) for row in held.table]))
    return found


def _histogram(title: str, values: Sequence[int]) -> dict[str, Any]:
    step = max(1, -(-(max(values) - min(values) + 1) // BINS))
    tally = Counter((v - min(values)) // step for v in values)
    starts = [min(values) + step * k for k in range(max(tally) + 1)]
    names = [str(a) if step == 1 else f"{a}–{a + step - 1}" for a in starts]
    return {"title": title, "bins": names, "nodes": [tally[k] for k in range(len(starts))]}
