"""What a comparison found: the rows, each method's best learning rate, the table."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
import torch

from dsgt._version import __version__
from dsgt.comparison.job import Row
from dsgt.comparison.settings import Settings
from dsgt.extras import explained

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SELECTION = (
    "Every method ran at every learning rate with every seed; the one with the lowest final training loss of the mean "
    "model, averaged over the seeds, counts. A learning rate at which one of its runs diverged does not."
)
COSTS = {"rounds": "round", "epochs": "epochs", "megabytes": "megabytes", "virtual_seconds": "virtual_seconds"}
"""What it takes to reach the target: names of the table's columns, and of the rows'."""


@dataclass(frozen=True)
class Comparison:
    """What was measured: one row per method, learning rate, seed and measured round."""

    settings: Settings
    rows: list[Row]

    @cached_property
    def runs(self) -> dict[tuple[str, float], dict[int, list[Row]]]:
        """The rows of each method and learning rate, by seed."""
        runs: dict[tuple[str, float], dict[int, list[Row]]] = {}
        for row in self.rows:
            runs.setdefault((row["method"], row["lr"]), {}).setdefault(row["seed"], []).append(row)
        return runs

    def final(self, method: str, lr: float, key: str) -> list[float]:
        """The last value of a metric, for each seed; infinite where a run diverged."""
        seeds = self.runs[method, lr]
        return [seeds[seed][-1].get(key, math.inf) for seed in sorted(seeds)]

    def best_lr(self, method: str) -> float:
        return min(self.settings.lrs, key=lambda lr: statistics.fmean(self.final(method, lr, "loss")))

    def best(self, method: str) -> list[list[Row]]:
        """The runs at the method's best learning rate, one per seed."""
        seeds = self.runs[method, self.best_lr(method)]
        return [seeds[seed] for seed in sorted(seeds)]

    def diverged(self, method: str) -> bool:
        """At every learning rate."""
        return math.isinf(statistics.fmean(self.final(method, self.best_lr(method), "loss")))

    @cached_property
    def target(self) -> float | None:
        """The loss asked for, or else the lowest that all methods reach but those that end above their start."""
        if self.settings.target is not None:
            return self.settings.target
        ends = (max((run[-1]["loss"], run[0]["loss"]) for run in self.best(method)) for method in self.settings.methods)
        return max((end for end, start in ends if end < start), default=None)

    def to_target(self, method: str, key: str) -> float:
        """What a method's runs need on average until their loss is first at the target; NaN if one never is."""
        target = -math.inf if self.target is None else self.target
        reached = (next((row for row in run if row["loss"] <= target), {}) for run in self.best(method))
        return statistics.fmean(row.get(key, math.nan) for row in reached)

    def table(self) -> pd.DataFrame:
        """One line per method at its best learning rate: means over the seeds, and the spread of the loss."""
        with explained():
            import pandas as pd  # here, like the figure's matplotlib: worker processes need neither

        return pd.DataFrame([self._line(method) for method in self.settings.methods]).set_index("method")

    def _line(self, method: str) -> dict[str, Any]:
        lr = self.best_lr(method)
        losses = self.final(method, lr, "loss")
        finite = all(math.isfinite(loss) for loss in losses)
        line = {"method": method, "weights": self.settings.weights_for(method)[1], "lr": lr if finite else math.nan}
        line |= {"loss": statistics.fmean(losses), "spread": statistics.pstdev(losses) if finite else math.nan}
        for key in ("accuracy", "node_accuracy_min", "consensus", "megabytes", "virtual_seconds"):
            line[key] = statistics.fmean(self.final(method, lr, key)) if finite else math.nan
        for name, key in COSTS.items():
            line[f"{name}_to_target"] = self.to_target(method, key)
        line["diverged"] = sum(math.isinf(loss) for lr in self.settings.lrs for loss in self.final(method, lr, "loss"))
        return line

    def curve(self, method: str, key: str, against: str = "epochs") -> tuple[list[float], ...]:
        """Where, and the mean, least and largest value over the seeds there, at the method's best learning rate."""
        places: list[float] = []
        values: list[list[float]] = []
        for rows in zip(*self.best(method), strict=False):  # the seeds of one method are measured in the same rounds
            if all(key in row and against in row for row in rows):
                places.append(statistics.fmean(row[against] for row in rows))
                values.append([row[key] for row in rows])
        return places, [statistics.fmean(v) for v in values], [min(v) for v in values], [max(v) for v in values]

    def plot(self) -> Figure:
        """Loss, accuracy and disagreement against epochs; bands are the range over the seeds."""
        with explained():
            from dsgt.comparison.picture import picture

        return picture(self)

    def save(self, folder: Path | str) -> Path:
        """Write settings, rows, table and figures, and the page that shows them; its path."""
        from dsgt.report import page  # here, because it reads this file, and worker processes need no plotly

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "settings.toml").write_text(self.settings.toml())
        about = {"settings": self.settings.model_dump(mode="json"), "versions": versions(), "selection": SELECTION}
        (folder / "settings.json").write_text(json.dumps(about, indent=2) + "\n")
        (folder / "rows.jsonl").write_text("".join(json.dumps(_finite(row)) + "\n" for row in self.rows))
        self.table().to_csv(folder / "table.csv")
        figure = self.plot()
        figure.savefig(folder / "comparison.pdf")
        figure.savefig(folder / "comparison.png", dpi=150)
        report = folder / "report.html"
        report.write_text(page(self), encoding="utf-8")
        return report


def versions() -> dict[str, str]:
    """Of what the numbers depend on."""
    return {"dsgt": __version__, "torch": torch.__version__, "numpy": np.__version__, "scipy": scipy.__version__}


def _finite(row: Row) -> Row:
    """JSON has no infinity: null."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
