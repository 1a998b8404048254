"""Oracles as published, in NumPy, written from the papers and without looking at dsgt.oracles.

Each takes the gradients of a least-squares problem whose node i holds A[i], b[i], and gives ``ask(X, k)``: what the
nodes answer in round k. What they draw is told to them, because it must be the same draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
Ask = Callable[[Array, int], Array]


@dataclass
class Sums:
    """f_i(x) = (n/N) sum over node i of (a'x - b)^2 / 2 + (l2/2) |x|^2."""

    A: Sequence[Array]
    b: Sequence[Array]
    l2: float

    @property
    def n(self) -> int:
        return len(self.A)

    @property
    def N(self) -> int:
        return sum(len(b) for b in self.b)

    def of(self, i: int, x: Array, rows: Array, scale: float) -> Array:
        a, b = self.A[i][rows], self.b[i][rows]
        return scale * a.T @ (a @ x - b) + self.l2 * x

    def full(self, X: Array) -> Array:
        return np.stack([self.of(i, X[i], np.arange(len(self.b[i])), self.n / self.N) for i in range(self.n)])

    def part(self, X: Array, j: Array, q: int) -> Array:
        found = []
        for i in range(self.n):
            edges = [t * len(self.b[i]) // q for t in range(q + 1)]
            found.append(self.of(i, X[i], np.arange(edges[j[i]], edges[j[i] + 1]), self.n * q / self.N))
        return np.stack(found)

    def batch(self, X: Array, drawn: Sequence[Array]) -> Array:
        """A mean over the drawn samples, of n N_i / N times their gradients."""
        scales = [self.n * len(self.b[i]) / self.N / len(drawn[i]) for i in range(self.n)]
        return np.stack([self.of(i, X[i], drawn[i], scales[i]) for i in range(self.n)])


def saga(f: Sums, X0: Array, q: int, j: Callable[[int], Array]) -> Ask:
    table = [[f.part(X0, np.full(f.n, u), q)[i] for u in range(q)] for i in range(f.n)]

    def ask(X: Array, k: int) -> Array:
        u = j(k)
        new = f.part(X, u, q)
        v = np.stack([new[i] - table[i][u[i]] + np.mean(table[i], axis=0) for i in range(f.n)])
        for i in range(f.n):
            table[i][u[i]] = new[i]
        return v

    return ask


def sag(f: Sums, X0: Array, q: int, j: Callable[[int], Array]) -> Ask:
    table = [[f.part(X0, np.full(f.n, u), q)[i] for u in range(q)] for i in range(f.n)]

    def ask(X: Array, k: int) -> Array:
        u = j(k)
        new = f.part(X, u, q)
        v = np.stack([(new[i] - table[i][u[i]]) / q + np.mean(table[i], axis=0) for i in range(f.n)])
        for i in range(f.n):
            table[i][u[i]] = new[i]
        return v

    return ask


def svrg(f: Sums, every: Callable[[int], bool], batch: Callable[[int], Sequence[Array]]) -> Ask:
    kept: dict[str, Array] = {}

    def ask(X: Array, k: int) -> Array:
        if every(k):
            kept["z"], kept["mu"] = X.copy(), f.full(X)
        return f.batch(X, batch(k)) - f.batch(kept["z"], batch(k)) + kept["mu"]

    return ask


def sarah(f: Sums, every: Callable[[int], bool], batch: Callable[[int], Sequence[Array]]) -> Ask:
    kept: dict[str, Array] = {}

    def ask(X: Array, k: int) -> Array:
        v = f.full(X) if every(k) else kept["v"] + f.batch(X, batch(k)) - f.batch(kept["X"], batch(k))
        kept["X"], kept["v"] = X.copy(), v
        return v

    return ask


def storm(f: Sums, beta: float, batch: Callable[[int], Sequence[Array]]) -> Ask:
    kept: dict[str, Array] = {}

    def ask(X: Array, k: int) -> Array:
        v = f.batch(X, batch(k))
        if kept:
            v = v + (1 - beta) * (kept["v"] - f.batch(kept["X"], batch(k)))
        kept["X"], kept["v"] = X.copy(), v
        return v

    return ask


def momentum(f: Sums, beta: float, batch: Callable[[int], Sequence[Array]]) -> Ask:
    past: list[Array] = []

    def ask(X: Array, k: int) -> Array:
        past.append(f.batch(X, batch(k)))
        return sum((1 - beta) * beta ** (k - t) * g for t, g in enumerate(past))

    return ask


def stale(f: Sums, tau: Callable[[int], Array], batch: Callable[[int], Sequence[Array]]) -> Ask:
    past: list[Array] = []

    def ask(X: Array, k: int) -> Array:
        past.append(X.copy())
        return f.batch(np.stack([past[k - tau(k)[i]][i] for i in range(f.n)]), batch(k))

    return ask


def avrg(f: Sums, q: int, order: Callable[[int], Array]) -> Ask:
    kept: dict[str, Array] = {}

    def ask(X: Array, k: int) -> Array:
        t, i = divmod(k, q)
        if i == 0:
            kept["w0"], kept["g"], kept["next"] = X.copy(), kept.get("next", 0.0), np.zeros_like(X)
        u = order(t)[:, i]
        g = f.part(X, u, q)
        kept["next"] = kept["next"] + g / q
        return g if t == 0 else g - f.part(kept["w0"], u, q) + kept["g"]

    return ask
