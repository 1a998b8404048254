"""A comparison in a few kilobytes of JSON: what an index over many of them shows."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from dsgt._version import __version__
from dsgt.comparison.result import Comparison
from dsgt.report.curves import curves
from dsgt.report.results import table
from dsgt.report.spoken import spoken
from dsgt.report.verdict import verdict

FILE = "report.json"
KEYS = {"methods", "verdict", "columns", "curves", "settings", "axis", "best"}
SIZE_LIMIT = 1 << 24
"""Bytes; a comparison of 20 methods has some hundred thousand."""


def summary(found: Comparison, settings: dict[str, str], *, against: str | None = None) -> dict[str, Any]:
    """``settings`` as the page shows them; ``against``: the axis that it shows first."""
    lines = found.lines
    rivals = [line for line in lines if line.ranked]
    best = min(rivals, key=lambda line: line.loss, default=None)
    return {
        "dsgt": __version__,
        "methods": [{"name": line.method, "title": line.title, "reference": line.centralized} for line in lines],
        "verdict": list(verdict(spoken(found).lines, found.target)),
        "best": None if best is None else {"name": best.method, "loss": best.loss},
        "columns": [
            {"heading": c.heading, "meaning": c.meaning, "cells": c.cells, "best": sorted(c.best)} for c in table(lines)
        ],
        "curves": curves(lines),
        "axis": against or found.axis,
        "settings": {name: value for name, value in settings.items() if name not in ("methods", "data_dir")},
    }


def read(folder: Path) -> dict[str, Any]:
    """The summary in a folder that ``dsgt compare`` wrote; a ValueError if it is none."""
    file = folder / FILE
    try:
        if file.stat().st_size > SIZE_LIMIT:
            raise ValueError("too long")
        found = json.loads(file.read_text(encoding="utf-8"), parse_constant=_no_number)
        if not isinstance(found, dict) or not found.keys() >= KEYS:
            raise ValueError("something is missing")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not what dsgt compare writes ({error}); run the comparison again") from None
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def write(about: dict[str, Any], folder: Path) -> None:
    assert about["best"] is None or math.isfinite(about["best"]["loss"])
    (folder / FILE).write_text(json.dumps(about, allow_nan=False, separators=(",", ":")), encoding="utf-8")
