"""Three lines for everybody: a model, data, and how they are spread; the trained model comes back."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dsgt import metrics
from dsgt.algorithms.named import label, own_method
from dsgt.algorithms.named import method as named_method
from dsgt.core import Algorithm, Weights
from dsgt.data.augment import named_augmentation
from dsgt.data.names import named_partition
from dsgt.data.samples import DataLike, Samples, as_samples
from dsgt.data.sampling import WithReplacement
from dsgt.data.shards import Shards
from dsgt.extras import explained
from dsgt.factories import Factory, a_thing
from dsgt.flat import views
from dsgt.late import nx
from dsgt.notebook import progress
from dsgt.oracles import Momentum
from dsgt.problems.model import Model
from dsgt.problems.named import BUILT_IN, built_in, named_model, squared_error
from dsgt.problems.per_node import Loss
from dsgt.problems.training import Augment
from dsgt.randomness import all_seeded
from dsgt.run import Schedule, Spent
from dsgt.run import run as run_untold
from dsgt.schedules import named_schedule
from dsgt.statistics import averaged
from dsgt.text import nearest
from dsgt.theory.diverged import run
from dsgt.topologies.changing import as_weights
from dsgt.topologies.matrix import MatrixLike
from dsgt.topologies.needs import complaints
from dsgt.topologies.usable import usable_weights
from dsgt.topologies.weights import WEIGHTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPTIONS = signature(run_untold).parameters.keys() - {"algorithm", "problem", "network", "rounds", "lr", "seed"}
"""Arguments of ``run`` that ``fit`` passes on."""
GIVEN = "given"
"""What a matrix of weights is called."""
EACH = 32
"""Samples of a node in a round, by default and on average."""


@dataclass(frozen=True)
class Fitted:
    """What ``fit`` gives. In a notebook it shows its curves."""

    model: nn.Module
    """The mean over the nodes, in evaluation mode; the module that was given is not changed."""
    rows: list[dict[str, float]]
    """What was measured, once an epoch."""
    x: Tensor
    """Every node's model, (n, m)."""
    about: str
    spent: Spent
    """What time training and measuring took."""

    def __repr__(self) -> str:
        return f"{self.about}: {_said(self.rows[-1])}"

    def plot(self) -> Figure:
        """The loss, the disagreement of the nodes and, where there are labelled test samples, the accuracy."""
        with explained():
            import matplotlib as mpl

            from dsgt.paper_figure import AGREE, COLOURS, LABELS, STYLE, panels, scale

        shown = [key for key in ("loss", "consensus", "accuracy") if key in self.rows[0]]
        with mpl.rc_context(STYLE):
            drawn, axes = panels(len(shown))
            drawn.suptitle(self.about)
            for panel, key in zip(axes, shown, strict=True):
                log = key != "accuracy"
                points = [(row["epochs"], row[key]) for row in self.rows if row[key] > AGREE or not log]
                panel.plot([x for x, _ in points], [y for _, y in points], color=COLOURS[0])
                panel.set(xlabel="epochs", ylabel=LABELS.get(key, "test accuracy"))
                scale(panel, log)
                panel.grid(alpha=0.3)
        return drawn

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.plot().savefig(picture, format="png")
        return picture.getvalue()


def fit(
    model: str | nn.Module | Callable[[], nn.Module],
    train: DataLike,
    test: DataLike | None = None,
    *,
    method: str | Algorithm[Any] = "dsgt",
    nodes: int = 16,
    partition: str | Shards | Callable[..., Any] = "equal",
    graph: str | nx.Graph[int] | Callable[..., Any] = "ring",
    weights: str | MatrixLike | Weights = "metropolis",
    epochs: float = 10,
    batch: int | None = None,
    lr: Schedule = 0.1,
    schedule: str | Callable[[float], float] = "constant",
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    augment: str | Augment | None = None,
    loss: Loss | None = None,
    statistics: str = "own",
    dtype: torch.dtype | str | None = None,
    eval_samples: int | None = None,
    node_accuracy: bool = True,
    seed: int = 0,
    **options: Any,
) -> Fitted:
    """Train a module on data that are spread over simulated nodes, with one method, and give the mean model.

    ``model`` is a module, a function that makes one, or a name: lenet, mlp, resnet20, transformer, with arguments
    as in ``resnet20:norm=batch``, or ``module:name``. ``weights`` is a rule's name or the matrix itself.
    ``partition`` says who holds what (equal, dirichlet:ALPHA, labels:COUNT, groups), ``batch`` how many samples all
    nodes look at in a round (by default 32 a node). The loss is the cross entropy for classes, the squared error
    for real targets, or a function of outputs and targets that gives the mean over a batch.

    ``schedule`` changes the learning rate: cosine, linear or step, as in ``cosine:warmup=0.05``. Your own partition is
    ``Shards``, or a function of targets, nodes and seed that gives the numbers of every node's samples; your own
    graph one of networkx, or a function of nodes that gives one; your own schedule a function of the share of the
    run, which gives the factor of lr; each also as ``module:name``. With ``momentum``
    beta the method is given m' = beta m + (1 - beta) g in the place of gradients g; ``weight_decay`` is the lambda
    of a penalty (lambda/2) |x|^2, which the loss shown includes; ``augment`` is flip, crop, crop-flip or a function
    of a batch and a generator; ``statistics`` says with whose BatchNorm statistics a node's model is measured, its
    "own" or the "averaged" ones. Numbers are of the ``dtype``, that of the module's parameters by default, whatever
    the data are. ``eval_samples`` measures on so many samples only, ``node_accuracy=False`` the mean model only.
    ``options`` are those of ``dsgt.run``: ``checkpoint_dir``, ``watch`` and others. A notebook shows how far it is.
    """
    if unknown := [name for name in options if name not in OPTIONS]:
        raise TypeError(
            nearest(unknown[0], sorted({*signature(fit).parameters, *OPTIONS} - {"options"}), "argument of dsgt.fit")
        )
    if batch is not None and batch < 1:
        raise ValueError(f"batch is {batch}; give how many samples all nodes look at in a round, at least 1")
    if not isinstance(seed, Integral) or seed < 0:
        raise ValueError(f"seed is {seed!r}; seeds are whole numbers from 0 on")
    if not callable(lr) and not (isinstance(lr, Real) and lr > 0):
        raise ValueError(f"lr is {lr!r}; give a learning rate above 0, or a function of the round")
    seed = int(seed)  # NumPy's numbers count too, but hash otherwise
    if not epochs > 0:
        raise ValueError(f"epochs is {epochs}; give how often all samples are looked at, above 0")
    if callable(lr) and schedule != "constant":
        raise ValueError(f"lr is a function of the round and schedule {schedule!r}; give one of them")
    scheduled = named_schedule(_named_or_own("schedule", schedule))
    algorithm = named_method(method) if isinstance(method, str) else own_method(_as_factory("method", method))
    if momentum:
        algorithm = algorithm.asking(Momentum(momentum))
    W, rule = _weights(algorithm, _named_or_own("graph", graph), nodes, weights)
    data = as_samples(train)
    shards = named_partition(_named_or_own("partition", partition), data, nodes, seed=seed)
    module = _named(model, data, seed) if isinstance(model, str) else _module(model, seed)
    dtype = _dtype(dtype) or next((p.dtype for p in module.parameters()), torch.float32)
    module = copy.deepcopy(module).to(dtype)
    problem = Model(
        module,
        data.to(dtype=dtype),
        shards,
        WithReplacement(batch=batch or max(nodes, min(len(data), EACH * nodes))),
        loss=loss or (nn.functional.cross_entropy if data.labelled else squared_error),
        test=None if test is None else as_samples(test).to(dtype=dtype),
        l2=weight_decay,
        augment=named_augmentation(augment) if isinstance(augment, str) else augment,
        statistics=statistics,
        strategy="loop",  # named: a strategy found by measuring may differ in the last bits tomorrow
    )
    if eval_samples is not None:
        problem = problem.measured_on(eval_samples)
    rounds = max(1, round(epochs / problem.epochs_per_round))
    given: dict[str, Any] = {
        "every": max(1, round(1 / problem.epochs_per_round)),
        "metrics": _measured(problem, nodes=node_accuracy),
    } | options
    if (board := progress()) is not None:
        given.setdefault("watch", lambda row: board.show(row["round"], rounds, _said(row)))
    found = run(
        algorithm, problem, W, rounds=rounds, lr=lr if callable(lr) else scheduled(lr, rounds), seed=seed, **given
    )
    spread, network = (g if isinstance(g, str) else getattr(g, "__name__", GIVEN) for g in (partition, graph))
    about = f"{label(algorithm)}, {nodes} nodes, {spread}{f', {network} graph' * (rule != GIVEN)}, {rule} weights"
    trained = _at(module, found.x.mean(dim=0), averaged(found.kept) if found.kept else {})
    return Fitted(trained, found.rows, found.x, about, found.spent)


def _as_factory(what: str, given: Any) -> Factory:
    """An object; what goes wrong in it is told as with ``module:name``."""
    return Factory(getattr(given, "__name__", GIVEN), what, given, {})


def _named_or_own(what: str, given: Any) -> str | Factory:
    return given if isinstance(given, str) else _as_factory(what, given)


def _said(row: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in row.items())


def _weights(
    algorithm: Algorithm[Any], graph: str | Factory, nodes: int, weights: str | MatrixLike | Weights
) -> tuple[Weights, str]:
    """And what they are called."""
    name = label(algorithm)
    if isinstance(weights, str):
        if weights not in WEIGHTS:
            raise ValueError(nearest(weights, WEIGHTS, "rule of weights"))
        return usable_weights(name, algorithm.needs, graph, nodes, weights)
    W = as_weights(weights, all_reduce=algorithm.needs.average)
    if W.nodes != nodes:
        raise ValueError(f"the weights have {W.nodes} nodes, but nodes is {nodes}")
    if why := complaints(algorithm.needs, W):
        raise ValueError(f"{name} {why[0]}")
    return W, GIVEN


def _module(model: nn.Module | Callable[[], nn.Module], seed: int) -> nn.Module:
    if isinstance(model, nn.Module):
        return model
    if not callable(model):
        raise TypeError(f"model is {a_thing(model)}; expected an nn.Module, or a function that gives one")
    with all_seeded(seed):  # initial weights, without touching the global streams
        made: nn.Module = _as_factory("model", model).make(nn.Module, seed=seed)
    return made


def _dtype(given: torch.dtype | str | None) -> torch.dtype | None:
    found = getattr(torch, given, None) if isinstance(given, str) else given
    if given is not None and not (isinstance(found, torch.dtype) and found.is_floating_point):
        raise ValueError(f"dtype is {given!r}; give one of real numbers, as float32 or torch.float64")
    return found


def _named(model: str, data: Samples, seed: int) -> nn.Module:
    kind = named_model(model)
    if isinstance(kind, Factory):
        with all_seeded(seed):
            made: nn.Module = kind.make(nn.Module, seed=seed)
        return made
    if kind == "logistic":
        raise ValueError(f"model is {model!r}; expected one of {', '.join(BUILT_IN)}, or a module")
    return built_in(kind, tuple(data.features.shape[1:]), data.classes, seed)


def _measured(problem: Model, *, nodes: bool) -> dict[str, metrics.Metric]:
    found: dict[str, metrics.Metric] = {"epochs": metrics.epochs, "loss": metrics.loss, "consensus": metrics.consensus}
    if problem.test is not None and problem.test.labelled:
        found |= {"accuracy": metrics.accuracy} | ({"node_accuracy_min": metrics.node_accuracy_min} if nodes else {})
    return found | {"megabytes": metrics.megabytes}


@torch.no_grad()
def _at(module: nn.Module, x: Tensor, statistics: Mapping[str, Tensor]) -> nn.Module:
    trained = copy.deepcopy(module).eval()
    for name, buffer in trained.named_buffers():
        if name in statistics:
            buffer.copy_(statistics[name])
    parameters = [p for p in trained.parameters() if p.requires_grad]
    for p, value in zip(parameters, views(x, parameters), strict=True):
        p.copy_(value)
    return trained
