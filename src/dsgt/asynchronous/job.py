"""What ``dsgt train`` does with an asynchronous method: this process's node, its gradients, its record; and a recorded
run once more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from dsgt.asynchronous import recorded
from dsgt.asynchronous.core import AsyncAlgorithm
from dsgt.asynchronous.mail import Links
from dsgt.asynchronous.node import Node
from dsgt.asynchronous.peers import AsyncPeers
from dsgt.asynchronous.real import RealNode
from dsgt.core import Weights
from dsgt.problems.base import Problem
from dsgt.threads import threads


def train(
    algorithm: AsyncAlgorithm[Any],
    problem: Problem,
    peers: AsyncPeers,
    *,
    wakes: int,
    lr: float,
    seed: int,
    about: Mapping[str, Any],
    record: Path | None = None,
    watch: Callable[[int, float, Tensor], None] | None = None,
    **checkpoints: Any,
) -> RealNode:
    """Wake so often, each time with the gradient of this node's own samples, and end when nothing is under way.

    about: what the job is, the same at all nodes; it stands in the record. ``watch(k, seconds, x)`` is shown the node's
    model after every wake but the last, and when it has ended."""
    recorders: list[recorded.Recorder] = []

    def prepared(node: Node[Any]) -> None:
        if record is not None:
            if node.mail.k:
                raise ValueError("a node that comes back cannot be recorded: its earlier life is in no record")
            path = recorded.path_of(record, peers.node)
            recorders.append(recorded.Recorder(path, node, {**about, "node": peers.node, "nodes": peers.nodes}))

    with threads(1):  # the numbers must not depend on how many cores there are
        gradient = problem[peers.node].oracle(seed)
        one = peers.take_part(
            algorithm,
            problem.start(seed),
            _constant(lr),
            seed=seed,
            job=str(dict(about)),
            prepared=prepared,
            **checkpoints,
        )
        begun = time.monotonic()
        whole = False
        try:
            one.start()
            while (k := one.node.mail.k) < wakes:
                one.wake(gradient(one.node.point, k))
                if watch is not None and k + 1 < wakes:
                    watch(k + 1, time.monotonic() - begun, one.node.point)
            one.finish()
            whole = True
        except BaseException:
            one.close()
            raise
        finally:
            for recorder in recorders:
                recorder.close(whole=whole)
        if watch is not None:
            watch(wakes, time.monotonic() - begun, algorithm.model(one.node.state))
    return one


def again(
    algorithm: AsyncAlgorithm[Any],
    problem: Problem,
    weights: Weights,
    records: list[recorded.Record],
    *,
    lr: float,
    seed: int,
    watch: Callable[[Node[Any]], None] | None = None,
) -> int:
    """A recorded run once more, in this process; how many models were the same, bit for bit."""
    x0 = problem.start(seed)
    nodes = [Node(algorithm, Links.of(weights, i), x0, _constant(lr), seed=seed) for i in range(len(records))]
    with threads(1):
        gradients = [problem[i].oracle(seed) for i in range(len(records))]
        return recorded.replayed(nodes, records, lambda i, x, k: gradients[i](x, k), watch=watch)


def _constant(lr: float) -> Callable[[int], float]:
    return lambda k: lr
