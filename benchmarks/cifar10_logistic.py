"""Logistic regression on the real CIFAR-10: DSGT over 12 nodes ends where centralized SGD ends.

usage: python benchmarks/cifar10_logistic.py DIR      (DIR holds cifar-10-batches-py)
"""

from __future__ import annotations

import math
import sys

import networkx as nx

from dsgt import DPSGD, DSGT, SGD, metrics, run
from dsgt.data import WithoutReplacement, cifar10, partition
from dsgt.problems import Logistic
from dsgt.topologies.weights import metropolis

NODES, BATCH, EPOCHS, LR = 12, 1024, 6, 0.01
WANTED = ("loss", "accuracy", "node_accuracy_min", "node_accuracy_max", "consensus", "epochs", "seconds")


def main(root: str) -> None:
    train, test = cifar10(root, images=False)
    rounds = math.ceil(EPOCHS * len(train) / BATCH)
    degree = 2 * round(math.log2(NODES))  # the paper's: about 2 log2(n) neighbours
    W = metropolis(nx.random_regular_graph(degree, NODES, seed=0))
    measured = {name: getattr(metrics, name) for name in WANTED}
    losses = {}
    for algorithm, nodes, network in ((SGD(), 1, [[1.0]]), (DSGT(), NODES, W), (DPSGD(), NODES, W)):
        problem = Logistic(train, partition.equal(train, nodes), WithoutReplacement(batch=BATCH), test=test)
        last = run(algorithm, problem, network, rounds=rounds, lr=LR, every=rounds, metrics=measured).rows[-1]
        name = type(algorithm).__name__
        losses[name] = last["loss"]
        print(f"{name:6} n={nodes:2} m={problem.dim}", {k: round(v, 5) for k, v in last.items()}, flush=True)
    for name in ("DSGT", "DPSGD"):
        print(f"{name}: loss {100 * (losses[name] / losses['SGD'] - 1):+.3f} % of centralized SGD (DSGT target: 0.5 %)")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
