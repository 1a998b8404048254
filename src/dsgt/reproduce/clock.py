"""Time on a network that is not here: gradients timed on this machine, messages by the virtual clock.

A case times the gradient of a node's batch on one thread; ``seconds_per_round`` puts it on a ``Clocked`` network.
Training runs themselves carry no clock: what they compute does not depend on the time it takes.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path

import torch

from dsgt.algorithms import ALGORITHMS
from dsgt.networks import Clocked
from dsgt.problems.named import named_problem
from dsgt.reproduce.cases import Row, machine
from dsgt.reproduce.training_run import weights
from dsgt.run import iterate
from dsgt.threads import threads


@dataclass(frozen=True)
class Wire:
    """What links nodes: seconds to start a message, bytes a second."""

    name: str
    latency: float
    bandwidth: float


ETHERNET = Wire("10 Gbit/s, 50 µs", 50e-6, 1.25e9)
"""The network of the figures' time axes: ordinary 10-gigabit Ethernet."""
WIRES = (
    Wire("no cost", 0.0, float("inf")),
    ETHERNET,
    Wire("1 Gbit/s, 100 µs", 100e-6, 1.25e8),
)


@dataclass(frozen=True)
class Gradient:
    """Times one node's gradient, one thread: the n-th part of the global batch."""

    data: str
    model: str
    nodes: int
    batch: int
    repeats: int = 30
    where: str = field(default_factory=machine)
    data_dir: Path | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"timing {self.model}, {self.batch // self.nodes} samples"

    def __call__(self) -> list[Row]:
        problem = named_problem(
            self.data, self.model, nodes=self.nodes, partition="equal", batch=self.batch, seed=0, root=self.data_dir
        )
        node = problem[0]
        oracle, x = node.oracle(0), node.start(0)
        took = []
        with threads(1):
            for k in range(self.repeats + 2):
                began = time.thread_time()  # of this thread alone: what it takes on a core of its own
                oracle(x, k)
                took.append(time.thread_time() - began)
        took = took[2:]
        return [{"dim": problem.dim, "seconds": statistics.median(took), "least": min(took), "most": max(took)}]


@lru_cache(maxsize=1024)
def seconds_per_round(method: str, rule: str, nodes: int, dim: int, compute: float, wire: Wire) -> float:
    """Once the pipeline is full: the mean of the last half of some rounds."""
    network = Clocked(weights(rule, nodes), compute=compute, latency=wire.latency, bandwidth=wire.bandwidth)
    zero = torch.zeros(nodes, dim)
    states = iterate(ALGORITHMS[method](), lambda x, k: zero, network, torch.zeros(dim), 1.0)
    seconds = [network.seconds for _ in islice(states, 17)]
    return (seconds[16] - seconds[8]) / 8
