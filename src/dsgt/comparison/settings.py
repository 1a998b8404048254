"""Everything that determines a comparison, checked when it is made."""

from __future__ import annotations

import json
import shlex
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from dsgt import topologies
from dsgt.algorithms.named import label, method
from dsgt.core import Matrix
from dsgt.extras import explained
from dsgt.networks.clocked import Clocked
from dsgt.problems.erm import EmpiricalRisk
from dsgt.problems.named import named_problem
from dsgt.text import nearest
from dsgt.topologies.needs import complaints

with explained():
    from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

PAPER_GRID = (0.001, 0.005, 0.01, 0.03, 0.05, 0.1, 0.2)
"""The learning rates of the paper's section 6, in this package's units."""

SIZE_LIMIT = 1 << 20
"""Bytes that a reader of settings is willing to read."""

NODES_LIMIT = 50_000
"""CIFAR-10 has as many training samples."""
SEEDS_LIMIT = 10_000
BATCH_LIMIT = 10_000_000

DataName = Literal["digits", "cifar10"]
ModelName = Literal["logistic", "lenet"]


def _method(text: str) -> str:
    """What is given by default is left out, so that one method has one name."""
    return label(method(text))


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _rule(name: str) -> str:
    if name not in topologies.WEIGHTS:
        raise ValueError(nearest(name, topologies.WEIGHTS, "rule of weights"))
    return name


def _at_most(limit: int, reason: str) -> AfterValidator:
    """Before any memory is asked for."""

    def check(value: int, info: ValidationInfo) -> int:
        if value > limit:
            raise ValueError(f"{info.field_name} is {value}, but at most {limit} are possible: {reason}")
        return value

    return AfterValidator(check)


Above0 = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class Settings(BaseModel):
    """Everything that determines a comparison."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    methods: Annotated[tuple[Annotated[str, AfterValidator(_method)], ...], AfterValidator(_once)] = Field(
        ("dsgt", "dpsgd", "d2", "sgd"), min_length=1
    )
    """By name, or by name and parameters: decentlam:beta=0.5. One that is given twice runs once."""
    data: DataName = "digits"
    model: ModelName = "logistic"
    nodes: Annotated[Count, _at_most(NODES_LIMIT, "every node needs a sample, and no data set has more")] = 12
    partition: str = "dirichlet:0.3"
    """Who holds what: equal, dirichlet:ALPHA or labels:COUNT."""
    graph: str = "random"
    """The name of a graph, or a network file."""
    weights: Annotated[str, AfterValidator(_rule)] = "fdla"
    epochs: Above0 = 20.0
    batch: Annotated[Count, _at_most(BATCH_LIMIT, "the samples of a round are drawn at once")] = 128
    """M, the samples a round of all nodes together."""
    lrs: tuple[Above0, ...] = Field(PAPER_GRID, min_length=1)
    seeds: Annotated[Count, _at_most(SEEDS_LIMIT, "each is a run of every method at every learning rate")] = 3
    """Repetitions, each with other shards and batches."""
    evaluations: Count = 40
    """How often a run is measured."""
    target: Above0 | None = None
    """A training loss: how long does each method take to it? By default the lowest that every method's runs reach."""
    compute: float = Field(1e-4, ge=0, allow_inf_nan=False)
    """Virtual seconds that a node needs for the gradient of one sample."""
    latency: float = Field(1e-3, ge=0, allow_inf_nan=False)
    """Virtual seconds that a message travels."""
    bandwidth: Above0 = 125e6
    """Bytes a virtual second over one link; 125e6 is a gigabit."""
    data_dir: Path | None = None
    """Where CIFAR-10 is; else the environment variable DSGT_DATA says. It does not change the result."""

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Settings from what a person wrote; a ValueError in plain words, all mistakes at once."""
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            # a tuple whose items are all wrong also counts as too short, which nobody needs to hear
            wrong = [e for e in error.errors() if not (e["type"] == "too_short" and e["input"])]
            raise ValueError("; ".join(map(_in_words, wrong))) from None

    def problem(self, seed: int) -> EmpiricalRisk:
        """The data, the shards drawn with this seed, the model."""
        return named_problem(
            self.data,
            self.model,
            nodes=self.nodes,
            partition=self.partition,
            batch=self.batch,
            seed=seed,
            root=self.data_dir,
        )

    def rounds(self, problem: EmpiricalRisk) -> int:
        return max(1, round(self.epochs / problem.epochs_per_round))

    def weights_for(self, method: str) -> tuple[Matrix, str]:
        """The weights of the file or the rule, or the nearest that the method may use, and what they are."""
        return _weights_for(method, self.graph, self.nodes, self.weights)

    def network(self, method: str, problem: EmpiricalRisk) -> Clocked:
        """The method's weights, and the virtual clock: a node computes for its own part of the batch."""
        W, _ = self.weights_for(method)
        seconds = [self.compute * b for b in problem.batch.tolist()]
        return Clocked(W, compute=seconds, latency=self.latency, bandwidth=self.bandwidth)

    def changed(self) -> dict[str, Any]:
        """What is not by default, as JSON would say it."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def command(self) -> str:
        """The command line that does this again."""
        words = ["dsgt", "compare", *self.methods]
        for key, value in self.changed().items():
            if key == "lrs":
                words += [word for lr in value for word in ("--lr", f"{lr:g}" if float(f"{lr:g}") == lr else repr(lr))]
            elif key != "methods":
                words += [f"--{key.replace('_', '-')}", str(value)]
        return shlex.join(words)

    def toml(self) -> str:
        """A file that ``dsgt compare --config`` reads."""
        given = self.model_dump(mode="json", exclude_none=True)
        return "".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items())


def read_settings(path: Path) -> dict[str, Any]:
    """The table of a TOML file, not yet checked."""
    if path.stat().st_size > SIZE_LIMIT:
        raise ValueError(f"{path} is longer than {SIZE_LIMIT} bytes; settings are a few lines")
    try:
        return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None


def _in_words(error: Any) -> str:
    """What pydantic found: what was given, what was expected."""
    key, given = ".".join(str(part) for part in error["loc"]), error["input"]
    if error["type"] == "extra_forbidden":
        return nearest(key, Settings.model_fields, "setting")
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return f"{key} is {given!r}: {error['msg'][0].lower()}{error['msg'][1:]}"


@lru_cache(maxsize=64)
def _weights_for(name: str, graph: str, nodes: int, weights: str) -> tuple[Matrix, str]:
    needs, network = method(name).needs, topologies.named_network(graph, nodes)
    if needs.average:
        return topologies.averaging(nodes), "all"
    if network.W is not None and not complaints(needs, [network.W]):
        return network.W, "file"
    if not needs.rows:
        return topologies.push_weights(network.graph), "push"
    for rule in (weights, "metropolis", "lazy-metropolis"):
        W = topologies.WEIGHTS[rule](network.graph)
        if not (why := complaints(needs, [W])):
            return W, rule
    raise ValueError(f"{name} {why[0]}")
