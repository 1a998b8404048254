"""One real node of the speedup experiment, started by torchrun or mpiexec; node 0 prints what was timed as JSON.

What is timed, in turns so that a disturbance hits all of it alike:
- the parts of a round, by themselves: first computing, of a node that hears nothing, while a model is on its way (where
  every core computes, the thread that carries the message has to be given one of them, which takes time of both); then
  a mixing, of one number or of a whole model, which give the latency and the bandwidth;
- together: a DSGT round of the real network, which the model has to predict.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dsgt.algorithms import DSGT
from dsgt.core import Done, Mix, Network, Pending, Sendable, value_of
from dsgt.problems.named import named_problem
from dsgt.reproduce.training_run import weights
from dsgt.run import iterate
from dsgt.topologies.changing import Fixed

TURNS = 15
RULE = "lazy-metropolis"
"""Weights that are no plain average also for two nodes, where that would be an all-reduce instead of messages."""
MARK = "TIMED "


def connect(launcher: str, nodes: int) -> Network:
    W = weights(RULE, nodes)
    if launcher == "torchrun":
        from dsgt.networks import TorchPeers

        return TorchPeers(W)
    from dsgt.networks import MPIPeers

    return MPIPeers(W)


def seconds(states: Iterator[Any], rounds: int) -> float:
    """How long the next rounds take."""
    began = time.perf_counter()
    for _ in islice(states, rounds):
        pass
    return time.perf_counter() - began


class Parts(NamedTuple):
    """A round in parts, by the machine's clock: computing while a model travels, and then a mixing."""

    begun: float
    computed: float
    mixed: float


class Silent(Network):
    """A node by itself."""

    nodes, node = 1, 0
    weights = Fixed(np.ones((1, 1)))

    def at(self, k: int) -> Mix:
        return _Nothing()

    def gather(self, v: Tensor) -> Tensor:
        return v[None]

    def mean(self, v: Tensor) -> Tensor:
        return v


class _Nothing(Mix):
    def start(self, v: Sendable) -> Pending:
        return Done(value_of(v))

    def start_flow(self, v: Sendable) -> Pending:
        return Done(torch.zeros_like(value_of(v)))


def parts(alone: Iterator[Any], mix: Mix, model: Tensor, message: Tensor, rounds: int) -> list[Parts]:
    """Rounds in parts: cores, caches and the thread that carries messages are as a training finds them."""
    found = []
    for _ in range(rounds):
        begun = time.perf_counter()
        flight = mix.start(model)
        next(alone)
        flight.wait()
        computed = time.perf_counter()
        mix(message)
        found.append(Parts(begun, computed, mixed=time.perf_counter()))
    return found


def main(about: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    root = Path(about["data_dir"]) if about["data_dir"] else None
    problem = named_problem(
        about["data"], about["model"], nodes=about["nodes"], partition="equal", batch=about["batch"], seed=0, root=root
    )
    rounds = max(2, about["rounds"] // TURNS)
    timed: dict[str, list[Any]] = {"number": [], "model": [], "together": []}
    with connect(about["launcher"], about["nodes"]) as network, torch.no_grad():
        i = network.node
        assert i is not None
        x, oracle = problem.start(0), problem[i].oracle(0)
        alone = iterate(DSGT(), oracle, Silent(), x, 1e-3)
        together = iterate(DSGT(), oracle, network, x, 1e-3)
        for states in (alone, together):  # the first rounds load things
            seconds(states, 3)
        model = torch.zeros(problem.dim)
        for _ in range(TURNS):
            for name, message in (("number", model[:1]), ("model", model)):
                network.mean(torch.zeros(1))  # all begin together
                timed[name].append(parts(alone, network.at(0), model, message, rounds))
            network.mean(torch.zeros(1))
            timed["together"].append(seconds(together, rounds) / rounds)
        everyone = {name: network.gather(torch.tensor(t, dtype=torch.float64)).tolist() for name, t in timed.items()}
    if i == 0:
        print(MARK + json.dumps({"dim": problem.dim} | everyone), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
