"""How long gradients take: equal nodes, stragglers of several kinds, and times that were measured on a device."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dsgt import randomness
from dsgt.networks.link import Drawn, Seconds


def stragglers(nodes: int, *, mean: float, spread: float, seed: int) -> Callable[[int], Seconds]:
    """Random compute times for ``Clocked``: mean seconds a gradient, log-normal with this standard deviation of the
    logarithm, drawn anew for every node and round."""

    def at(node: Any, k: Any) -> Seconds:
        u, v = (_uniform(seed, k, node, c) for c in (0, 1))
        normal = np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v)
        return np.asarray(mean * np.exp(spread * normal - spread**2 / 2))

    return Drawn(nodes, at)


def memoryless(nodes: int, *, mean: float, seed: int) -> Callable[[int], Seconds]:
    """Exponentially distributed compute times, drawn anew for every node and round: a node is as likely to finish in
    the next moment however long it has computed."""
    return Drawn(nodes, lambda node, k: -mean * np.log1p(-_uniform(seed, k, node, 2)))


def slowed(
    compute: Callable[[int], Seconds] | float, factors: Mapping[int, float], *, nodes: int
) -> Callable[[int], Seconds]:
    """The same times, but some nodes need so many times as long: ``slowed(1.0, {3: 10}, nodes=16)``."""
    wrong = {i: f for i, f in factors.items() if not (0 <= i < nodes and f > 0)}
    if wrong:
        raise ValueError(f"slowed was given {wrong}; expected nodes 0 ... {nodes - 1} and factors above 0")
    factor = np.array([factors.get(i, 1.0) for i in range(nodes)])
    inner: Callable[[Any, Any], Seconds]
    if isinstance(compute, Drawn):
        inner = compute.at
    elif callable(compute):
        rows = compute

        def inner(node: Any, k: Any) -> Seconds:
            return np.array([rows(int(round_))[int(i)] for i, round_ in zip(node, k, strict=True)])
    else:
        seconds = compute

        def inner(node: Any, k: Any) -> Seconds:
            return np.full(len(node), float(seconds))

    return Drawn(nodes, lambda node, k: factor[node] * inner(node, k))


def trace(path: str | Path, *, nodes: int, seed: int) -> Callable[[int], Seconds]:
    """Times of a CSV file, seconds of one gradient after the other, a column for each node. Where it has one column,
    measured on one device, every node goes through it from another row on, drawn from the seed. At the end it begins
    again."""
    table = _table(Path(path), nodes)
    shift = randomness.integers(len(table), seed, np.arange(nodes)).numpy() if table.shape[1] == 1 else np.zeros(nodes)
    begin = shift.astype(np.int64)
    column = np.arange(nodes) if table.shape[1] > 1 else np.zeros(nodes, dtype=np.int64)
    return Drawn(nodes, lambda node, k: table[(k + begin[node]) % len(table), column[node]])


def _table(path: Path, nodes: int) -> Seconds:
    rows = [row for row in csv.reader(path.read_text().splitlines()) if row]
    if rows and not _is_number(rows[0][0]):
        del rows[0]  # the names of the columns
    try:
        table = np.array([[float(cell) for cell in row] for row in rows])
    except ValueError as error:
        raise ValueError(f"{path} is not a table of seconds: {error}") from None
    if table.ndim != 2 or table.shape[1] not in (1, nodes) or not (np.isfinite(table) & (table >= 0)).all():
        raise ValueError(
            f"{path} has shape {table.shape}; expected rows of finite seconds >= 0, one column for all nodes or one "
            f"for each of {nodes}"
        )
    return table


def named_times(text: str, *, nodes: int, mean: float, seed: int) -> Callable[[int], Seconds] | float:
    """``none``, ``lognormal:0.8``, ``exponential``, ``slow:3:10`` (node 3 needs ten times as long) or
    ``trace:FILE.csv``; several joined by + multiply: ``lognormal:0.8+slow:3:10``."""
    compute: Callable[[int], Seconds] | float = mean
    factors: dict[int, float] = {}
    for part in text.split("+"):
        kind, _, given = part.partition(":")
        try:
            if kind == "slow":
                node, factor = given.split(":")
                factors[int(node)] = float(factor)
            elif kind == "lognormal" and float(given) >= 0:
                compute = stragglers(nodes, mean=mean, spread=float(given), seed=seed)
            elif kind == "exponential" and not given:
                compute = memoryless(nodes, mean=mean, seed=seed)
            elif kind == "trace" and given:
                compute = trace(given, nodes=nodes, seed=seed)
            elif part != "none":
                raise ValueError
        except (ValueError, OSError) as error:
            why = f": {error}" if kind == "trace" else ""
            raise ValueError(
                f"stragglers are {part!r}{why}; expected none, lognormal:SPREAD, exponential, slow:NODE:FACTOR or "
                "trace:FILE.csv, or several joined by +"
            ) from None
    return slowed(compute, factors, nodes=nodes) if factors else compute


def _uniform(seed: int, k: Any, node: Any, c: int) -> Seconds:
    return np.asarray(randomness.uniform(seed, k, node, c).numpy())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
