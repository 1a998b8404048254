"""What docs/choosing.md quotes: methods in their situations, each with its best learning rate of a grid.

    python benchmarks/choosing.py [acceleration | gossip | directed | messages | momentum]

Every part prints a table; the first two also draw docs/figures/acceleration.png and docs/figures/gossip.png.
Quadratics whose nodes differ in curvature and in where their minimum is, exact gradients, float64; no timing.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib as mpl
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import dsgt
from dsgt import gossip as several
from dsgt import topologies
from dsgt.algorithms.named import method
from dsgt.core import Around, Network, Weights
from dsgt.networks import Dense
from dsgt.reproduce.style import STYLE, panels
from dsgt.topologies.matrix import MatrixLike
from dsgt.topologies.suited import suited

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
F64 = torch.float64
TARGET = 1e-6
GRID = [2.0 * 0.5**i for i in range(10)]
"""Learning rates times L, from 2 down to 4e-3."""
Place: TypeAlias = Callable[[], Network]
"""A new network, with nothing sent yet."""


@dataclass(frozen=True)
class Quadratics:
    """f_i(x) = sum_j h_ij (x_j - a_ij)^2 / 2; the mean curvatures are spread evenly in logarithm from 1/kappa to 1."""

    h: Tensor
    a: Tensor

    @property
    def best(self) -> Tensor:
        return (self.h * self.a).sum(dim=0) / self.h.sum(dim=0)

    @property
    def L(self) -> float:
        return float(self.h.max())

    @property
    def mu(self) -> float:
        return float(self.h.mean(dim=0).min())

    def gradient(self, x: Tensor, k: int) -> Tensor:
        return self.h * (x - self.a)


def quadratics(n: int, *, kappa: float, m: int = 8, seed: int = 0) -> Quadratics:
    draw = torch.Generator().manual_seed(seed)
    share = 0.5 + torch.rand(n, m, dtype=F64, generator=draw)
    h = torch.logspace(-math.log10(kappa), 0, m, dtype=F64) * share / share.mean(dim=0)
    return Quadratics(h, torch.randn(n, m, dtype=F64, generator=draw))


def distances(algorithm: Any, p: Quadratics, network: Network, lr: float) -> Iterator[float]:
    """From the minimiser, root mean square over the nodes, relative to the start's, for ever."""
    x0 = torch.zeros(p.a.shape[1], dtype=F64)
    first = float((x0 - p.best).norm())
    for state in dsgt.iterate(algorithm, p.gradient, network, x0, lr):
        yield float((algorithm.model(state) - p.best).square().sum(dim=1).mean().sqrt()) / first


@dataclass(frozen=True, order=True)
class Outcome:
    """Ordered: first who arrives sooner, then who is nearer in the end."""

    rounds: float
    """Until the distance is below the target; infinite where it is not."""
    distance: float
    """In the end."""
    lr: float
    bytes: int


def outcome(algorithm: Any, p: Quadratics, network: Network, lr: float, most: float) -> Outcome:
    try:
        for k, distance in enumerate(distances(algorithm, p, network, lr)):
            if distance < TARGET:
                return Outcome(k, distance, lr, network.traffic.bytes)
            if k >= most or distance > 1e3:
                return Outcome(math.inf, distance, lr, network.traffic.bytes)
    except dsgt.DivergedError:
        pass
    return Outcome(math.inf, math.inf, lr, 0)


def tuned(algorithm: Any, p: Quadratics, place: Place, most: int) -> Outcome:
    """The best over the grid. Who has arrived sets how long the others may take."""
    best = Outcome(math.inf, math.inf, math.nan, 0)
    for c in GRID:
        best = min(best, outcome(algorithm, p, place(), c / p.L, min(most, best.rounds)))
    return best


def on(weights: MatrixLike | Weights) -> Place:
    return lambda: Dense(weights)


def rows(title: str, lines: Sequence[tuple[str, str, Place]], p: Quadratics, *, most: int = 1000) -> list[Outcome]:
    """Print a line for every (label, method, network) and return what each reached."""
    found, shown = [], Table("", "lr L", f"rounds to {TARGET:g}", "vectors to each neighbour", title=title)
    for label, name, place in lines:
        best = tuned(method(name), p, place, most)
        arrived = best.rounds < math.inf
        reached = f"{best.rounds:.0f}" if arrived else f"never: {best.distance:.1e} after {most}"
        network = place()
        edges = network.inner.weights if isinstance(network, Around) else network.weights
        links = max(int((W != 0).sum() - (W.diagonal() != 0).sum()) for W in edges.matrices)
        sent = best.bytes / (8 * p.a.shape[1] * links)
        shown.add_row(label, f"{best.lr * p.L:.2g}", reached, f"{sent:.0f}" if arrived else "")
        found.append(best)
    Console(width=120).print(shown)
    return found


def acceleration() -> None:
    p, W = quadratics(16, kappa=1e3), topologies.metropolis(topologies.exponential(16))
    names = ["gnsd", "dsgt", f"acc-dngd:mu={p.mu:.4g}"]
    lines = [(name.partition(":")[0], name, on(W)) for name in names]
    found = rows("16 nodes, exponential graph, condition number 1000", lines, p, most=100_000)
    figure, (axes,) = panels(1, 1, width=5.0, height=3.2)
    for (label, name, place), best in zip(lines, found, strict=True):
        shown = list(itertools.islice(distances(method(name), p, place(), best.lr), int(best.rounds) + 1))
        axes.loglog(range(1, len(shown) + 1), shown, label=f"{label}, lr L = {best.lr * p.L:.2g}")
    axes.set(xlabel="rounds", ylabel="distance from the minimiser", title="16 nodes, condition number 1000")
    axes.legend()
    figure.savefig(FIGURES / "acceleration.png")


def gossip() -> None:
    n = 64
    W = topologies.metropolis(topologies.ring(n))
    figure, (axes,) = panels(1, 1, width=5.0, height=3.2)
    shown = Table("", "rounds until 1e-3 of a disagreement is left", "1e-6", title=f"Gossip on a ring of {n}")
    counts = sorted({round(1.03**i) for i in range(320)})
    left = {"plain": [topologies.rho(W) ** R for R in counts]}
    for name, kind in {"accelerated": several.accelerated, "Chebyshev": several.chebyshev}.items():
        left[name] = [topologies.rho(kind(Dense(W), R).weights.at(0)) for R in counts if R < 400]
    for name, shares in left.items():
        axes.loglog(counts[: len(shares)], shares, label=name)
        reached = [next(R for R, rest in zip(counts, shares, strict=False) if rest < goal) for goal in (1e-3, 1e-6)]
        shown.add_row(name, *map(str, reached))
    axes.set(xlabel="rounds of gossip", ylabel="share of a disagreement left", title=f"ring of {n}", ylim=(1e-7, 1.5))
    axes.legend()
    figure.savefig(FIGURES / "gossip.png")
    Console(width=120).print(shown)
    lines: list[tuple[str, str, Place]] = [
        ("dsgt", "dsgt", on(W)),
        ("dsgt, Chebyshev gossip", "dsgt", lambda: several.chebyshev(Dense(W))),
    ]
    rows(f"Ring of {n}, condition number 10", lines, quadratics(n, kappa=10), most=10_000)


def directed() -> None:
    p, graph = quadratics(16, kappa=10), topologies.directed_random(16, degree=3, seed=1)
    names = ["sgp", "gradient-push", "push-diging", "push-pull", "ab", "frost"]
    lines = [(name, name, on(suited(method(name).needs, graph, "metropolis")[0])) for name in names]
    rows("16 nodes, random graph, each tells three", lines, p)


def messages() -> None:
    p, W = quadratics(16, kappa=100), topologies.metropolis(topologies.exponential(16))
    names = ["dsgt", "aug-dgm", "exact-diffusion", "k-gt", "lu-gt", "led", "proxskip"]
    lines = [(name, name, on(W)) for name in names]
    lines.append(("atc-dpsgd, mixing every 4th round", "atc-dpsgd", on(topologies.Periodic(W, 4))))
    rows("16 nodes, exponential graph, condition number 100", lines, p, most=4000)


def momentum() -> None:
    p, W = quadratics(16, kappa=100), topologies.metropolis(topologies.exponential(16))
    names = ["dsgt", "atc-dpsgd", "momentum-dsgd", "decentlam", "qg-dsgdm", "momentum-tracking", "dsgt-hb"]
    names += ["dsgt-nesterov", "dsmt", f"acc-dngd:mu={p.mu:.4g}"]
    rows("16 nodes, exponential graph, condition number 100", [(name, name, on(W)) for name in names], p)


PARTS = {part.__name__: part for part in (acceleration, gossip, directed, messages, momentum)}

if __name__ == "__main__":
    with mpl.rc_context(STYLE):
        for name in sys.argv[1:] or PARTS:
            PARTS[name]()
