"""What a comparison found: the rows, and one reading of them for the terminal, the table, the figure and the page."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
import torch

from dsgt._version import __version__
from dsgt.algorithms.named import is_own
from dsgt.asynchronous.named import title
from dsgt.comparison.measured import AXES, COSTS, Row
from dsgt.comparison.method_runs import MethodRuns, Runs, final_losses
from dsgt.comparison.settings import Settings
from dsgt.core import Algorithm
from dsgt.extras import explained
from dsgt.text import nearest, short

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SELECTION = (
    "Every method ran at every learning rate of its grid with seeds of their own; the one whose mean model had the "
    "lowest final {loss} was run with the seeds that are reported. {grew}A learning rate at which a run diverged does "
    "not count."
)
GREW = "While the best was the largest or the smallest the grid grew, by one rule for all. "
TRAINING_LOSS = "training loss"
VALIDATION_LOSS = "loss on {share:.0%} of every node's samples, which those runs did not learn from,"
GIVEN_RATE = "Every method ran with the learning rate that was given, with every seed."


@dataclass(frozen=True, repr=False)
class Comparison:
    """What was measured: one row per method, learning rate, seed and measured round."""

    settings: Settings
    rows: list[Row]

    @property
    def selection(self) -> str:
        """How learning rates were chosen."""
        share = self.settings.validation
        chosen_by = VALIDATION_LOSS.format(share=share) if share else TRAINING_LOSS
        if not self.settings.tuned:
            return GIVEN_RATE
        return SELECTION.format(loss=chosen_by, grew=GREW if self.settings.grow else "")

    @cached_property
    def runs(self) -> dict[tuple[str, float], Runs]:
        """The rows of each method and learning rate, by seed; those that tune have numbers of their own."""
        runs: dict[tuple[str, float], Runs] = {}
        for row in self.rows:
            runs.setdefault((row["method"], row["lr"]), {}).setdefault(row["seed"], []).append(row)
        return {which: dict(sorted(seeds.items())) for which, seeds in runs.items()}

    @cached_property
    def lines(self) -> list[MethodRuns]:
        """Every method with its runs, in the order of the settings."""
        titles = {name: self._title(name) for name in self.settings.methods}
        once = [t for t, count in Counter(titles.values()).items() if count == 1]
        return [self._method(name, t if t in once else name) for name, t in titles.items()]

    def _title(self, name: str) -> str:
        """With the arguments as they were typed, where only these tell two of one's own class apart."""
        called = title(self.settings.algorithm(name))
        given = name.split(":", 2)[2:] if is_own(name) else []
        return f"{called} ({given[0]})" if given and "(" not in called else called

    def _method(self, name: str, called: str) -> MethodRuns:
        tuning: dict[float, Runs] = {}
        reported: dict[float, Runs] = {}
        for (method, lr), seeds in sorted(self.runs.items()):
            for seed, rows in seeds.items() if method == name else ():
                (tuning if rows[0].get("tuning") else reported).setdefault(lr, {})[seed] = rows
        try:
            rule = self.settings.weights_for(name)[1]
        except (OSError, ValueError):  # the network's file has gone; the numbers have not
            rule = ""
        average = self.settings.algorithm(name).needs.average
        return MethodRuns(name, tuning or reported, average, reported if tuning else None, rule, called)

    def of(self, method: str) -> MethodRuns:
        """A method's runs: ``found.of("dsgt").loss``."""
        return next(line for line in self.lines if line.method == method)

    def final(self, method: str, lr: float, key: str) -> list[float]:
        """The last value of a metric, for each seed, those that tune included; infinite where a run diverged."""
        return [rows[-1].get(key, math.inf) for rows in self.runs[method, lr].values()]

    def best_lr(self, method: str) -> float:
        return self.of(method).lr

    def best(self, method: str) -> list[list[Row]]:
        """The runs at the method's best learning rate, one per seed."""
        return self.of(method).runs

    def diverged(self, method: str) -> bool:
        """At every learning rate."""
        return not self.of(method).converged

    @cached_property
    def target(self) -> float | None:
        """The loss asked for, or else the lowest that all methods reach but those that end above their start."""
        if self.settings.target is not None:
            return self.settings.target
        ends = (max((run[-1]["loss"], run[0]["loss"]) for run in line.runs) for line in self.lines)
        return max((end for end, start in ends if end < start), default=None)

    def to_target(self, method: str, key: str) -> float:
        """What a method's runs need on average until their loss is first at the target; NaN if one never is."""
        found = None if self.target is None else self.of(method).at_target(self.target, key)
        return math.nan if found is None else found

    def table(self) -> pd.DataFrame:
        """One line per method at its best learning rate: means over the seeds, and the spread of the loss."""
        with explained():
            import pandas as pd  # here, like the figure's matplotlib: worker processes need neither

        return pd.DataFrame([self._line(line) for line in self.lines]).set_index("method")

    def __repr__(self) -> str:
        """Without the rows, which are thousands."""
        ends = ", ".join(f"{line.method} {short(line.loss)}" for line in self.lines)
        return f"Comparison(loss of {ends}; {len(self.rows)} rows)"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(self.table().to_html())

    def _line(self, line: MethodRuns) -> dict[str, Any]:
        found: dict[str, Any] = {"method": line.method, "weights": line.weights}
        found |= {"lr": math.nan, "loss": line.loss, "spread": math.nan}
        if line.converged:
            found |= {"lr": line.lr, "spread": line.spread}
        for key in ("accuracy", "node_accuracy_min", "consensus", "megabytes", "virtual_seconds"):
            last = line.final(key) if line.converged else None
            found[key] = math.nan if last is None else last
        for key, cost in COSTS.items():
            found[f"{cost.name}_to_target"] = self.to_target(line.method, key)
        found["diverged"] = sum(math.isinf(loss) for runs in line.grid.values() for loss in final_losses(runs))
        return found

    def curve(self, method: str, key: str, against: str = "epochs") -> tuple[list[float], ...]:
        """Where, and the mean, least and largest value over the seeds there, at the method's best learning rate."""
        line = self.of(method)
        where, (mean, low, high) = line.curve(against)[0], line.curve(key)
        points = [p for p in zip(where, mean, low, high, strict=True) if None not in p]
        return tuple([v for v in column if v is not None] for column in zip(*points, strict=True)) or ([], [], [], [])

    def plot(self, *, against: str | None = None, width: float | None = None) -> Figure:
        """Loss, accuracy and disagreement against ``axis``, or round, epochs, megabytes or
        virtual_seconds; bands are the range over the seeds. ``width`` is in inches, 7.2 by default."""
        with explained():
            from dsgt.comparison.figure import figure

        check_axis(against)
        return figure(self.lines, against or self.axis, width)

    @property
    def axis(self) -> str:
        """What curves are drawn against by default: what the budget counts; and megabytes where none was given and a
        method sends fewer bytes than its vectors have."""
        kinds = [type(self.settings.algorithm(name)) for name in self.settings.methods]
        packs = any(issubclass(k, Algorithm) and k.message_bytes is not Algorithm.message_bytes for k in kinds)
        return "megabytes" if packs and self.settings.budget is None else self.settings.ends.axis

    def save(self, folder: Path | str, *, figure_width: float | None = None, against: str | None = None) -> Path:
        """Write settings, rows, table, the figure and the numbers of each of its panels; the folder.

        ``dsgt.report.save`` writes the page and a LaTeX table too. ``figure_width`` is in inches; ``against`` as in
        ``plot``.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if self.settings.repeatable:
            (folder / "settings.toml").write_text(self.settings.toml())
        about = {"settings": self.settings.model_dump(mode="json"), "versions": versions(), "selection": self.selection}
        (folder / "settings.json").write_text(json.dumps(about, indent=2) + "\n")
        (folder / "rows.jsonl").write_text("".join(json.dumps(_finite(row)) + "\n" for row in self.rows))
        _write(folder / "table.csv", [self._line(line) for line in self.lines])
        drawn = self.plot(width=figure_width, against=against)
        drawn.savefig(folder / "comparison.pdf", metadata={"CreationDate": None})  # same numbers, same file
        drawn.set_layout_engine("none")  # everything has its place now
        drawn.savefig(folder / "comparison.png")
        self._save_panels(folder)
        return folder

    def _save_panels(self, folder: Path) -> None:
        from dsgt.comparison.figure import shown_panels

        converged = [line for line in self.lines if line.converged]
        for key in shown_panels(self.lines):
            points = [
                {"method": line.method, "lr": line.lr, "seeds": len(line.runs)}
                | dict(zip(AXES, at, strict=True))
                | {"mean": mean, "least": low, "largest": high}
                for line in converged
                for at, mean, low, high in zip(
                    zip(*(line.curve(axis)[0] for axis in AXES), strict=True), *line.curve(key), strict=True
                )
                if mean is not None
            ]
            _write(folder / f"comparison-{key}.csv", points)


def check_axis(against: str | None) -> None:
    """A ValueError where curves cannot be drawn against it."""
    if against is not None and against not in AXES:
        raise ValueError(nearest(against, AXES, "axis"))


def versions() -> dict[str, str]:
    """Of what the numbers depend on."""
    return {"dsgt": __version__, "torch": torch.__version__, "numpy": np.__version__, "scipy": scipy.__version__}


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    """As CSV; what is no number is left empty. pandas would take longer to load than to write."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0] if rows else (), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: None if v != v else v for k, v in row.items()} for row in rows)


def _finite(row: Row) -> Row:
    """JSON has no infinity: null."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
