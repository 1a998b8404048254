"""The figures that a sweep has written, for the page over its points."""

from __future__ import annotations

import base64
import csv
from dataclasses import dataclass
from pathlib import Path

from dsgt.comparison.sweep import METRICS, NOTES
from dsgt.text import listed

WORDS = {
    "loss": "training loss",
    "accuracy": "test accuracy",
    "node_accuracy_min": "test accuracy of the worst node",
    "consensus": "distance from the mean model (consensus)",
    "rounds_over_centralized": "rounds to the target, over centralized SGD's",
}
"""For people; of the others the name is words already."""
LONGEST = 1 << 16
"""Letters of the notes that are read."""


@dataclass(frozen=True)
class Picture:
    title: str
    alt: str
    source: str
    """The picture itself, as a URL: a page needs nothing but itself."""
    file: Path
    """The numbers behind it."""


def pictures(folder: Path) -> list[Picture]:
    """Those that ``Sweep.save`` has written into a folder, in its order; none where there was no sweep."""
    table = folder / "sweep.csv"
    if not table.is_file():
        return []
    with table.open(newline="", encoding="utf-8") as file:
        header = next(csv.reader(file), [])
    measured = [name for name in METRICS if name in header and (folder / f"sweep-{name}.png").is_file()]
    return [_picture(folder, name, header[: header.index("method")]) for name in measured]


def notes(folder: Path) -> list[str]:
    """What to know beside them."""
    file = folder / NOTES
    return file.read_text(encoding="utf-8", errors="replace")[:LONGEST].splitlines() if file.is_file() else []


def _picture(folder: Path, name: str, keys: list[str]) -> Picture:
    title = WORDS.get(name, name.replace("_", " "))
    shown = f"{title} against {keys[0]}" if keys else title
    panels = f", a panel for each {listed(keys[1:])}" if keys[1:] else ""
    data = base64.b64encode((folder / f"sweep-{name}.png").read_bytes()).decode()
    return Picture(
        title=title,
        alt=f"Lines: {shown}, one line per method{panels}. The numbers are in sweep-{name}.csv.",
        source=f"data:image/png;base64,{data}",
        file=folder / f"sweep-{name}.csv",
    )
