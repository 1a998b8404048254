"""One real node of the speedup experiment, started by torchrun or mpiexec; node 0 prints what was timed as JSON.

Three things are timed, in turns so that a disturbance hits all of them alike:
- computing: a DSGT round of a node by itself, all processes at once, while a model is on its way: where every core
  computes, the thread that carries the message has to be given one of them, which takes time of both;
- mixings, each after such a round: of one number and of a whole model, which give the latency and the bandwidth;
- together: a DSGT round of the real network, which the model has to predict.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dsgt.algorithms import DSGT
from dsgt.core import Network
from dsgt.experiments.training import classifier, weights
from dsgt.networks import Dense
from dsgt.run import iterate

TURNS = 5
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


def seconds(states: Iterator[Any], rounds: int) -> list[float]:
    """How long each of the next rounds takes."""
    took, before = [], time.perf_counter()
    for _ in islice(states, rounds):
        now = time.perf_counter()
        took.append(now - before)
        before = now
    return took


def computing(alone: Iterator[Any], network: Network, v: Tensor, rounds: int) -> list[float]:
    """How long a round takes that hears nothing, while v is on its way to the neighbours."""
    mix, took = network.at(0), []
    for _ in range(rounds):
        began = time.perf_counter()
        flight = mix.start(v)
        next(alone)
        flight.wait()
        took.append(time.perf_counter() - began)
    return took


def mixings(alone: Iterator[Any], network: Network, v: Tensor, count: int) -> list[float]:
    """How long a mixing takes after a round's computing, when cores and caches are as a training finds them."""
    mix, took = network.at(0), []
    for _ in range(count):
        next(alone)
        began = time.perf_counter()
        mix(v)
        took.append(time.perf_counter() - began)
    return took


def main(about: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    root = Path(about["data_dir"]) if about["data_dir"] else None
    problem = classifier(about["data"], about["model"], about["nodes"], "equal", about["batch"], 0, root)
    rounds = max(2, about["rounds"] // TURNS)
    timed: dict[str, list[float]] = {"computing": [], "number": [], "model": [], "together": []}
    with connect(about["launcher"], about["nodes"]) as network, torch.no_grad():
        i = network.node
        assert i is not None
        x, oracle = problem.start(0), problem[i].oracle(0)
        alone = iterate(DSGT(), lambda x, k: oracle(x[0], k)[None], Dense([[1.0]]), x, 1e-3)
        together = iterate(DSGT(), oracle, network, x, 1e-3)
        for states in (alone, together):  # the first rounds load things
            seconds(states, 3)
        for _ in range(TURNS):
            network.mean(torch.zeros(1))  # all begin together
            timed["computing"] += computing(alone, network, torch.zeros(problem.dim), rounds)
            network.mean(torch.zeros(1))
            if about["nodes"] > 1:
                timed["number"] += mixings(alone, network, torch.zeros(1), rounds)
                timed["model"] += mixings(alone, network, torch.zeros(problem.dim), rounds)
            network.mean(torch.zeros(1))
            timed["together"] += seconds(together, rounds)
        everyone = {name: network.gather(torch.tensor(t, dtype=torch.float64)).tolist() for name, t in timed.items()}
    if i == 0:
        print(MARK + json.dumps({"dim": problem.dim} | everyone), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
