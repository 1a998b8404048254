"""What stands in settings as an object instead of a name: methods, model, data, shards, a graph, a schedule, a whole
problem, a weight matrix."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import scipy
import torch
from torch import Tensor, nn

from dsgt.algorithms.named import label, own_method
from dsgt.checkpoint import fingerprint
from dsgt.core import Algorithm, Matrix, parameters
from dsgt.factories import Factory
from dsgt.late import nx
from dsgt.problems.base import Problem
from dsgt.randomness import all_seeded
from dsgt.schedules import factors, own_schedule
from dsgt.source import attributes, source
from dsgt.topologies.matrix import as_matrix

GIVEN = "given"
"""How an object without a name is called."""
LOOKED_AT = ("features", "targets", "shards", "test features", "test targets")
SAMPLE = 256
"""Numbers of each that are compared."""
NAMED = ("model", "data", "augment", "partition", "graph", "schedule")
"""Settings that are one name, or an object."""
OF_THE_PROBLEM = ("data", "model", "nodes", "partition", "batch", "augment", "statistics", "weight_decay", "dtype")


@dataclass(eq=False)
class Objects:
    """By the names that the settings call them; empty where all are names."""

    methods: dict[str, Algorithm[Any]] = field(default_factory=dict)
    model: Factory | None = None
    data: Factory | None = None
    augment: Factory | None = None
    problem: Factory | None = None
    partition: Factory | None = None
    graph: Factory | None = None
    schedule: Factory | None = None
    W: Matrix | None = None
    samples: dict[int, Tensor] = field(default_factory=dict)
    """Numbers of the problems that one's own code has made, by seed; a worker process is told them."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Objects) and not self and not other)

    def __bool__(self) -> bool:
        return bool(self.methods) or any(getattr(self, key) is not None for key in (*NAMED, "problem", "W"))


def separated(given: dict[str, Any]) -> tuple[dict[str, Any], Objects]:
    """Settings as words and numbers, and the objects among them; a ValueError says what cannot be used."""
    words, objects = dict(given), Objects()
    if isinstance(words.get("lrs"), Real):
        words["lrs"] = (words["lrs"],)
    methods = words.get("methods")
    if isinstance(methods, str | Algorithm | type):
        methods = [methods]
    if methods is not None:
        words["methods"] = [m if isinstance(m, str) else _method(m, objects) for m in methods]
    for key in NAMED:
        if (thing := words.get(key)) is not None and not isinstance(thing, str):
            nameless = key == "data" or (key in ("partition", "graph") and not callable(thing))
            words[key] = GIVEN if nameless else getattr(thing, "__name__", type(thing).__name__)
            setattr(objects, key, Factory(words[key], key, thing, {}))
    weights = words.get("weights")
    if weights is not None and not isinstance(weights, str):
        objects.W = as_matrix(weights)
        words |= {"weights": GIVEN, "graph": GIVEN}
    if (problem := words.pop("problem", None)) is not None:
        words |= _problem(problem, words, objects)
    if objects.W is not None and words.setdefault("nodes", objects.W.shape[0]) != objects.W.shape[0]:
        raise ValueError(f"the weights have {objects.W.shape[0]} nodes, but nodes is {words['nodes']}")
    return words, objects


def _method(thing: Any, objects: Objects) -> str:
    made = own_method(Factory(getattr(thing, "__name__", repr(thing)), "method", thing, {}))
    name = label(made)
    if name == repr(made):
        fields = {f.name: f.default for f in parameters(made)}
        given = {name: getattr(made, name) for name in fields} | attributes(made)
        changed = [f"{k}={v}" for k, v in given.items() if k not in fields or v != fields[k]]
        name = type(made).__name__ + (f"({', '.join(changed)})" if changed else "")
    if fingerprint.method(objects.methods.setdefault(name, made)) != fingerprint.method(made):
        raise ValueError(f"two different methods are called {name}; give one of the classes another name")
    return name


def _problem(problem: Any, words: dict[str, Any], objects: Objects) -> dict[str, Any]:
    """How the settings describe it."""
    if said := [key for key in OF_THE_PROBLEM if key in words]:
        raise ValueError(f"{' and '.join(said)} cannot be given beside problem, which brings its own; leave them out")
    name = getattr(problem, "__name__", type(problem).__name__)
    objects.problem = Factory(name, "problem", problem, {})
    with all_seeded(0):
        made: Problem = objects.problem.make(Problem, seed=0)
    drawn = round(made.epochs_per_round * made.samples)
    return {"data": GIVEN, "model": name, "partition": GIVEN, "nodes": made.nodes, "batch": max(1, drawn)}


def graph_of(*members: Matrix) -> nx.Graph[int]:
    """Who hears whom in some round: j tells i where W[i, j] is not zero."""
    every = [scipy.sparse.coo_array(W) for W in members]
    told = {(int(j), int(i)) for W in every for i, j, w in zip(*W.coords, W.data, strict=True) if w and i != j}
    graph: nx.Graph[int] = nx.Graph() if told == {(i, j) for j, i in told} else nx.DiGraph()
    graph.add_nodes_from(range(members[0].shape[0]))
    graph.add_edges_from(sorted(told))
    return graph


def schedule_text(given: str | Factory) -> str:
    """A print of a schedule of one's own: its text, and its values, which say what it was made with. Empty for this
    package's."""
    own = own_schedule(given)
    return "" if own is None else hashlib.sha256(f"{source(own.found)} {factors(own)}".encode()).hexdigest()[:16]


def text_of(problem: Problem, seed: int, *made_by: Factory) -> str:
    """A print of all that determines a problem of one's own: the data, the start, and the text it was made from."""
    things = [*problem.made_of(), *(f.found for f in made_by)]
    parts = sorted({source(thing) for thing in things} | {repr(t) for t in things if isinstance(t, nn.Module)})
    parts += [fingerprint.start(problem.start(seed)), repr(problem.layout())]
    for name, value in problem.identity().items():
        parts.append(f"{name} {fingerprint.values(value) if isinstance(value, Tensor) else value}")
    if not problem.identity():
        parts.append(fingerprint.start(problem.gradient(problem.start(seed))))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def sample_of(problem: Problem, seed: int) -> Tensor:
    """Some numbers of the start and of the data, always as many: they come out again where the same code makes the
    problem again."""
    x, identity = problem.start(seed), problem.identity()
    tensors = [x, *(identity.get(name) for name in LOOKED_AT)]
    loss = 0.0 if identity else float(problem.loss(x))
    return torch.cat([torch.tensor([loss], dtype=torch.float64), *map(_some, tensors)])


def alike(a: Tensor, b: Tensor) -> bool:
    """But for rounding, which may differ from machine to machine."""
    return torch.allclose(a, b, rtol=1e-3, atol=1e-6, equal_nan=True)


def _some(values: object) -> Tensor:
    if not isinstance(values, Tensor):
        return torch.zeros(SAMPLE + 1, dtype=torch.float64)
    at = torch.linspace(0, values.numel() - 1, SAMPLE, dtype=torch.float64).long().to(values.device)
    return torch.cat([torch.tensor([values.numel()]), values.detach().flatten()[at].cpu()]).double()
