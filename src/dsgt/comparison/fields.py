"""What a person says of a comparison: its fields, checked one by one, and how they are written down again."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from dsgt import topologies
from dsgt.algorithms.named import is_own
from dsgt.asynchronous.named import label, method
from dsgt.comparison.budget import Budget
from dsgt.comparison.own import Objects, separated
from dsgt.data.augment import named_augmentation
from dsgt.data.names import own_partition
from dsgt.extras import explained
from dsgt.networks.compute_times import named_times
from dsgt.problems.named import data_source, loads_parts, named_model
from dsgt.schedules import named_schedule
from dsgt.text import nearest
from dsgt.topologies.names import own_graph

with explained():
    from pydantic import (
        AfterValidator,
        BaseModel,
        ConfigDict,
        Field,
        PrivateAttr,
        ValidationError,
        ValidationInfo,
        model_validator,
    )

OWN = "own"
"""The partition of data that are loaded node by node."""
PAPER_GRID = (0.001, 0.005, 0.01, 0.03, 0.05, 0.1, 0.2)
"""The learning rates of the paper's section 6, in this package's units."""
GRID = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Where the search for a learning rate starts; it goes on beyond either end where the best is there."""

SIZE_LIMIT = 1 << 20
"""Bytes that a reader of settings is willing to read."""

NODES_LIMIT = 50_000
"""CIFAR-10 has as many training samples."""
SEEDS_LIMIT = 10_000
GROW_LIMIT = 100
BATCH_LIMIT = 10_000_000


def _method(text: str, info: ValidationInfo) -> str:
    """What is given by default is left out, so that one method has one name."""
    if _objects(info).methods.get(text) is not None:
        return text
    made = method(text)
    return text if is_own(text) else label(made)


def _data(text: str, info: ValidationInfo) -> str:
    if _objects(info).data is None and _objects(info).problem is None:
        data_source(text)
    return text


def _model(text: str, info: ValidationInfo) -> str:
    if _objects(info).model is None and _objects(info).problem is None:
        named_model(text)
    return text


def _augment(text: str | None, info: ValidationInfo) -> str | None:
    if _objects(info).augment is None:
        named_augmentation(text)
    return text


def _schedule(text: str, info: ValidationInfo) -> str:
    named_schedule(_objects(info).schedule or text)
    return text


def _partition(text: str, info: ValidationInfo) -> str:
    if _objects(info).partition is None:
        own_partition(text)
    return text


def _graph(text: str, info: ValidationInfo) -> str:
    if _objects(info).graph is None:
        own_graph(text)
    return text


def _objects(info: ValidationInfo) -> Objects:
    """Those that stand for names; they need not be looked for."""
    return info.context if isinstance(info.context, Objects) else Objects()


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _rule(name: str, info: ValidationInfo) -> str:
    if _objects(info).W is None and name not in topologies.WEIGHTS:
        raise ValueError(nearest(name, topologies.WEIGHTS, "rule of weights"))
    return name


def _budget(text: str | None) -> str | None:
    return None if text is None else str(Budget.of(text))


def _stragglers(text: str) -> str:
    if "trace:" not in text:  # which may be for other nodes
        named_times(text, nodes=NODES_LIMIT, mean=1.0, seed=0)
    return text


def _at_most(limit: int, reason: str) -> AfterValidator:
    """Before any memory is asked for."""

    def check(value: int, info: ValidationInfo) -> int:
        if value > limit:
            raise ValueError(f"{info.field_name} is {value}, but at most {limit} are possible: {reason}")
        return value

    return AfterValidator(check)


Above0 = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class Fields(BaseModel):
    """What a person says of a comparison."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    methods: Annotated[tuple[Annotated[str, AfterValidator(_method)], ...], AfterValidator(_once)] = Field(
        ("dsgt", "dpsgd", "d2", "sgd"), min_length=1
    )
    """By name, or by name and parameters: decentlam:beta=0.5; your own by module:name. One given twice runs once."""
    data: Annotated[str, AfterValidator(_data)] = "digits"
    """The name of a data set, a file, or your own: module:name, a function that gives (train, test)."""
    model: Annotated[str, AfterValidator(_model)] = "logistic"
    """The name of a model, or your own: module:name, a function or a class that gives an nn.Module."""
    augment: Annotated[str | None, AfterValidator(_augment)] = None
    """flip, crop, crop-flip, or your own: module:name, a function of a batch's features and a generator."""
    statistics: Literal["own", "averaged"] = "own"
    """With whose running statistics a node's model is measured, where there is BatchNorm."""
    dtype: Literal["float32", "float64"] = "float32"
    """Of samples, models and messages."""
    nodes: Annotated[Count, _at_most(NODES_LIMIT, "every node needs a sample, and no data set has more")] = 12
    partition: Annotated[str, AfterValidator(_partition)] = "dirichlet:0.3"
    """Who holds what: equal, dirichlet:ALPHA, labels:COUNT or groups, or your own: module:name, a function of targets,
    nodes and seed that gives the numbers of every node's samples."""
    graph: Annotated[str, AfterValidator(_graph)] = "random"
    """The name of a graph or of a cycle of weights, a network file, or your own: module:name, a function of nodes and
    seed that gives a networkx graph."""
    weights: Annotated[str, AfterValidator(_rule)] = "metropolis"
    """The same for all methods, but for one that may not use them."""
    epochs: Above0 = 20.0
    budget: Annotated[str | None, AfterValidator(_budget)] = None
    """In place of epochs: 500rounds, 1e6gradients, 200MB sent by all nodes together, or 90s of the virtual clock."""
    batch: Annotated[Count, _at_most(BATCH_LIMIT, "the samples of a round are drawn at once")] = 128
    """M, the samples a round of all nodes together."""
    weight_decay: float = Field(0.0, ge=0, allow_inf_nan=False)
    """lambda of the penalty (lambda/2) |x|^2, which is part of the loss that is minimised and shown."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """beta of m' = beta m + (1 - beta) g, which every node gives its method in the place of its gradient g."""
    schedule: Annotated[str, AfterValidator(_schedule)] = "constant"
    """constant, cosine, linear or step, with arguments as in cosine:warmup=0.05 or step:at=0.5/0.75,by=0.1, or your
    own: module:name, a function of the share of the run that is done, which gives the factor of the learning rate."""
    lrs: tuple[Above0, ...] = Field(GRID, min_length=1)
    """Where the search for each method's learning rate starts; a single one is used as it is."""
    grow: Annotated[int, Field(ge=0), _at_most(GROW_LIMIT, "each is a step beyond the grid")] = 8
    """By how many learning rates the grid of a method may grow while its best is the largest or the smallest."""
    tuning_seeds: Annotated[Count, _at_most(SEEDS_LIMIT, "each is a run of every method at every learning rate")] = 2
    """Repetitions by which learning rates are chosen; other ones than those reported."""
    validation: float = Field(0.0, ge=0, lt=1)
    """The share of every node's samples that those runs do not learn from, and by whose loss learning rates are then
    chosen; by the training loss where it is 0. Reported runs learn from all."""
    seeds: Annotated[Count, _at_most(SEEDS_LIMIT, "each is a run of every method")] = 5
    """Repetitions that are reported, each with other shards and batches."""
    evaluations: Count = 20
    """How often a run is measured."""
    tests: Count = 5
    """How often of these on the test samples too: the accuracies of the mean model and of every node's own."""
    eval_samples: Count | None = None
    """Measure on so many training and so many test samples, drawn once; on all by default."""
    node_accuracy: bool = True
    """Whether the test accuracy of every node's own model is measured too."""
    target: Above0 | None = None
    """A training loss: how long does each method take to it? By default the lowest that every method's runs reach."""
    compute: float = Field(1e-4, ge=0, allow_inf_nan=False)
    """Virtual seconds that a node needs for the gradient of one sample."""
    latency: float = Field(1e-3, ge=0, allow_inf_nan=False)
    """Virtual seconds that a message travels."""
    bandwidth: Above0 = 125e6
    """Bytes a virtual second over one link; 125e6 is a gigabit."""
    stragglers: Annotated[str, AfterValidator(_stragglers)] = "none"
    """How much the times of gradients differ: lognormal:SPREAD, exponential, slow:NODE:FACTOR or trace:FILE.csv, or
    several joined by +."""
    data_dir: Path | None = None
    """Where the files of data sets are; else the environment variable DSGT_DATA says. It does not change the result."""

    _objects: Objects = PrivateAttr(default_factory=Objects)

    @model_validator(mode="before")
    @classmethod
    def _parts(cls, given: Any, info: ValidationInfo) -> Any:
        """Who loads data node by node has shared them out already."""
        if not isinstance(given, dict) or "data" not in given or not isinstance(given["data"], str):
            return given
        objects = _objects(info)
        try:
            parts = objects.problem is None and loads_parts(objects.data or given["data"])
        except ValueError:  # is told with the other mistakes
            return given
        if parts and given.get("partition", OWN) != OWN:
            raise ValueError(
                f"the data {given['data']!r} are loaded node by node, so partition = {given['partition']} has no "
                "meaning; leave it out"
            )
        return given | {"partition": OWN} if parts else given

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if self.budget is not None and "epochs" in self.model_fields_set:
            raise ValueError(f"epochs is {self.epochs:g} and budget {self.budget}; give one of them")
        return self

    @model_validator(mode="after")
    def _something_to_choose(self) -> Self:
        if self.validation and not self.tuned:
            raise ValueError(
                f"validation is {self.validation:g}, but a single learning rate is used as it is; give several, or "
                "leave it out"
            )
        return self

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Settings from what a person wrote; a ValueError in plain words, all mistakes at once.

        Objects may stand for the names of methods, model, data and weights; ``problem``, or a function of a seed that
        gives one, stands for data, model, nodes, partition and batch.
        """
        words, objects = separated(given)
        try:
            made = cls.model_validate(words, context=objects)
            made._objects = objects
            return made
        except ValidationError as error:
            # a tuple whose items are all wrong also counts as too short, which nobody needs to hear
            wrong = [e for e in error.errors() if not (e["type"] == "too_short" and e["input"])]
            raise ValueError("; ".join(map(_in_words, wrong))) from None

    @property
    def repeatable(self) -> bool:
        """Whether a command line, or a file, can say all of it: no object stands for a name."""
        return not self._objects

    @property
    def tuned(self) -> bool:
        """Whether there is a learning rate to be chosen."""
        return len(set(self.lrs)) > 1

    @property
    def reported_seeds(self) -> range:
        return range(self.seeds)

    @property
    def tuning_seeds_used(self) -> range:
        """Numbers that no reported seed can have."""
        return range(SEEDS_LIMIT, SEEDS_LIMIT + self.tuning_seeds) if self.tuned else range(0)

    def changed(self) -> dict[str, Any]:
        """What is not by default, as JSON would say it."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def said(self) -> dict[str, Any]:
        """All that counts, as JSON would say it."""
        return self.model_dump(mode="json", exclude_none=True, exclude={"epochs"} if self.budget else set())

    def command(self) -> str:
        """The command line that does this again; empty where an object stands for a name."""
        if not self.repeatable:
            return ""
        words = ["dsgt", "compare", *self.methods]
        for key, value in self.changed().items():
            if key == "lrs":
                words += [word for lr in value for word in ("--lr", f"{lr:g}" if float(f"{lr:g}") == lr else repr(lr))]
            elif isinstance(value, bool):
                words.append(f"--{'' if value else 'no-'}{key.replace('_', '-')}")
            elif key != "methods":
                words += [f"--{key.replace('_', '-')}", str(value)]
        return shlex.join(words)

    def toml(self) -> str:
        """A file that ``dsgt compare --config`` reads."""
        return "".join(f"{key} = {json.dumps(value)}\n" for key, value in self.said().items())


def read_settings(path: Path) -> dict[str, Any]:
    """The table of a TOML file, not yet checked."""
    if not path.is_file():
        raise ValueError(f"there is no file of settings {path}; give the path of a TOML file")
    if path.stat().st_size > SIZE_LIMIT:
        raise ValueError(f"{path} is longer than {SIZE_LIMIT} bytes; settings are a few lines")
    try:
        return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None


def _in_words(error: Any) -> str:
    """What pydantic found: what was given, what was expected."""
    key, given = ".".join(part for part in error["loc"] if isinstance(part, str)), error["input"]
    if error["type"] == "extra_forbidden":
        return nearest(key, Fields.model_fields, "setting")
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return f"{key} is {given!r}: {error['msg'][0].lower()}{error['msg'][1:]}"
