"""Data sets from tables: .csv, .tsv and .parquet."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dsgt.data.samples import Samples
from dsgt.data.split import Pair, split
from dsgt.extras import explained, require
from dsgt.factories import truth
from dsgt.text import nearest


def table(
    path: Path,
    *,
    target: str = "",
    test: float | str = 0.2,
    scale: bool = False,
    seed: int = 0,
    without: str = "",
    groups: str = "",
) -> Pair:
    """A table with a column ``target`` and numbers in all others; whole numbers, words and truth values are classes.

    ``test`` is a share, or another table. With ``scale`` columns have mean 0 and deviation 1 over the training rows.
    Columns ``without`` are left out, ``name/date``; who made each sample stands in the column ``groups``.
    """
    scale = truth("scale", scale)
    frame, target = _frame(path), str(target)
    if target not in frame.columns:
        if not target:
            raise ValueError(f"{path} needs a target: write {path}:target=COLUMN, one of {', '.join(frame.columns)}")
        raise ValueError(nearest(target, frame.columns, f"column of {path}"))
    frame = frame.drop(columns=(left := _left_out(frame, path, str(without), target)))
    if groups and ((groups := str(groups)) not in frame.columns or groups == target):
        raise ValueError(nearest(groups, [c for c in frame.columns if c != target], f"column of {path} for groups"))
    features = [c for c in frame.columns if c not in (target, groups)]
    if not features:
        beside = f"the target {target}" + f" and the groups {groups}" * bool(groups)
        raise ValueError(f"{path} has no column besides {beside}; give it columns to learn from")
    if words := [c for c in features if frame[c].dtype.kind not in "biuf"]:
        raise ValueError(
            f"{', '.join(words)} in {path} are not numbers; leave these columns out, without={'/'.join(words)}, or "
            "encode them"
        )
    other = None if not isinstance(test, str) else _frame(path.parent / test)
    if other is not None:
        other = other.drop(columns=left, errors="ignore")
        if list(other.columns) != list(frame.columns):
            raise ValueError(f"{test} has other columns than {path}; they must be the same, in the same order")
        _check_complete(other, path.parent / str(test), target)
    _check_complete(frame, path, target)
    if groups:
        _check_complete(frame, path, groups)
    columns = [part[target] for part in (frame, other) if part is not None]
    real = any(column.dtype.kind == "f" for column in columns)
    kinds = None if real else sorted({value for column in columns for value in column.tolist()})
    train = _of_frame(frame[features], frame[target], kinds)
    if groups:
        train = replace(train, groups=torch.from_numpy(frame[groups].factorize()[0].astype(np.int64)))
    if other is None:
        train, rest = split(train, float(test), seed)
    else:
        rest = _of_frame(other[features], other[target], kinds)
    return _scaled(train, rest) if scale else (train, rest)


def _left_out(frame: Any, path: Path, without: str, target: str) -> list[str]:
    """The columns that are called ``name/date``."""
    columns = list(frame.columns)
    left = [] if not without else [without] if without in columns else without.split("/")
    for column in left:
        if column == target:
            raise ValueError(f"{column} is the target and cannot be left out; take it out of without={without}")
        if column not in columns:
            raise ValueError(nearest(column, columns, f"column of {path}") + " (to leave out: without=NAME/NAME)")
    return left


def _check_complete(frame: Any, path: Path, column: str) -> None:
    """A label, or a group, that nobody knows."""
    if (lacking := frame[column].isna().to_numpy().nonzero()[0]).size:
        raise ValueError(
            f"{column} is missing in {lacking.size} of the {len(frame)} rows of {path}, first in row {lacking[0] + 1} "
            "(an empty field, NA or None); leave these rows out, or fill them in"
        )


def _frame(path: Path) -> Any:
    with explained():
        import pandas as pd

    if path.suffix == ".parquet":
        require("pyarrow")
        frame = pd.read_parquet(path)
        names = frame.columns = [str(c) for c in frame.columns]
    else:
        separator = "\t" if path.suffix == ".tsv" else ","
        frame = pd.read_csv(path, sep=separator, low_memory=False)  # a column's type is that of all its rows
        head = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str)  # where names are as they were given
        names = head.iloc[0].dropna().tolist()
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{path} has several columns called {', '.join(twice)}; give each a name of its own")
    if frame.empty:
        raise ValueError(f"{path} has no rows below its header; give it at least one sample")
    return frame


def _of_frame(frame: Any, target: Any, kinds: list[Any] | None) -> Samples:
    features = torch.from_numpy(frame.to_numpy(np.float64, copy=True))
    if kinds is None:
        return Samples(features, torch.from_numpy(target.to_numpy(np.float64, copy=True)))
    place = {kind: i for i, kind in enumerate(kinds)}
    return Samples(features, torch.tensor([place[v] for v in target.tolist()]))


def _scaled(train: Samples, test: Samples | None) -> Pair:
    mean, deviation = train.features.mean(dim=0), train.features.std(dim=0)
    deviation[deviation == 0] = 1.0

    def scaled(data: Samples) -> Samples:
        return replace(data, features=(data.features - mean) / deviation)

    return scaled(train), None if test is None else scaled(test)
