"""The flags that describe an experiment, one for each of its settings; ``compare`` and ``train`` share them.

A flag that is not given is None: the file of settings decides, or else the default of ``Settings``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from dsgt import topologies
from dsgt.algorithms import ALGORITHMS, COMPOSITIONS
from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from dsgt.asynchronous.named import EVERY
from dsgt.commands.completion import starting
from dsgt.comparison import Settings, read_settings
from dsgt.data.augment import AUGMENTATIONS
from dsgt.data.names import DATA, PUBLISHED
from dsgt.oracles import ORACLES
from dsgt.problems.model import STATISTICS
from dsgt.problems.named import MODELS
from dsgt.schedules import SCHEDULES
from dsgt.topologies.names import CYCLES

NETWORKS = (*topologies.GRAPHS, *CYCLES)
EXPERIMENT, TUNING, CLOCK, OUTPUT = "The experiment", "Learning rates and seeds", "The virtual clock", "What is written"


def _option(key: str, text: str, panel: str, known: Iterable[str] = ()) -> Any:
    return typer.Option(
        help=f"{text} {_default(key)}",
        rich_help_panel=panel,
        autocompletion=starting(known) if known else None,
        show_default=False,
    )


def _default(key: str) -> str:
    default = Settings.model_fields[key].default
    if default is None:
        return ""
    values = default if isinstance(default, tuple) else (default,)
    return f"Default: {' '.join(f'{v:g}' if isinstance(v, float) else str(v) for v in values)}."


NAMES = (
    f"{', '.join([*ALGORITHMS, *COMPOSITIONS])}; asynchronous: {', '.join(ASYNCHRONOUS)}; with parameters as in "
    f"NAME:KEY=VALUE, and with an oracle ({', '.join(ORACLES)}) as in dsgt+svrg:every=50"
)
"""What a person may write for a method of this package."""
Methods = Annotated[
    list[str] | None,
    typer.Argument(
        help=f"Which methods: {NAMES}; or your own, MODULE:NAME. {_default('methods')}",
        autocompletion=starting(EVERY),
        show_default=False,
    ),
]
Data = Annotated[
    str | None,
    _option(
        "data",
        f"digits (embedded), {', '.join(PUBLISHED)}; a folder of images, a table (.csv, .parquet) as "
        "FILE:target=COLUMN, tensors (.npz, .pt); or your own, MODULE:NAME, a function that gives (train, test).",
        EXPERIMENT,
        DATA,
    ),
]
Model = Annotated[
    str | None,
    _option(
        "model",
        f"{', '.join(MODELS)}, with arguments as in resnet20:norm=batch; or your own, MODULE:NAME, which gives an "
        "nn.Module; arguments as MODULE:NAME:KEY=VALUE.",
        EXPERIMENT,
        MODELS,
    ),
]
Augment = Annotated[
    str | None,
    _option(
        "augment",
        f"How training images are changed: {', '.join(AUGMENTATIONS)}; or your own, MODULE:NAME, a function of a batch "
        "and a generator.",
        EXPERIMENT,
        AUGMENTATIONS,
    ),
]
Statistics = Annotated[
    str | None,
    _option(
        "statistics",
        "With whose BatchNorm statistics a node's model is measured: own or averaged.",
        EXPERIMENT,
        STATISTICS,
    ),
]
Dtype = Annotated[str | None, _option("dtype", "Of samples, models and messages: float32 or float64.", EXPERIMENT)]
WeightDecay = Annotated[
    float | None, _option("weight_decay", "L of the penalty (L/2) |x|^2, which the loss shown includes.", EXPERIMENT)
]
Momentum = Annotated[
    float | None,
    _option("momentum", "B of m' = B m + (1 - B) g, which every method gets in the place of gradients g.", EXPERIMENT),
]
Schedule = Annotated[
    str | None,
    _option(
        "schedule",
        f"Of the learning rate: {', '.join(SCHEDULES)}, as in cosine:warmup=0.05 (a share of the run) or "
        "step:at=0.5/0.75,by=0.1; or your own, MODULE:NAME, a function of the share of the run that is done.",
        EXPERIMENT,
        SCHEDULES,
    ),
]
Nodes = Annotated[int | None, _option("nodes", "How many nodes.", EXPERIMENT)]
Partition = Annotated[
    str | None,
    _option(
        "partition",
        "Who holds what: equal, dirichlet:ALPHA (label skew; 0.1 is strong), labels:COUNT, or groups (FEMNIST: whole "
        "writers; tables: FILE:groups=COLUMN); or your own, MODULE:NAME, a function of targets, nodes and seed.",
        EXPERIMENT,
    ),
]
Graph = Annotated[
    str | None,
    _option(
        "graph",
        f"A network file, or one of: {', '.join(NETWORKS)}; or your own, MODULE:NAME, a function of nodes.",
        EXPERIMENT,
        NETWORKS,
    ),
]
Weights = Annotated[
    str | None,
    _option(
        "weights",
        f"One of: {', '.join(topologies.WEIGHTS)}. A method that may not use them gets the nearest that it may.",
        EXPERIMENT,
        topologies.WEIGHTS,
    ),
]
Epochs = Annotated[float | None, _option("epochs", "How often all samples are looked at.", EXPERIMENT)]
Budget = Annotated[
    str | None,
    _option(
        "budget",
        "How much a run may use, in place of --epochs: 500rounds, 1e6gradients, 200MB (sent by all nodes together), "
        "90s (of the virtual clock).",
        EXPERIMENT,
    ),
]
Seconds = Annotated[
    float | None, typer.Option(help="Virtual seconds a run may take, as --budget 90s says.", rich_help_panel=EXPERIMENT)
]
Axis = Annotated[
    str | None,
    typer.Option(
        help="What curves show: round, epochs, megabytes or virtual-seconds. Default: what the budget counts.",
        rich_help_panel=OUTPUT,
    ),
]
Batch = Annotated[int | None, _option("batch", "Samples a round, all nodes together.", EXPERIMENT)]
DataDir = Annotated[Path | None, _option("data_dir", "Where the files of data sets are; or set DSGT_DATA.", EXPERIMENT)]
LearningRates = Annotated[
    list[float] | None,
    _option("lrs", "A learning rate to start with; may be repeated. A single one is used as it is.", TUNING),
]
Grow = Annotated[
    int | None,
    _option("grow", "Learning rates that a grid may grow by while its best is at an end of it; 0: never.", TUNING),
]
TuningSeeds = Annotated[
    int | None, _option("tuning_seeds", "Repetitions by which learning rates are chosen, not reported.", TUNING)
]
Validation = Annotated[
    float | None,
    _option(
        "validation", "Share of the samples held out of those runs, by whose loss learning rates are chosen.", TUNING
    ),
]
Seeds = Annotated[int | None, _option("seeds", "Reported repetitions, with other shards and batches.", TUNING)]
Evaluations = Annotated[int | None, _option("evaluations", "How often a run is measured.", TUNING)]
Tests = Annotated[int | None, _option("tests", "How often of these on the test samples too.", TUNING)]
EvalSamples = Annotated[
    int | None,
    _option("eval_samples", "Measure on so many training and test samples, drawn once; else on all.", TUNING),
]
NodeAccuracy = Annotated[
    bool | None, _option("node_accuracy", "Measure the test accuracy of every node's own model too.", TUNING)
]
Target = Annotated[
    float | None,
    _option("target", "A training loss: how long does each method take to it? Default: one that all reach.", TUNING),
]
Compute = Annotated[float | None, _option("compute", "Seconds a node needs for one sample's gradient.", CLOCK)]
Latency = Annotated[float | None, _option("latency", "Seconds a message travels.", CLOCK)]
Stragglers = Annotated[
    str | None,
    _option(
        "stragglers",
        "How much the times of gradients differ: lognormal:SPREAD, exponential, slow:NODE:FACTOR or trace:FILE.csv, or "
        "several joined by +.",
        CLOCK,
    ),
]
Bandwidth = Annotated[float | None, _option("bandwidth", "Bytes a second over one link.", CLOCK)]
Sweep = Annotated[
    list[str] | None,
    typer.Option(
        help="Compare at several values of a setting, as in nodes=4,8,16; may be repeated: then at every combination.",
        rich_help_panel=EXPERIMENT,
    ),
]
FigureWidth = Annotated[
    str | None,
    typer.Option(
        help="Of the figures, as wide as a column of your paper: 3.5in, 8.9cm, 252pt. Default: 7.2in.",
        rich_help_panel=OUTPUT,
    ),
]
INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
Config = Annotated[
    Path | None, typer.Option(help="A TOML file with any of these settings; flags win.", rich_help_panel=OUTPUT)
]


def swept(given: Iterable[str]) -> dict[str, list[str]]:
    """``nodes=4,8`` is a setting and its values."""
    found: dict[str, list[str]] = {}
    for text in given:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise ValueError(f"--sweep is {text!r}; give a setting and its values, as in nodes=4,8,16")
        if key in found:
            raise ValueError(f"--sweep {key} is given twice; give all its values at once, as in nodes=4,8,16")
        found[key.replace("-", "_")] = values.split(",")
    return found


def settled(config: Path | None, flags: dict[str, Any]) -> dict[str, Any]:
    """What a file of settings and the flags say together: flags win, and epochs and a budget stand for each other."""
    told = read_settings(config) if config else {}
    for key, other in (("budget", "epochs"), ("epochs", "budget")):
        if key in flags:
            told.pop(other, None)
    return told | flags


def inches(text: str | None) -> float | None:
    """``3.5in``, ``8.9cm``, ``89mm`` or ``252pt``."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(in|cm|mm|pt)\s*", text)
    wide = float(found[1]) * INCHES[found[2]] if found else math.nan
    if not 1 <= wide <= 40:
        raise ValueError(f"the width of a figure is {text!r}; give 1 to 40 inches, as in 3.5in, 8.9cm, 89mm or 252pt")
    return wide
