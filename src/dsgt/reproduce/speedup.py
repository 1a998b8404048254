"""Speedup in time: the virtual clock from 1 to 96 nodes, and whether it predicts real nodes on this machine."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from dsgt.algorithms import DSGT
from dsgt.networks import Clocked
from dsgt.networks.link import Seconds
from dsgt.reproduce import paper, style
from dsgt.reproduce.cases import Row, machine
from dsgt.reproduce.clock import WIRES
from dsgt.reproduce.lab import Experiment, Lab, Plan, Tables, records
from dsgt.reproduce.launch import launch, launchers
from dsgt.reproduce.paper import Task
from dsgt.reproduce.timed_node import MARK, RULE
from dsgt.reproduce.training_run import weights
from dsgt.run import iterate

TIMED = ("number", "model", "together")
TOLERANCE = 0.2
"""How far from the measurement a prediction may be."""


@dataclass(frozen=True)
class Real:
    """DSGT over real processes on this machine: what was timed, and what the virtual clock makes of its parts."""

    launcher: str
    nodes: int
    data: str
    model: str
    batch: int
    rounds: int
    timing: str = "parts by one clock"
    """How the model's parts are timed; part of the key, because another way gives other predictions."""
    where: str = field(default_factory=machine)
    data_dir: Path | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.launcher}, {self.nodes} nodes, {self.model}"

    def __call__(self) -> list[Row]:
        about = {
            "launcher": self.launcher, "nodes": self.nodes, "data": self.data, "model": self.model,
            "batch": self.batch, "rounds": self.rounds, "data_dir": str(self.data_dir or ""),
        }  # fmt: skip
        said = launch(self.launcher, self.nodes, "dsgt.reproduce.timed_node", json.dumps(about))
        timed = json.loads(next(line for line in said.splitlines() if line.startswith(MARK))[len(MARK) :])
        return [row(timed)]


def row(timed: dict[str, Any]) -> Row:
    """The prediction from the parts, beside what was measured: means over the rounds of a turn, because some messages
    take much longer than others; then medians over the turns."""
    turns = []
    for number, model, together in zip(*(np.moveaxis(np.array(timed[name]), 1, 0) for name in TIMED), strict=True):
        computing, latency, further = parts(number, model)
        predicted = predict(len(number), computing, timed["dim"], latency, bandwidth(timed["dim"], further))
        turns.append((computing, latency, further, predicted, together.max()))
    compute, latency, further, predicted, measured = np.median(turns, axis=0).tolist()
    return {
        "dim": timed["dim"], "compute": compute, "latency": latency, "bandwidth": bandwidth(timed["dim"], further),
        "predicted": predicted, "measured": measured, "ratio": predicted / measured,
    }  # fmt: skip


def parts(number: Seconds, model: Seconds) -> tuple[float, float, float]:
    """The mean seconds of computing a round, of a message of one number, and how many more a model takes.

    Given for every node and round when it began, had computed and had mixed, of rounds that mix one number and of
    rounds that mix a model. A part takes from when the last node begins it to when the last has ended it."""
    (c, small), (d, large) = (np.diff(times.max(axis=0), axis=-1).mean(axis=0).tolist() for times in (number, model))
    if len(number) == 1:
        return d + large, 0.0, 0.0  # what a node alone does to mix is computing
    latency = min(small, large)  # where a model's size does not show, chance may have it arrive earlier
    return (c + d) / 2, latency, large - latency


def bandwidth(dim: int, further: float) -> float:
    return 4 * dim / further if further else float("inf")


def predict(nodes: int, computing: float, dim: int, latency: float, bandwidth: float) -> float:
    """The mean round on the virtual clock."""
    network = Clocked(weights(RULE, nodes), compute=computing, latency=latency, bandwidth=bandwidth)
    zero = torch.zeros(nodes, dim)
    states = iterate(DSGT(), lambda x, k: zero, network, torch.zeros(dim), 1.0)
    next(islice(states, 20, None))
    return network.seconds / 20


@dataclass(frozen=True)
class Sizes(Plan):
    models: tuple[str, ...] = ("logistic", "lenet")
    counts: tuple[int, ...] = (1, 2, 4, 6, 12, 18, 24, 48, 96)
    batch: int = 1024
    rounds: int = 60
    real_nodes: tuple[int, ...] = (1, 2)
    real_batches: tuple[int, ...] = (1024, 64)
    """A large batch, where computing dominates, and a small one, where messages count."""
    real_samples: int = 1 << 15
    """What a real run draws at least: with a small batch that is many rounds, and messages of many durations."""


FULL = Sizes(data="cifar10")
QUICK = Sizes(batch=512, rounds=40, real_batches=(512,))


def measure(lab: Lab, plan: Sizes) -> Tables:
    clocks = []
    for model in plan.models:
        task = Task(data=plan.data, model=model, methods=("dsgt", "dpsgd", "d2", "sgd"), batch=plan.batch)
        clocks.append(paper.timed(lab, task, plan.counts))
    real = [
        Real(launcher, n, plan.data, model, batch, rounds, data_dir=lab.data_dir)
        for model in plan.models
        for batch, rounds in [(b, max(plan.rounds, plan.real_samples // b)) for b in plan.real_batches]
        for launcher in launchers()
        for n in plan.real_nodes
    ]
    clock = pd.concat(clocks, ignore_index=True)
    one = clock[clock["nodes"] == 1].rename(columns={"seconds_per_round": "alone"})
    clock = clock.merge(one[["model", "method", "network", "alone"]])
    clock["speedup"] = clock["alone"] / clock["seconds_per_round"]
    return {"clock": clock.drop(columns="alone"), "real": lab.table(real, alone=True).drop(columns="where")}


def figure(tables: Tables, plan: Sizes) -> Figure:
    picture, panels = style.panels(1, len(plan.models) + 1, height=3.2)
    clock = tables["clock"]
    for axes, model, letter in zip(panels, plan.models, "ab", strict=False):
        axes.plot(plan.counts, plan.counts, color="0.6", ls=":", label="ideal")
        for wire, mark in zip(WIRES, style.MARKS, strict=False):
            for method, line in (("dsgt", "-"), ("sgd", "--")):
                some = clock[(clock["model"] == model) & (clock["method"] == method) & (clock["network"] == wire.name)]
                label = f"{style.NAMES[method] if method == 'dsgt' else 'all-reduce SGD'}, {wire.name}"
                axes.plot(some["nodes"], some["speedup"], line, marker=mark, ms=4, color=f"C{WIRES.index(wire)}",
                          label=label, alpha=1.0 if method == "dsgt" else 0.6)  # fmt: skip
        axes.set(xlabel="nodes", ylabel="speedup of a round", xscale="log", yscale="log")
        name = "LeNet" if model == "lenet" else "logistic regression"
        axes.set_title(f"({letter}) {name}, global batch {plan.batch}")
        axes.set_ylim(0.3, 1000)
    panels[0].legend(fontsize=6)
    real, last = tables["real"], panels[-1]
    labels = ["{model} {batch}, {launcher} {nodes}".format(**r) for r in records(real)]
    places = np.arange(len(real))
    last.axvspan(1 - TOLERANCE, 1 + TOLERANCE, color="0.92")
    last.plot(real["ratio"], places, "o", color=style.COLOURS["dsgt"])
    last.axvline(1.0, color="0.3", lw=0.8)
    last.set_yticks(places, labels, fontsize=6)
    last.set(xlabel="predicted / measured seconds of a round", xlim=(0.3, 1.3))
    last.set_title("(c) real: task, batch, launcher, nodes")
    picture.suptitle(f"Speedup in time on {plan.where}")
    return picture


def findings(tables: Tables, plan: Sizes) -> list[str]:
    said = []
    clock = tables["clock"]
    for (model, wire), some in clock[clock["method"] == "dsgt"].groupby(["model", "network"], sort=False):
        values = some.set_index("nodes")["speedup"]
        said.append(f"{model}, {wire}: speedup of a round " + ", ".join(f"n = {n}: {v:.1f}" for n, v in values.items()))
    real = tables["real"]
    said += [
        f"{r['launcher']}, n = {r['nodes']}, {r['model']}, batch {r['batch']}: predicted "
        f"{1e3 * r['predicted']:.2f} ms, measured {1e3 * r['measured']:.2f} ms a round, ratio {r['ratio']:.2f}"
        for r in records(real)
    ]
    good = int(((real["ratio"] - 1).abs() <= TOLERANCE).sum())
    said.append(f"{good} of {len(real)} real runs are predicted within {TOLERANCE:.0%}.")
    return said


EXPERIMENT = Experiment(
    claim="DSGT has a linear speedup in training time when messages are cheap",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
