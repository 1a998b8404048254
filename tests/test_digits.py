"""Real data, skewed labels: twelve nodes together learn what one computer with all the data learns."""

from collections.abc import Callable

import networkx as nx
import pytest

from dsgt import DPSGD, DSGT, SGD, metrics, run
from dsgt.core import Algorithm
from dsgt.data import Samples, Shards, WithoutReplacement, digits, partition
from dsgt.problems import Logistic, Model, Problem, lenet
from dsgt.topologies.weights import metropolis

NODES = 12
ONE_POINT = 0.01


def standardised(images: bool) -> tuple[Samples, Samples]:
    return tuple(Samples((s.features - 0.3) / 0.38, s.targets) for s in digits(images=images))  # type: ignore[return-value]


def logistic(shards: Callable[[Samples], Shards]) -> Problem:
    train, test = standardised(images=False)
    return Logistic(train, shards(train), WithoutReplacement(batch=144), test=test)


def convolutional(shards: Callable[[Samples], Shards]) -> Problem:
    train, test = standardised(images=True)
    module = lenet(channels=1, size=8)
    return Model(module, train, shards(train), WithoutReplacement(batch=144), test=test, strategy="threads")


SETTINGS = {"logistic": (logistic, [1], 0.5, 0.5, 400), "lenet": (convolutional, [1, 2, 4], 0.15, 0.03, 360)}
"""The problem; whom a node hears, by distance on a ring; the learning rates until and after 5/6 of the rounds."""


@pytest.mark.parametrize("kind", SETTINGS)
def test_skewed_nodes_learn_as_well_as_one_computer_with_dsgt_and_worse_with_dpsgd(kind: str) -> None:
    problem, distances, first, last, rounds = SETTINGS[kind]
    W = metropolis(nx.circulant_graph(NODES, distances))

    def schedule(k: int) -> float:
        return first if k < rounds * 5 // 6 else last

    def skewed(data: Samples) -> Shards:
        return partition.dirichlet(data.targets, NODES, alpha=0.1)

    def train(algorithm: Algorithm, problem: Problem, network) -> dict[str, float]:
        wanted = {
            name: metrics.CLASSIFICATION[name] for name in ("loss", "accuracy", "node_loss_mean", "node_accuracy_min")
        }
        return run(algorithm, problem, network, rounds=rounds, lr=schedule, every=rounds, metrics=wanted).rows[-1]

    central = train(SGD(), problem(lambda data: partition.equal(data, 1)), [[1.0]])
    dsgt, dpsgd = (train(method, problem(skewed), W) for method in (DSGT(), DPSGD()))
    assert central["accuracy"] > 0.94
    assert dsgt["accuracy"] >= central["accuracy"] - ONE_POINT
    assert dsgt["loss"] < 1.3 * central["loss"]
    assert dpsgd["node_loss_mean"] > 1.5 * dsgt["node_loss_mean"]
    assert dpsgd["node_accuracy_min"] < dsgt["node_accuracy_min"] - ONE_POINT, (dsgt, dpsgd)
