"""FEMNIST: digits and letters in 62 classes, written by thousands of people (Caldas et al., 2018), from LEAF's JSON.

LEAF publishes no files but a script that makes them, ``data/femnist/preprocess.sh``: folders ``train`` and ``test`` of
JSON files {"users": [...], "num_samples": [...], "user_data": {user: {"x": [784 numbers, ...], "y": [class, ...]}}}.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from dsgt.data.published import VARIABLE
from dsgt.data.samples import Samples

SIDE, CLASSES = 28, 62
PLACES = ("femnist", "femnist/data", "data/femnist/data", "")
"""Where the folders train and test may be, below the directory that was named: in LEAF's own tree, or by themselves."""


def femnist(
    root: Path | str | None = None, *, images: bool = True, dtype: torch.dtype = torch.float32
) -> tuple[Samples, Samples]:
    """Training and test samples, images (N, 1, 28, 28) or vectors (N, 784) of numbers 0 ... 1; ``groups`` are their
    writers, so that the partition ``groups`` gives whole writers to nodes."""
    base = root if root is not None else os.environ.get(VARIABLE)
    tried = "" if base is None else f"; it is not in {base}"
    places = [] if base is None else [Path(base).expanduser() / place for place in PLACES]
    found = next((p for p in places if any((p / "train").glob("*.json")) and any((p / "test").glob("*.json"))), None)
    if found is None:
        raise FileNotFoundError(
            "where is FEMNIST? Make it with LEAF's data/femnist/preprocess.sh -s niid -t sample, and name the "
            "directory whose folders train and test hold its .json files: with --data-dir on the command line, as "
            f"femnist(root) in Python, or in the environment variable {VARIABLE}{tried}"
        )
    writers: dict[str, int] = {}
    return tuple(_samples(found / part, writers, images, dtype) for part in ("train", "test"))  # type: ignore[return-value]


def _samples(folder: Path, writers: dict[str, int], images: bool, dtype: torch.dtype) -> Samples:
    features, labels, groups = [], [], []
    for path in sorted(folder.glob("*.json")):
        for writer, x, y in read_json(path):
            features.append(torch.tensor(x, dtype=dtype))
            labels += y
            groups += [writers.setdefault(writer, len(writers))] * len(y)
    pixels = torch.cat(features).view(-1, 1, SIDE, SIDE)
    return Samples(pixels if images else pixels.flatten(1), torch.tensor(labels), torch.tensor(groups))


def read_json(path: Path) -> list[tuple[str, list[list[float]], list[int]]]:
    """Every writer with some samples, their pixels and their classes; anything but that is refused."""
    try:
        table: dict[str, Any] = json.loads(path.read_bytes())["user_data"]
        found = [(str(writer), held["x"], held["y"]) for writer, held in table.items() if held["y"]]
        good = bool(found) and all(len(x) == len(y) for _, x, y in found)
        good = good and all(type(t) is int and 0 <= t < CLASSES for _, _, y in found for t in y)
        good = good and all(len(row) == SIDE**2 for _, x, _ in found for row in x)
        good = good and all(type(v) in (int, float) for _, x, _ in found for row in x for v in row)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is no file of LEAF's FEMNIST, or is damaged ({error}); make it again") from error
    if not good:
        raise ValueError(
            f"{path} does not hold {SIDE**2} numbers and a class 0 ... {CLASSES - 1} for every sample; make it again"
        )
    return found
