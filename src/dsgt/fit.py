"""Three lines for everybody: a model, data, and how they are spread; the trained model comes back."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dsgt import metrics
from dsgt.algorithms.named import label
from dsgt.algorithms.named import method as named_method
from dsgt.core import Algorithm
from dsgt.data.names import named_partition
from dsgt.data.samples import DataLike, as_samples
from dsgt.data.sampling import WithReplacement
from dsgt.extras import explained
from dsgt.flat import views
from dsgt.problems.model import Model
from dsgt.problems.named import squared_error
from dsgt.problems.per_node import Loss
from dsgt.run import Schedule
from dsgt.text import nearest
from dsgt.theory.diverged import run
from dsgt.topologies.usable import usable_weights
from dsgt.topologies.weights import WEIGHTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EACH = 32
"""Samples of a node in a round, by default and on average."""


@dataclass(frozen=True)
class Fitted:
    """What ``fit`` gives. In a notebook it shows its curves."""

    model: nn.Module
    """The mean over the nodes; the module that was given is not changed."""
    rows: list[dict[str, float]]
    """What was measured, once an epoch."""
    x: Tensor
    """Every node's model, (n, m)."""
    about: str

    def __repr__(self) -> str:
        last = ", ".join(f"{name} {value:.4g}" for name, value in self.rows[-1].items())
        return f"{self.about}: {last}"

    def plot(self) -> Figure:
        """The loss, the disagreement of the nodes and, where there are labelled test samples, the accuracy."""
        with explained():
            from matplotlib.figure import Figure

        shown = [key for key in ("loss", "consensus", "accuracy") if key in self.rows[0]]
        drawn = Figure(figsize=(3.7 * len(shown), 3), layout="constrained")
        drawn.suptitle(self.about)
        for axes, key in zip(drawn.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
            points = [(row["epochs"], row[key]) for row in self.rows if key == "accuracy" or row[key] > 0]
            axes.plot([x for x, _ in points], [y for _, y in points])
            axes.set(xlabel="epochs", ylabel=key, yscale="linear" if key == "accuracy" else "log")
        return drawn

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.plot().savefig(picture, format="png")
        return picture.getvalue()


def fit(
    model: nn.Module | Callable[[], nn.Module],
    train: DataLike,
    test: DataLike | None = None,
    *,
    method: str | Algorithm[Any] = "dsgt",
    nodes: int = 16,
    partition: str = "equal",
    graph: str = "ring",
    weights: str = "metropolis",
    epochs: float = 10,
    batch: int | None = None,
    lr: Schedule = 0.1,
    loss: Loss | None = None,
    l2: float = 0.0,
    seed: int = 0,
    **options: Any,
) -> Fitted:
    """Train a module on data that are spread over simulated nodes, with one method, and give the mean model.

    ``partition`` says who holds what (equal, dirichlet:ALPHA, labels:COUNT), ``batch`` how many samples all nodes look
    at in a round (by default 32 a node). The loss is the cross entropy for classes, the squared error for real targets.
    ``options`` are those of ``dsgt.run``: ``checkpoint_dir``, ``watch`` and others.
    """
    if weights not in WEIGHTS:
        raise ValueError(nearest(weights, WEIGHTS, "rule of weights"))
    if not epochs > 0:
        raise ValueError(f"epochs is {epochs}; give how often all samples are looked at, above 0")
    algorithm = named_method(method) if isinstance(method, str) else method
    W, rule = usable_weights(label(algorithm), algorithm.needs, graph, nodes, weights)
    data = as_samples(train)
    shards = named_partition(partition, data, nodes, seed=seed)
    module = _module(model, seed)
    problem = Model(
        module,
        data,
        shards,
        WithReplacement(batch=batch or max(nodes, min(len(data), EACH * nodes))),
        loss=loss or (nn.functional.cross_entropy if data.labelled else squared_error),
        test=test,
        l2=l2,
        strategy="loop",  # named: a strategy found by measuring may differ in the last bits tomorrow
    )
    rounds = max(1, round(epochs / problem.epochs_per_round))
    given: dict[str, Any] = {
        "every": max(1, round(1 / problem.epochs_per_round)),
        "metrics": _measured(problem),
    } | options
    found = run(algorithm, problem, W, rounds=rounds, lr=lr, seed=seed, **given)
    about = f"{label(algorithm)}, {nodes} nodes, {partition}, {graph} graph, {rule} weights"
    return Fitted(_at(module, found.x.mean(dim=0)), found.rows, found.x, about)


def _module(model: nn.Module | Callable[[], nn.Module], seed: int) -> nn.Module:
    if isinstance(model, nn.Module):
        return model
    if not callable(model):
        raise TypeError(f"model is a {type(model).__name__}; expected an nn.Module, or a function that gives one")
    with torch.random.fork_rng(devices=[]):  # initial weights by seed, without touching the global stream
        torch.manual_seed(seed)
        made = model()
    if not isinstance(made, nn.Module):
        raise TypeError(f"model gives a {type(made).__name__}; expected an nn.Module")
    return made


def _measured(problem: Model) -> dict[str, metrics.Metric]:
    found: dict[str, metrics.Metric] = {"epochs": metrics.epochs, "loss": metrics.loss, "consensus": metrics.consensus}
    if problem.test is not None and problem.test.labelled:
        found |= {"accuracy": metrics.accuracy, "node_accuracy_min": metrics.node_accuracy_min}
    return found | {"megabytes": metrics.megabytes}


@torch.no_grad()
def _at(module: nn.Module, x: Tensor) -> nn.Module:
    trained = copy.deepcopy(module)
    parameters = [p for p in trained.parameters() if p.requires_grad]
    for p, value in zip(parameters, views(x, parameters), strict=True):
        p.copy_(value)
    return trained
