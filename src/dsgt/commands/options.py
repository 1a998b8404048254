"""The flags that describe an experiment, one for each of its settings; ``compare`` and ``train`` share them.

A flag that is not given is None: the file of settings decides, or else the default of ``Settings``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from dsgt import topologies
from dsgt.algorithms import ALGORITHMS
from dsgt.commands.completion import starting
from dsgt.comparison import Settings

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


Methods = Annotated[
    list[str] | None,
    typer.Argument(
        help=f"Which methods: {', '.join(ALGORITHMS)}; with parameters as in NAME:KEY=VALUE; or your own, MODULE:NAME. "
        f"{_default('methods')}",
        autocompletion=starting(ALGORITHMS),
        show_default=False,
    ),
]
Data = Annotated[
    str | None,
    _option(
        "data",
        "digits (embedded), cifar10; a folder of images, a table (.csv, .parquet) as FILE:target=COLUMN, tensors "
        "(.npz, .pt); or your own, MODULE:NAME, a function that gives (train, test).",
        EXPERIMENT,
        ["digits", "cifar10"],
    ),
]
Model = Annotated[
    str | None,
    _option(
        "model",
        "logistic, lenet, or your own, MODULE:NAME, which gives an nn.Module; arguments as MODULE:NAME:KEY=VALUE.",
        EXPERIMENT,
        ["logistic", "lenet"],
    ),
]
Nodes = Annotated[int | None, _option("nodes", "How many nodes.", EXPERIMENT)]
Partition = Annotated[
    str | None,
    _option(
        "partition", "Who holds what: equal, dirichlet:ALPHA (label skew; 0.1 is strong) or labels:COUNT.", EXPERIMENT
    ),
]
Graph = Annotated[
    str | None,
    _option("graph", f"A network file, or one of: {', '.join(topologies.GRAPHS)}.", EXPERIMENT, topologies.GRAPHS),
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
Batch = Annotated[int | None, _option("batch", "Samples a round, all nodes together.", EXPERIMENT)]
DataDir = Annotated[Path | None, _option("data_dir", "Where CIFAR-10 is; or set DSGT_DATA.", EXPERIMENT)]
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
Seeds = Annotated[int | None, _option("seeds", "Reported repetitions, with other shards and batches.", TUNING)]
Evaluations = Annotated[int | None, _option("evaluations", "How often a run is measured.", TUNING)]
Target = Annotated[
    float | None,
    _option("target", "A training loss: how long does each method take to it? Default: one that all reach.", TUNING),
]
Compute = Annotated[float | None, _option("compute", "Seconds a node needs for one sample's gradient.", CLOCK)]
Latency = Annotated[float | None, _option("latency", "Seconds a message travels.", CLOCK)]
Bandwidth = Annotated[float | None, _option("bandwidth", "Bytes a second over one link.", CLOCK)]
Config = Annotated[
    Path | None, typer.Option(help="A TOML file with any of these settings; flags win.", rich_help_panel=OUTPUT)
]
