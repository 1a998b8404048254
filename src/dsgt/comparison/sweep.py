"""The same comparison at several values of some settings: numbers of nodes, label skews, graphs, batches."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from dsgt.comparison.grid import check, compare
from dsgt.comparison.job import Job
from dsgt.comparison.measured import Row
from dsgt.comparison.method_runs import MethodRuns
from dsgt.comparison.result import Comparison
from dsgt.comparison.settings import Settings
from dsgt.comparison.work import Watch
from dsgt.extras import explained
from dsgt.text import nearest

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FIXED = {"methods", "lrs", "grow", "seeds", "tuning_seeds", "target", "data_dir"}
"""Settings that all points have in common: they say how is compared, not what."""
POINTS_LIMIT = 1000
NOTES = "sweep-notes.txt"


@dataclass(frozen=True, eq=False)
class Point:
    """One of a sweep's comparisons."""

    at: dict[str, Any]
    """The settings that are its own: ``{"nodes": 8, "partition": "dirichlet:0.1"}``."""
    settings: Settings

    @property
    def name(self) -> str:
        """Of its folder."""
        return ",".join(f"{key}={re.sub(r'[^A-Za-z0-9._-]', '-', str(value))}" for key, value in self.at.items())

    def __str__(self) -> str:
        return ", ".join(f"{key} {value}" for key, value in self.at.items())


@dataclass(frozen=True, repr=False)
class Sweep:
    """What was found at every point. In a notebook it shows its table."""

    found: dict[Point, Comparison]

    @property
    def keys(self) -> list[str]:
        """The settings that vary."""
        return list(next(iter(self.found)).at)

    @cached_property
    def target(self) -> float | None:
        """One training loss for all points: the one asked for, or the lowest that all who learn reach everywhere."""
        targets = [found.target for found in self.found.values()]
        return max((t for t in targets if t is not None), default=None)

    @cached_property
    def numbers(self) -> list[dict[str, Any]]:
        """For every point and method, each metric of ``METRICS`` as a list over the seeds; empty where a run diverged
        or the metric was not measured."""
        rows = []
        for point, found in self.found.items():
            for line in found.lines:
                given = {name: metric(self, point, line) for name, metric in METRICS.items()}
                rows.append({"at": point.at, "line": line} | given)
        return rows

    @property
    def metrics(self) -> list[str]:
        """Those that something was measured for."""
        return [name for name in METRICS if any(row[name] for row in self.numbers)]

    def table(self) -> pd.DataFrame:
        """One line per point and method, each at its best learning rate there: means over the seeds, and the spread of
        the loss."""
        with explained():
            import pandas as pd

        return pd.DataFrame(
            {
                **row["at"],
                "method": row["line"].method,
                "weights": row["line"].weights,
                "lr": row["line"].lr if row["line"].converged else math.nan,
                "edge": row["line"].edge,
                "spread": row["line"].spread if row["line"].converged else math.nan,
                **{name: fmean(row[name]) if row[name] else math.nan for name in self.metrics},
            }
            for row in self.numbers
        )

    @property
    def notes(self) -> list[str]:
        """What to know beside the figures: where a method ran with other weights, where a best rate is at an edge."""
        elsewhere: dict[tuple[str, str, str], list[str]] = {}
        for point, one in self.found.items():
            for line in one.lines:
                if line.weights not in (asked := one.settings.weights, "all", "file", ""):
                    elsewhere.setdefault((line.method, asked, line.weights), []).append(str(point))
        said = [
            f"{method} may not use {asked} weights {self._at(points)}, so it ran with {rule} ones there: part of a "
            "difference between methods, or between points, may be the weights'."
            for (method, asked, rule), points in elsewhere.items()
        ]
        if edge := [str(point) for point, one in self.found.items() if any(line.edge for line in one.lines)]:
            said.append(
                f"The best learning rate {self._at(edge)} is the largest or the smallest that was tried (! in the "
                "table), so that no verdict holds there: give more with --lr or a larger --grow."
            )
        return said

    def _at(self, points: Sequence[str]) -> str:
        return "at any point" if len(points) == len(self.found) > 1 else f"at {'; '.join(points)}"

    def __repr__(self) -> str:
        return f"Sweep({'; '.join(map(str, self.found))})"

    def _repr_html_(self) -> str:
        return str(self.table().to_html(index=False))

    def plot(self, metric: str = "loss", *, width: float | None = None) -> Figure:
        """A metric against the first setting that varies, a line for each method, a panel for each value of the others;
        bars are the range over the seeds. ``width`` is in inches."""
        if metric not in self.metrics:
            raise ValueError(nearest(metric, self.metrics, "metric of this sweep"))
        with explained():
            from dsgt.comparison.sweep_figure import figure

        lines = next(iter(self.found.values())).lines
        return figure(self.numbers, self.keys, lines, metric, self.target, width)

    def save(self, folder: Path | str, *, figure_width: float | None = None) -> Path:
        """Write the table, a figure for every metric and the numbers behind it; the folder. ``dsgt.report.save`` writes
        a report of every point, and a page over them, too."""
        with explained():
            import pandas as pd
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.table().to_csv(folder / "sweep.csv", index=False)
        (folder / NOTES).write_text("".join(f"{note}\n" for note in self.notes), encoding="utf-8")
        for metric in self.metrics:
            drawn = self.plot(metric, width=figure_width)
            drawn.savefig(folder / f"sweep-{metric}.pdf", metadata={"CreationDate": None})
            drawn.savefig(folder / f"sweep-{metric}.png")
            points = [
                {**row["at"], "method": row["line"].method, "weights": row["line"].weights}
                | {"mean": fmean(v), "least": min(v), "largest": max(v)}
                for row in self.numbers
                if (v := row[metric])
            ]
            pd.DataFrame(points).to_csv(folder / f"sweep-{metric}.csv", index=False)
        for metric, ending in itertools.product(METRICS.keys() - {*self.metrics}, ("pdf", "png", "csv")):
            (folder / f"sweep-{metric}.{ending}").unlink(missing_ok=True)  # of another sweep, before this one
        return folder

    def costs(self, line: MethodRuns, key: str) -> list[float]:
        """What each seed of a method needs until its loss is first at the target; empty if one never is."""
        return [] if self.target is None or not line.converged else line.each_at_target(self.target, key)

    def _speedup(self, point: Point, line: MethodRuns) -> list[float]:
        """How many times sooner the target is reached than with the fewest nodes, seed by seed, all else the same."""
        if "nodes" not in self.keys:
            return []
        fewest = min(other.settings.nodes for other in self.found)
        few = next((p for p in self.found if p.settings.nodes == fewest and _same(p, point, "nodes")), None)
        if few is None:
            return []
        one, many = (self.costs(self.found[p].of(line.method), "virtual_seconds") for p in (few, point))
        return [base / v for base, v in zip(one, many, strict=True)] if one and many and all(many) else []

    def _over_central(self, point: Point, line: MethodRuns) -> list[float]:
        """How many rounds it takes to the target, for one that all nodes averaging with all would take."""
        central = next((other for other in self.found[point].lines if other.centralized), None)
        if central is None or line.centralized:
            return []
        theirs, own = self.costs(central, "round"), self.costs(line, "round")
        return [v / fmean(theirs) for v in own] if own and theirs and fmean(theirs) else []


METRICS: dict[str, Callable[[Sweep, Point, MethodRuns], list[float]]] = {
    "loss": lambda _, __, line: line.finals("loss") if line.converged else [],
    "accuracy": lambda _, __, line: line.finals("accuracy") if line.converged else [],
    "node_accuracy_min": lambda _, __, line: line.finals("node_accuracy_min") if line.converged else [],
    "consensus": lambda _, __, line: line.finals("consensus") if line.ranked else [],
    "rounds_to_target": lambda sweep, _, line: sweep.costs(line, "round"),
    "megabytes_to_target": lambda sweep, _, line: sweep.costs(line, "megabytes"),
    "virtual_seconds_to_target": lambda sweep, _, line: sweep.costs(line, "virtual_seconds"),
    "speedup": Sweep._speedup,
    "rounds_over_centralized": Sweep._over_central,
}
"""What a sweep has a figure of, each for a point and a method as a list over the seeds."""


def points(over: Mapping[str, Sequence[Any]], given: Mapping[str, Any]) -> list[Point]:
    """Every combination of the values; a ValueError in plain words, before any work."""
    if not over:
        raise ValueError("a sweep needs a setting and its values, as in nodes=4,8,16")
    known = [key for key in Settings.model_fields if key not in FIXED]
    for key, values in over.items():
        if key not in known:
            raise ValueError(nearest(key, known, "setting to sweep over"))
        if key in given:
            raise ValueError(f"{key} is {given[key]} and is swept over too; leave one of them out")
        if isinstance(values, str) or len(set(map(str, values))) != len(values) or not values:
            raise ValueError(f"{key} is swept over {values!r}; give a list of different values")
    if (count := math.prod(len(values) for values in over.values())) > POINTS_LIMIT:
        raise ValueError(f"this sweep has {count} points, but at most {POINTS_LIMIT} are possible; give fewer values")
    made = []
    for values in itertools.product(*over.values()):
        settings = Settings.of({**given, **dict(zip(over, values, strict=True))})
        made.append(Point({key: getattr(settings, key) for key in over}, settings))
    if len({point.name for point in made}) < len(made):
        raise ValueError("two points of this sweep have the same settings, or folders of the same name; rename a value")
    return made


def sweep(
    over: Mapping[str, Sequence[Any]],
    *,
    folder: Path | str | None = None,
    begin: Callable[[int, int, Point], object] | None = None,
    done: Callable[[Point, Comparison], object] | None = None,
    workers: int = 2,
    resume: bool = True,
    checkpoint_every: int | None = None,
    watch: Watch | None = None,
    finished: Callable[[int, int, Job, list[Row]], None] | None = None,
    **given: Any,
) -> Sweep:
    """Compare at every combination of the values: ``sweep({"nodes": [4, 8], "partition": ["equal"]}, seeds=3)``.

    Learning rates are chosen anew at every point, by the rule of ``compare``, which takes the other arguments. In
    ``folder`` every point has a folder of its own, so that a sweep can be stopped, given again, and grow.
    ``begin`` is told which point of how many comes next, ``done`` is given what was found there.
    """
    made = points(over, given)
    for point in reversed(made):  # all of them before the first run; the first one's problem is used next
        try:
            check(point.settings)
        except ValueError as error:
            raise ValueError(f"{point}: {error}") from None
    found: dict[Point, Comparison] = {}
    for number, point in enumerate(made):
        if begin is not None:
            begin(number, len(made), point)
        found[point] = compare(
            point.settings,
            folder=None if folder is None else Path(folder) / point.name,
            workers=workers,
            resume=resume,
            checkpoint_every=checkpoint_every,
            watch=watch,
            finished=finished,
        )
        if done is not None:
            done(point, found[point])
    return Sweep(found)


def _same(a: Point, b: Point, but: str) -> bool:
    return all(a.at[key] == b.at[key] for key in a.at if key != but)
