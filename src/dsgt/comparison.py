"""Methods side by side on one problem and one network, each at its best learning rate of a grid."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from dsgt import metrics, topologies
from dsgt._version import __version__
from dsgt.algorithms import ALGORITHMS
from dsgt.checkpoint.journal import Journal
from dsgt.core import Matrix
from dsgt.data import WithReplacement, digits, partition
from dsgt.problems import Logistic
from dsgt.run import DivergedError, run
from dsgt.topologies.check import nearest
from dsgt.topologies.needs import complaints

PAPER_GRID = (0.001, 0.005, 0.01, 0.03, 0.05, 0.1, 0.2)
"""The learning rates of the paper's section 6, in this package's units."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """Everything that determines a comparison."""

    methods: tuple[str, ...] = ("dsgt", "dpsgd", "d2", "sgd")
    nodes: int = 12
    partition: str = "dirichlet:0.3"
    graph: str = "random"
    weights: str = "fdla"
    epochs: float = 20.0
    batch: int = 128
    lrs: tuple[float, ...] = PAPER_GRID
    seeds: int = 3

    def __post_init__(self) -> None:
        for name in self.methods:
            if name not in ALGORITHMS:
                raise ValueError(nearest(name, ALGORITHMS, "method"))
        if self.weights not in topologies.WEIGHTS:
            raise ValueError(nearest(self.weights, topologies.WEIGHTS, "rule of weights"))
        if not self.methods or not self.lrs or self.seeds < 1:
            raise ValueError("a comparison needs at least one method, one learning rate and one seed")
        if not all(math.isfinite(lr) and lr > 0 for lr in self.lrs):
            raise ValueError(f"learning rates are finite numbers above 0, but {list(self.lrs)} was given")
        if not (math.isfinite(self.epochs) and self.epochs > 0):
            raise ValueError(f"epochs is {self.epochs}; expected a finite number above 0")

    def problem(self, seed: int) -> Logistic:
        """Logistic regression on the digits, the shards drawn with this seed."""
        train, test = digits()
        kind, _, parameter = self.partition.partition(":")
        if kind == "equal":
            shards = partition.equal(train, self.nodes, seed=seed)
        elif kind == "dirichlet":
            shards = partition.dirichlet(train.targets, self.nodes, alpha=float(parameter or 0.3), seed=seed)
        elif kind == "labels":
            shards = partition.by_label(train.targets, self.nodes, labels_per_node=int(parameter or 2), seed=seed)
        else:
            raise ValueError(f"partition is {self.partition!r}; expected equal, dirichlet:ALPHA or labels:COUNT")
        return Logistic(train, shards, WithReplacement(batch=self.batch), test=test)

    def weights_for(self, method: str) -> tuple[Matrix, str]:
        """The weights of the file or the rule, or the nearest that the method may use, and what they are."""
        needs, network = ALGORITHMS[method].needs, topologies.named_network(self.graph, self.nodes)
        if needs.average:
            return topologies.averaging(self.nodes), "all"
        if network.W is not None and not complaints(needs, [network.W]):
            return network.W, "file"
        if not needs.rows:
            return topologies.push_weights(network.graph), "push"
        for rule in (self.weights, "metropolis", "lazy-metropolis"):
            W = topologies.WEIGHTS[rule](network.graph)
            if not (why := complaints(needs, [W])):
                return W, rule
        raise ValueError(f"{method} {why[0]}")


@dataclass(frozen=True)
class Job:
    """One run: what is needed to do it anywhere."""

    settings: Settings
    method: str
    lr: float
    seed: int

    def __call__(self) -> list[Row]:
        """The metric rows, ending with one whose loss is infinite where the run diverged."""
        torch.set_num_threads(1)
        problem = self.settings.problem(self.seed)
        W, _ = self.settings.weights_for(self.method)
        rounds = max(1, round(self.settings.epochs / problem.epochs_per_round))
        label = {"method": self.method, "lr": self.lr, "seed": self.seed}
        try:
            rows = run(
                ALGORITHMS[self.method](),
                problem,
                W,
                rounds=rounds,
                lr=self.lr,
                every=max(1, rounds // 40),
                metrics=metrics.CLASSIFICATION,
                seed=self.seed,
            ).rows
        except DivergedError as diverged:
            return [label | {"round": diverged.k, "loss": math.inf}]
        return [label | row for row in rows]


def compare(
    settings: Settings,
    *,
    workers: int = 2,
    progress: Callable[[int, int, Job], None] | None = None,
    folder: Path | None = None,
    resume: bool = False,
) -> Comparison:
    """Run every method at every learning rate with every seed: the same budget for all.

    A method's learning rate is the one with the lowest final training loss of the mean model, averaged over the
    seeds. ``progress`` is told how many runs of how many are done, and which was the last.
    With a ``folder`` every finished run is noted there at once, and ``resume=True`` does not do those again.
    """
    for method in settings.methods:
        settings.weights_for(method)
    settings.problem(0)
    jobs = [
        Job(settings, method, lr, seed)
        for method in settings.methods
        for lr in settings.lrs
        for seed in range(settings.seeds)
    ]
    journal = None if folder is None else Journal(folder / "finished.jsonl", asdict(settings), resume=resume)
    rows: dict[Job, list[Row]] = {} if journal is None else _finished(journal, settings)
    left = [job for job in jobs if job not in rows]
    for done, (job, found) in enumerate(_results(left, workers), start=len(jobs) - len(left) + 1):
        rows[job] = found
        if journal is not None:
            journal.append({"method": job.method, "lr": job.lr, "seed": job.seed, "rows": found})
        if progress is not None:
            progress(done, len(jobs), job)
    return Comparison(settings, [row for job in jobs for row in rows[job]])


def _finished(journal: Journal, settings: Settings) -> dict[Job, list[Row]]:
    pieces = [p for p in journal.finished if p.keys() >= {"method", "lr", "seed", "rows"}]
    return {Job(settings, p["method"], p["lr"], p["seed"]): p["rows"] for p in pieces}


def _results(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, list[Row]]]:
    if workers < 2:
        yield from ((job, job()) for job in jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(job): job for job in jobs}
        for future in as_completed(running):
            yield running[future], future.result()


@dataclass(frozen=True)
class Comparison:
    """What was measured: one row per method, learning rate, seed and measured round."""

    settings: Settings
    rows: list[Row]

    def final(self, method: str, lr: float, key: str) -> list[float]:
        """The last value of a metric, for each seed; infinite where a run diverged."""
        last = {row["seed"]: row.get(key, math.inf) for row in self.rows if (row["method"], row["lr"]) == (method, lr)}
        return [last[seed] for seed in sorted(last)]

    def best_lr(self, method: str) -> float:
        return min(self.settings.lrs, key=lambda lr: statistics.fmean(self.final(method, lr, "loss")))

    def table(self) -> list[dict[str, Any]]:
        """One line per method at its best learning rate: means over the seeds, and the spread of the loss."""
        lines = []
        for method in self.settings.methods:
            lr = self.best_lr(method)
            losses = self.final(method, lr, "loss")
            line = {"method": method, "weights": self.settings.weights_for(method)[1], "lr": lr}
            line |= {"loss": statistics.fmean(losses), "spread": statistics.pstdev(losses)}
            for key in ("accuracy", "node_accuracy_min", "consensus", "megabytes"):
                line[key] = statistics.fmean(self.final(method, lr, key))
            lines.append(line)
        return lines

    def curve(self, method: str, key: str) -> tuple[list[float], list[float], list[float], list[float]]:
        """Epochs, and the mean, least and largest value over the seeds, at the method's best learning rate."""
        lr = self.best_lr(method)
        at: dict[float, list[float]] = {}
        for row in self.rows:
            if (row["method"], row["lr"]) == (method, lr) and key in row:
                at.setdefault(row["epochs"], []).append(row[key])
        values = list(at.values())
        return list(at), [statistics.fmean(v) for v in values], [min(v) for v in values], [max(v) for v in values]

    def plot(self) -> Figure:
        """Loss, accuracy and disagreement against epochs; bands are the range over the seeds."""
        figure = Figure(figsize=(11, 3.4), layout="constrained")
        panels = [
            ("loss", "training loss of the mean model", "log"),
            ("node_accuracy_min", "test accuracy of the worst node", "linear"),
            ("consensus", "distance from the mean model", "log"),
        ]
        for axes, (key, label, scale) in zip(figure.subplots(1, 3), panels, strict=True):
            for number, method in enumerate(self.settings.methods):
                epochs, mean, low, high = self.curve(method, key)
                if scale == "log":  # nodes that agree cannot be shown there; NaN leaves a gap in the line
                    mean, low, high = ([v if v > 1e-6 else math.nan for v in c] for c in (mean, low, high))
                dashes = "--" if method == "sgd" else "-"
                axes.plot(epochs, mean, label=f"{method}, lr {self.best_lr(method):g}", color=f"C{number}", ls=dashes)
                axes.fill_between(epochs, low, high, color=f"C{number}", alpha=0.15, linewidth=0)
            shown = any(math.isfinite(v) for line in axes.lines for v in line.get_ydata())
            axes.set(xlabel="epochs", ylabel=label, yscale=scale if shown else "linear")
            axes.grid(alpha=0.3, which="both" if scale == "log" else "major")
        figure.axes[0].legend(frameon=False)
        return figure

    def save(self, folder: Path) -> Path:
        """Write settings, rows and the figure; the figure's path."""
        folder.mkdir(parents=True, exist_ok=True)
        versions = {"dsgt": __version__, "torch": torch.__version__}
        settings = asdict(self.settings) | {"versions": versions}
        (folder / "settings.json").write_text(json.dumps(settings, indent=2) + "\n")
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        figure = self.plot()
        figure.savefig(folder / "comparison.pdf")
        figure.savefig(folder / "comparison.png", dpi=150)
        return folder / "comparison.png"
