"""What docs/compression.md quotes of compressed messages, but for real links (benchmarks/wires.py).

    python benchmarks/compression.py packing [M] | gamma [METHOD ...] | drift [METHOD ...] | digits | cifar10 DIR

``packing``: CPU milliseconds to pack and unpack M float32 numbers, ten million, on one thread, and the pieces of torch
that this may be measured by. They take turns; medians.
``gamma``: the nodes' mean excess loss after 1000 rounds for every gamma. Logistic regression on the digits.
``drift``: how far float32 is off after up to 100,000 rounds with exact gradients, and after beginning anew.
``digits``, ``cifar10``: megabytes that a node sends until its loss is below a target, each method with its best lr and
gamma of a grid, and docs/figures/compression-digits.png or -cifar10.png. DIR holds cifar-10-batches-py.
Every problem has 16 nodes on a ring, whose shares of the labels are drawn from Dirichlet(0.1).
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from rich.console import Console
from rich.table import Table
from timing import in_turn

import dsgt
from dsgt import metrics, topologies
from dsgt.algorithms.named import method
from dsgt.compression import Draw, compressor
from dsgt.core import tensors
from dsgt.data import Samples, WithReplacement, cifar10, digits
from dsgt.data.partition import dirichlet
from dsgt.problems import Logistic
from dsgt.reproduce.style import STYLE, panels

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
NODES, EACH = 16, 16
"""And how many samples each draws a round."""
W = topologies.metropolis(topologies.ring(NODES))
console = Console(width=140)


def packing(size: str = "10_000_000") -> None:
    m = int(size)
    v, out = torch.randn(m, generator=torch.Generator().manual_seed(0)), torch.empty(m)
    pieces = {
        "torch.topk of the absolute values": lambda: v.abs().topk(m // 100, sorted=False),
        "torch.rand of that length": lambda: torch.rand(m, out=out),
        "copy and scale": lambda: torch.mul(v, 0.5, out=out),
    }
    names = ["top-k:0.01", "quantise:4", "quantise:8", "rand-k:0.01", "sign", "bfloat16"]
    wires = {name: compressor(name).pack(v, Draw(torch.tensor([0]), 0)) for name in names}
    packed = {f"{name}, packed": _pack(name, v) for name in names}
    read = {f"{name}, unpacked": _unpack(name, wire, m) for name, wire in wires.items()}
    found = in_turn(pieces | packed | read, 5, 1, time.process_time)
    shown = Table("", "packing, ms", "unpacking, ms", "both", "at most", title=f"{m:,} float32 numbers, CPU time")
    topk, rand, scale = (found[piece] for piece in pieces)
    allowed = {"top-k:0.01": 1.5 * topk, "quantise:4": 3 * (rand + 10 * scale)}
    for piece in pieces:
        shown.add_row(piece, "", "", f"{1e3 * found[piece]:.0f}", "")
    for name in names:
        times = found[f"{name}, packed"], found[f"{name}, unpacked"]
        most = f"{1e3 * allowed[name]:.0f}" if name in allowed else ""
        shown.add_row(name, *(f"{1e3 * t:.0f}" for t in (*times, sum(times))), most)
    console.print(shown)


def _pack(name: str, v: torch.Tensor) -> Any:
    return lambda: compressor(name).pack(v, Draw(torch.tensor([0]), 0))


def _unpack(name: str, wire: torch.Tensor, m: int) -> Any:
    return lambda: compressor(name).unpack(wire, m, torch.float32)


GAMMAS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
STUDIED = (
    "choco",
    "beer",
    "c-gt",
    "deepsqueeze:compress=top-k:0.01",
    "deepsqueeze",
    "lead",
    "cedas",
    *(f"beer:compress={name}" for name in ("top-k:0.1", "top-k:0.002", "sign", "quantise:4", "quantise:2")),
    "c-gt:compress=quantise:2,alpha=0.1",
    "lead:compress=quantise:2",
    "lead:compress=quantise:8",
)


def gamma(*names: str) -> None:
    problem, lr, rounds = _digits(), 0.3, 1000
    shown = Table("", *(f"{g:g}" for g in GAMMAS), title=f"gamma: excess loss after {rounds} rounds, lr = {lr:g}")
    for name in names or STUDIED:
        found = []
        for g in GAMMAS:
            algorithm = method(name + (":" if ":" not in name else ",") + f"gamma={g}")
            found.append(_curve(algorithm, problem, lr, rounds, rounds)[-1:])
        shown.add_row(name, *(f"{curve[0][1]:.2g}" if curve else "-" for curve in found))
    console.print(shown)


LOOKS = (1_000, 10_000, 100_000)
DRIFTING = "dsgt", "beer:compress=top-k:0.4,gamma=0.4", "lead"


def drift(*names: str) -> None:
    """The nodes minimise the mean of |x - a_i|^2 / 2 with a_i around 10, so that only rounding keeps them away."""
    n, m = 8, 5
    a = torch.randn(n, m, generator=torch.Generator().manual_seed(0)) + 10
    best, weights = a.double().mean(dim=0), topologies.metropolis(topologies.ring(n))
    shown = Table("", "begun anew", *(f"off after {k:,}" for k in LOOKS), "tracking is off by then")
    for name, every in itertools.product(names or DRIFTING, (None, 10_000)):
        algorithm = method(name)
        states = dsgt.iterate(algorithm, lambda x, k: x - a, weights, torch.zeros(m), 0.1, restart_every=every)
        off = []
        for before, k in itertools.pairwise((-1, *LOOKS)):
            seen = tensors(next(itertools.islice(states, k - before - 1, None)))
            off.append(float((seen["x"].double() - best).abs().max()))
        left = seen[algorithm.zero_sum] if algorithm.zero_sum else _left(seen, algorithm.tracker)
        cells = (f"{d:.1e}" for d in (*off, float(left.double().mean(dim=0).abs().max())))
        shown.add_row(name, f"every {every:,}" if every else "never", *cells)
    console.print(shown)


def _left(seen: dict[str, torch.Tensor], tracker: tuple[str, str] | None) -> torch.Tensor:
    assert tracker is not None
    return seen[tracker[0]] - seen[tracker[1]]


@dataclass(frozen=True)
class Contender:
    name: str
    """With {} for gamma."""
    rounds: int
    """At most, on the digits."""
    gammas: tuple[float, ...] = (1.0,)


CONTENDERS = {
    "DSGT": Contender("dsgt", 1000),
    "LEAD, 4 bits": Contender("lead:compress=quantise:4,gamma={}", 2000, (1.0, 0.5)),
    "BEER, top-k 1 %": Contender("beer:compress=top-k:0.01,gamma={}", 6000, (0.1, 0.05)),
    "CHOCO, top-k 1 %": Contender("choco:compress=top-k:0.01,gamma={}", 6000, (0.1, 0.05)),
}


def _split(data: Samples, l2: float) -> Logistic:
    shards = dirichlet(data.targets, NODES, alpha=0.1, seed=1)
    return Logistic(data, shards, WithReplacement(batch=EACH * NODES), l2=l2)


def _digits() -> Logistic:
    return _split(digits()[0], 1e-3)


def _curve(
    algorithm: Any, problem: Logistic, lr: float, rounds: int, every: int, low: float | None = None
) -> list[Any]:
    """(megabytes a node, the nodes' mean loss above ``low``, or above the optimum) until it is no number any more."""
    if low is None:
        assert problem.optimum is not None
        low = float(problem.loss(problem.optimum))
    measured = {"megabytes": metrics.megabytes, "loss": metrics.node_loss_mean}
    try:
        rows = dsgt.run(algorithm, problem, W, rounds=rounds, lr=lr, every=every, metrics=measured).rows
    except dsgt.DivergedError:
        return []
    found = [(row["megabytes"] / NODES, row["loss"] - low) for row in rows]
    return found if math.isfinite(found[-1][1]) and found[-1][1] < 2 * found[0][1] else []


def _reached(curve: list[Any], target: float) -> float:
    return next((megabytes for megabytes, loss in curve if loss <= target), math.inf)


def _run(
    run: tuple[Contender, float, float], problem: Logistic, rounds: int, looks: int, low: float | None
) -> list[Any]:
    who, lr, g = run
    torch.set_num_threads(1)
    return _curve(method(who.name.format(g)), problem, lr, rounds, max(1, rounds // looks), low)


def _race(
    problem: Logistic,
    where: str,
    lrs: tuple[float, ...],
    targets: tuple[float, ...],
    *,
    shorter: int = 1,
    looks: int = 100,
    low: float | None = None,
) -> None:
    """The last target decides which lr and gamma is best."""
    runs = [(who, lr, g) for who in CONTENDERS.values() for lr in lrs for g in who.gammas]
    with ProcessPoolExecutor(os.cpu_count(), get_context("fork")) as workers:  # each has one thread
        begun = {
            run: workers.submit(_run, run, problem, run[0].rounds // shorter, looks, low) for run in reversed(runs)
        }
        curves = {run: future.result() for run, future in begun.items()}
    shown = Table("", "lr", "gamma", *(f"MB to {t:g}" for t in targets), "DSGT's, of it", title=f"{where}, loss")
    figure, (axes,) = panels(1, 1, width=5.0, height=3.2)
    plain: list[float] = []
    for title, who in CONTENDERS.items():
        tried = [(lr, g, curves[who, lr, g]) for one, lr, g in runs if one is who and curves[who, lr, g]]
        lr, g, curve = min(tried, key=lambda one: (_reached(one[2], targets[-1]), one[2][-1][1]))
        needed = [_reached(curve, t) for t in targets]
        plain = plain or needed
        cells = [f"{mb:.3g}" if mb < math.inf else f"never: {curve[-1][1]:.2g}" for mb in needed]
        ratio = ", ".join("-" if math.isinf(mb) else f"{full / mb:.1f}" for full, mb in zip(plain, needed, strict=True))
        shown.add_row(title, f"{lr:g}", f"{g:g}" if len(who.gammas) > 1 else "", *cells, ratio)
        draw = axes.loglog if low is None else axes.semilogx
        draw(*zip(*curve[1:], strict=True), label=title)
    what = "mean loss of the nodes, above the optimum" if low is None else "mean loss of the nodes"
    axes.set(xlabel="megabytes sent by a node", ylabel=what, title=f"{where}, 16 nodes on a ring, different labels")
    axes.legend()
    figure.savefig(FIGURES / f"compression-{where.lower().replace('-', '')}.png")
    console.print(shown)


def race_digits() -> None:
    _race(_digits(), "digits", (4.0, 2.0, 1.0, 0.5, 0.25), (0.3, 0.1, 0.03))


def race_cifar10(root: str, samples: int = 1600) -> None:
    data = cifar10(root, images=False)[0]
    some = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:samples]
    problem = _split(Samples(data.features[some], data.targets[some]), 1e-3)
    _race(problem, "CIFAR-10", (0.005, 0.002), (2.0, 1.85), shorter=12, looks=25, low=0.0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    part, *given = sys.argv[1:] or [""]
    parts: dict[str, Any] = {
        "packing": packing,
        "gamma": gamma,
        "drift": drift,
        "digits": race_digits,
        "cifar10": race_cifar10,
    }
    expected = {"packing": range(2), "gamma": range(99), "drift": range(99), "digits": range(1), "cifar10": range(1, 2)}
    if len(given) not in expected.get(part, ()):
        sys.exit(__doc__)
    with mpl.rc_context(STYLE):
        parts[part](*given)
