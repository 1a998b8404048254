"""The table of a run: its metrics every so many rounds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from dsgt.core import Algorithm, Network
from dsgt.divergence import DivergedError
from dsgt.metrics import Metric, Snapshot, due
from dsgt.problems.base import Problem
from dsgt.statistics import Kept, packed, unpacked

Row = dict[str, float]


def gathered(kept: Mapping[str, Tensor], network: Network) -> Kept:
    """What all nodes remember besides their models, a row each; every node must ask at once."""
    if network.node is None or not kept:
        return dict(kept)
    return unpacked(network.gather(packed(kept)[0]), kept)


class Table:
    """Measures a run every ``every`` rounds (by default about a hundred times) and at its end, and stops it where its
    loss is above ``limit`` or no number. ``watch`` is given every row at once."""

    def __init__(
        self,
        algorithm: Algorithm[Any],
        problem: Problem,
        network: Network,
        metrics: Mapping[str, Metric],
        *,
        rounds: int,
        every: int | None,
        lr: Callable[[int], float],
        limit: float,
        watch: Callable[[Row], None] | None,
    ) -> None:
        if not limit > 0:
            raise ValueError(f"loss_limit is {limit}; give the loss above which the run has diverged, above 0")
        self.algorithm, self.problem, self.network, self.metrics = algorithm, problem, network, metrics
        self.rounds, self.every = rounds, every or max(1, rounds // 100)
        self.limit, self.lr = limit, lr
        self.rows: list[Row] = []
        self._watch = watch
        self.seconds = 0.0
        """What measuring has taken."""

    def due(self, k: int) -> bool:
        return k % self.every == 0 or k == self.rounds

    def go_on_from(self, rows: Sequence[Row]) -> None:
        """The rows of a checkpoint, as far as this table has them."""
        for row in rows:
            if self.due(int(row["round"])):
                known = {"round", *due(self.metrics, int(row["round"]))}
                self._add({name: value for name, value in row.items() if name in known})

    def measure(self, k: int, state: Any, seconds: float, work: float | Tensor, kept: Mapping[str, Tensor]) -> None:
        """After round k, if it is due and not known from a checkpoint."""
        if not self.due(k) or (self.rows and self.rows[-1]["round"] == k):
            return
        begun = time.perf_counter()
        x = self.network.gather(self.algorithm.model(state))
        problem = self.problem.remembering(gathered(kept, self.network)) if kept else self.problem
        seen = Snapshot(k, x, state, problem, self.network, seconds, self.algorithm, work)
        row: Row = {"round": k} | {name: metric(seen) for name, metric in due(self.metrics, k).items()}
        self.seconds += time.perf_counter() - begun
        self._check_loss(seen, row.get("loss", 0.0))
        self._add(row)

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        if self._watch is not None:
            self._watch(row)

    def _check_loss(self, seen: Snapshot, loss: float) -> None:
        limit = self.limit
        if loss <= limit and math.isfinite(loss):
            return
        node = int(seen.node_losses.nan_to_num(nan=math.inf).argmax())
        what = f"the loss after round {seen.k} is {loss:.3g}"
        what += f", above loss_limit = {limit:g}" if loss > limit else ""
        raise DivergedError(node, seen.k, self.lr(seen.k), what=f"{what}, and worst at node {node}")
