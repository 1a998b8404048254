"""``run_async``: a method in which nobody waits, in virtual time, and a table of metrics; a grid of runs in one pass.

Who wakes when does not depend on the numbers, so runs that differ in learning rate and in the samples drawn go through
one pass as tensors (runs, m); one that diverges hurts only itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from dsgt import metrics as measured
from dsgt.asynchronous.core import AsyncAlgorithm, Rate, check_carried
from dsgt.asynchronous.events import Absence, Events
from dsgt.asynchronous.mail import Links
from dsgt.asynchronous.node import Node
from dsgt.core import Network, S
from dsgt.divergence import DivergedError
from dsgt.metrics import Metric, Snapshot
from dsgt.networks.clocked import Clocked
from dsgt.problems.base import Problem
from dsgt.run import NetworkLike, Result, Schedule, as_schedule, as_start
from dsgt.threads import threads
from dsgt.topologies.needs import check

Row = dict[str, float]
MOST_NUMBERS = 1 << 14
"""In a node's tensors, (runs, m): up to here NumPy, which starts an operation in half of torch's time."""


def run_async(
    algorithm: AsyncAlgorithm[S],
    problem: Problem,
    network: NetworkLike,
    *,
    seconds: float,
    lr: Schedule,
    every: float | None = None,
    metrics: Mapping[str, Metric] | None = None,
    x0: Tensor | None = None,
    seed: int = 0,
    absences: Sequence[Absence] = (),
    loss_limit: float = math.inf,
    watch: Callable[[Row], None] | None = None,
) -> Result[S]:
    """Run an asynchronous method for so many virtual seconds, and measure it every ``every`` of them (by default a
    hundred times).

    ``network`` is ``networks.Clocked(W, compute=..., latency=...)``, which says how long gradients and messages take;
    bare weights mean gradients of one second and messages that arrive at once. ``lr`` is a number, or a function of how
    often the node has woken. ``absences`` says which nodes leave and return. The rows are those of ``run``, where
    ``round`` is how many gradients a node has computed in the mean.
    A run whose measured loss is above ``loss_limit``, or no finite number, is stopped with ``DivergedError``.
    """
    grid = Grid(
        algorithm, problem, network, lrs=[lr], seeds=[seed], x0=x0, absences=absences, metrics=metrics,
        watch=None if watch is None else lambda r, row: watch(row),
    )  # fmt: skip
    (result,) = grid.run(seconds=seconds, every=every, loss_limit=loss_limit)
    if isinstance(result, DivergedError):
        raise result
    return result


class Grid:
    """All pairs of these learning rates and seeds in one pass: ``lrs[0]`` with every seed, then ``lrs[1]`` ..."""

    def __init__(
        self,
        algorithm: AsyncAlgorithm[Any],
        problem: Problem,
        network: NetworkLike,
        *,
        lrs: Sequence[Schedule],
        seeds: Sequence[int] = (0,),
        x0: Tensor | None = None,
        absences: Sequence[Absence] = (),
        metrics: Mapping[str, Metric] | None = None,
        watch: Callable[[int, Row], None] | None = None,
    ) -> None:
        """``watch`` is shown the number of a run and its new row."""
        self.network = _timed(network)
        _check(algorithm, problem, self.network)
        self.algorithm, self.problem, self.watch = algorithm, problem, watch
        self.metrics = measured.DEFAULT | {"virtual_seconds": measured.virtual_seconds} if metrics is None else metrics
        self.pairs = [(as_schedule(lr), seed) for lr, seed in product(lrs, seeds)]
        runs = len(self.pairs)
        starts = [as_start(problem.start(s) if x0 is None else x0, self.network) for _, s in self.pairs]
        x = torch.stack(starts, dim=1)  # (n, runs, m)
        arrays = x.is_cpu and x[0].numel() <= MOST_NUMBERS and x.dtype in (torch.float32, torch.float64)
        rate = _rates([lr for lr, _ in self.pairs], x, arrays=arrays)
        own = [problem[i].runs([s for _, s in self.pairs]) for i in range(problem.nodes)]

        def gradient(i: int, x: Any, k: int) -> Any:
            return own[i](torch.from_numpy(x), k).numpy() if arrays else own[i](x, k)

        weights, rows = self.network.weights, cast("list[Tensor]", list(x.numpy() if arrays else x))
        self.nodes = [
            Node(algorithm, Links.of(weights, i), begin, rate, seed=self.network.seed) for i, begin in enumerate(rows)
        ]
        self.events = Events(
            self.nodes,
            gradient,
            times=self.network.times,
            link=self.network.link,
            absences=absences,
            seed=self.network.seed,
            runs=runs,
            activity=self.network.activity,
        )
        self.rows: list[list[Row]] = [[] for _ in self.pairs]
        self.diverged: dict[int, DivergedError] = {}

    @torch.no_grad()
    def run(
        self, *, seconds: float, every: float | None = None, loss_limit: float = math.inf
    ) -> list[Result[Any] | DivergedError]:
        """Up to this virtual time. A run that diverged is the error that says so; its rows are in ``rows``."""
        if not (math.isfinite(seconds) and seconds > 0 and (every is None or every > 0)):
            raise ValueError(f"seconds is {seconds} and every is {every}; they are virtual seconds, above 0")
        moments = every or seconds / 100
        spent, count = 0.0, math.ceil(seconds / moments - 1e-9)
        with np.errstate(all="ignore"), threads(1):
            self._measure(0.0, loss_limit)
            for step in range(1, count + 1):
                begin = time.perf_counter()
                self.events.advance(min(seconds, step * moments))
                spent += time.perf_counter() - begin
                self._measure(spent, loss_limit)
                if len(self.diverged) == len(self.pairs):
                    break
        return [self.diverged.get(r) or self._result(r) for r in range(len(self.pairs))]

    def _result(self, r: int) -> Result[Any]:
        state = self._state(r)
        return Result(self.rows[r], state, self.algorithm.model(state))

    def _state(self, r: int) -> Any:
        """Of one run, (n, m) as ``run`` has it."""
        states = [node.state for node in self.nodes]
        fields = [torch.stack([torch.as_tensor(v)[r] for v in column]) for column in zip(*states, strict=True)]
        return type(states[0])(*fields)

    def _measure(self, spent: float, limit: float) -> None:
        events, network = self.events, self.network
        network.clock[:] = events.now
        network.traffic.bytes, network.traffic.mixings = events.bytes, events.letters
        k, work = events.wakes // len(self.nodes), torch.tensor([float(node.mail.k) for node in self.nodes])
        for r, (lr, _) in enumerate(self.pairs):
            if r in self.diverged:
                continue
            state = self._state(r)
            seen = Snapshot(k, self.algorithm.model(state), state, self.problem, network, spent, self.algorithm, work)
            row: Row = {"round": k} | {name: metric(seen) for name, metric in self.metrics.items()}
            loss = row.get("loss", 0.0)
            if not (loss <= limit and math.isfinite(loss)):
                node = int(seen.node_losses.nan_to_num(nan=math.inf).argmax())
                what = f"the loss after {events.now:.4g} virtual seconds is {loss:.3g}"
                self.diverged[r] = DivergedError(node, k, lr(k), what=what)
                continue
            self.rows[r].append(row)
            if self.watch is not None:
                self.watch(r, row)


def played(algorithm: AsyncAlgorithm[Any], problem: Problem, network: Clocked) -> Events:
    """Who wakes when and hears what, which does not depend on the numbers: with gradients of zero."""
    x = problem.start(0)
    nodes = [
        Node(algorithm, Links.of(network.weights, i), x, lambda k: 0.0, seed=network.seed) for i in range(problem.nodes)
    ]
    return Events(
        nodes,
        lambda i, x, k: torch.zeros_like(x),
        times=network.times,
        link=network.link,
        seed=network.seed,
        activity=network.activity,
    )


def _timed(network: NetworkLike) -> Clocked:
    if isinstance(network, Clocked):
        return network
    if isinstance(network, Network):
        raise TypeError(
            f"run_async was given {type(network).__name__}, which has no virtual time; use networks.Clocked(W, "
            "compute=..., latency=...)"
        )
    return Clocked(network, compute=1.0)


def _check(algorithm: AsyncAlgorithm[Any], problem: Problem, network: Clocked) -> None:
    if not isinstance(algorithm, AsyncAlgorithm):
        raise TypeError(f"{type(algorithm).__name__} waits for its neighbours: use dsgt.run, or an asynchronous method")
    if problem.nodes != network.nodes:
        raise ValueError(
            f"the problem has {problem.nodes} nodes and the network {network.nodes}: partition the data for the network"
        )
    check_carried(problem)
    check(type(algorithm).__name__, algorithm.needs, network.weights)


def _rates(schedules: Sequence[Callable[[int], float]], x: Tensor, *, arrays: bool) -> Rate:
    """k -> the learning rates of all runs, (runs, 1), kept while they stay the same."""
    kept: dict[tuple[float, ...], Any] = {}

    def rate(k: int) -> Any:
        values = tuple(lr(k) for lr in schedules)
        if len(values) == 1:
            return values[0]
        if values not in kept:
            kept.clear()
            column = torch.tensor(values, dtype=x.dtype, device=x.device)[:, None]
            kept[values] = column.numpy() if arrays else column
        return kept[values]

    return rate
