"""Problems whose constants are known exactly, and runs of DSGT for many seeds at once.

Every f_i is a sum of one-dimensional functions, so f* and x* are found on a grid, and seeds are stacked along the model
axis: (n, seeds * m). Noise is Gaussian with exactly the variance that Assumption 1 allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from dsgt.algorithms import DSGT
from dsgt.networks import Dense
from dsgt.theory import Constants
from dsgt.topologies.spectrum import rho
from dsgt.topologies.weights import metropolis

F64 = torch.float64


@dataclass(frozen=True)
class Shape:
    """A function of one variable with its derivative and the Lipschitz constant of the latter."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    L: float
    convex: bool


SHAPES = {
    "quadratic": Shape(lambda u: u**2 / 2, lambda u: u, 1.0, True),
    "log cosh": Shape(lambda u: torch.logaddexp(u, -u) - np.log(2), torch.tanh, 1.0, True),
    "log(1 + u^2)": Shape(lambda u: (1 + u**2).log(), lambda u: 2 * u / (1 + u**2), 2.0, False),
    "u^2 / (1 + u^2)": Shape(lambda u: u**2 / (1 + u**2), lambda u: 2 * u / (1 + u**2) ** 2, 2.0, False),
}


@dataclass(frozen=True)
class Known:
    """f_i(x) = c_i sum_j shape(x_j - a_ij)."""

    shape: Shape
    c: Tensor
    """(n, 1)"""
    a: Tensor
    """(n, m)"""

    @property
    def L(self) -> float:
        return self.shape.L * float(self.c.max())

    @cached_property
    def best(self) -> tuple[Tensor, float]:
        """The minimiser and the minimum of f, on a grid of 1e-3: a little too high, which makes bounds stricter."""
        t = torch.arange(float(self.a.min()) - 1, float(self.a.max()) + 1, 1e-3, dtype=F64)
        values = sum(c * self.shape.value(t[:, None] - a) for c, a in zip(self.c, self.a, strict=True))
        low = values.min(dim=0)
        return t[low.indices], float(low.values.sum())

    def f(self, x: Tensor) -> Tensor:
        """f at models (..., m)."""
        return (self.c * self.shape.value(x[..., None, :] - self.a)).sum(dim=(-1, -2))

    def grad_f(self, x: Tensor) -> Tensor:
        return (self.c * self.shape.slope(x[..., None, :] - self.a)).sum(dim=-2)

    def local(self, X: Tensor) -> Tensor:
        """The nodes' gradients at their own models (n, seeds, m)."""
        return self.c[:, None] * self.shape.slope(X - self.a[:, None])


def known(name: str, n: int, m: int = 2, *, spread: float = 2.0, seed: int = 0) -> Known:
    draw = torch.Generator().manual_seed(seed)
    c = 0.2 + 0.8 * torch.rand(n, 1, dtype=F64, generator=draw)
    return Known(SHAPES[name], c, spread * torch.randn(n, m, dtype=F64, generator=draw))


@dataclass(frozen=True)
class Trace:
    """Means over the seeds, for t = 1 ... K: what R(K) and R_c(K) average."""

    stationarity: np.ndarray
    excess: np.ndarray
    gradient: np.ndarray
    disagreement: np.ndarray
    Y1: float

    def mean(self, terms: np.ndarray, lr: Callable[[int], float]) -> np.ndarray:
        """R(1), R(2), ... from its terms."""
        gamma = np.array([lr(k) for k in range(len(terms))])
        return np.cumsum(gamma * terms) / np.cumsum(gamma)


def run_known(
    p: Known,
    W: np.ndarray,
    lr: Callable[[int], float],
    rounds: int,
    *,
    sigma: float = 0.0,
    lam: float = 0.0,
    x1: Tensor | None = None,
    seeds: int = 32,
) -> Trace:
    """sigma^2 = sum sigma_i^2, shared equally; lam as in Assumption 1 with grad f at the node's own model."""
    n, m = p.a.shape
    seeds = seeds if sigma or lam else 1
    draw = torch.Generator().manual_seed(0)
    network, algorithm = Dense(W), DSGT()
    x = torch.zeros(n, m, dtype=F64) if x1 is None else x1
    state = algorithm.init(x[:, None].expand(n, seeds, m).reshape(n, -1).clone(), network)
    rows = []
    Y1 = 0.0
    for k in range(rounds):
        X = state.x.view(n, seeds, m)
        mean = X.mean(dim=0)
        apart = (X - mean).square().sum(dim=(0, 2))
        slope = p.grad_f(mean).square().sum(dim=-1)
        excess = p.f(mean) - p.best[1] + p.L / 2 * apart
        rows.append(torch.stack([slope + n * p.L**2 * apart, excess, slope, apart]).mean(dim=1))
        g = p.local(X)
        if sigma or lam:
            variance = sigma**2 / n + (lam**2 * p.grad_f(X).square().sum(dim=-1, keepdim=True) if lam else 0.0)
            scale = variance**0.5 if isinstance(variance, float) else variance.sqrt()
            g = g + scale / m**0.5 * torch.randn(X.shape, dtype=F64, generator=draw)
        if k == 0:
            Y1 = float((g - g.mean(dim=0)).square().sum(dim=(0, 2)).mean())
        state = algorithm.update(state, g.reshape(n, -1), network, lr(k))
    return Trace(*torch.stack(rows).T.numpy(), Y1)


def constants(
    p: Known, W: np.ndarray, *, sigma: float = 0.0, lam: float = 0.0, x1: Tensor | None = None, Y1: float = 0.0
):
    n, m = p.a.shape
    x = torch.zeros(n, m, dtype=F64) if x1 is None else x1
    mean = x.mean(dim=0)
    return Constants(
        n=n,
        L=p.L,
        rho=rho(W) if rho(W) > 1e-12 else 0.0,
        sigma2=sigma**2,
        lam=lam,
        gap=max(0.0, float(p.f(mean)) - p.best[1]),
        distance2=float((mean - p.best[0]).square().sum()),
        X1=float((x - mean).square().sum()),
        Y1=Y1,
    )


def directed_ring(n: int) -> np.ndarray:
    """Doubly stochastic and not symmetric: everyone hears only the node before."""
    return 0.6 * np.eye(n) + 0.4 * np.roll(np.eye(n), 1, axis=1)


def uniform(n: int, r: float) -> np.ndarray:
    """rho(W) = r, exactly."""
    return (1 - r) / n + r * np.eye(n)


NETWORKS: dict[str, np.ndarray] = {
    "complete": np.full((6, 6), 1 / 6),
    "nearly complete": uniform(6, 0.1),
    "wheel": metropolis(nx.wheel_graph(6)),
    "random": metropolis(nx.gnm_random_graph(6, 9, seed=3)),
    "ring": metropolis(nx.cycle_graph(6)),
    "directed ring": directed_ring(6),
    "star": metropolis(nx.star_graph(5)),
    "path": metropolis(nx.path_graph(6)),
    "negative weights": 1.25 * metropolis(nx.star_graph(5)) - 0.25 * np.eye(6),
}
