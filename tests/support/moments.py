"""What gradient tracking does to quadratics, in expectation and exactly: means and covariances, round by round.

f_i(x) = sum_j h_ij (x_j - a_ij)^2 / 2 with any signs of h_ij, so nodes may be concave where their mean is convex. The
coordinates do not touch each other but through noise that grows with the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dsgt.theory import Constants
from dsgt.topologies.spectrum import rho

Array = np.ndarray


@dataclass(frozen=True)
class Quadratics:
    h: Array
    """(n, m)"""
    a: Array
    """(n, m)"""

    @property
    def mu(self) -> float:
        return float(self.h.mean(axis=0).min())

    @property
    def best(self) -> Array:
        return (self.h * self.a).sum(axis=0) / self.h.sum(axis=0)

    def constants(self, W: Array, x: Array, sigma2: float, lam: float) -> Constants:
        """From models x (n, m). The noise is shared equally by nodes and coordinates."""
        n, mean = len(x), x.mean(axis=0)
        g = self.h * (x - self.a)
        slope = self.h.sum(axis=0) * (x - self.best)
        total = sigma2 + lam**2 * (slope**2).sum()
        return Constants(
            n=n,
            L=float(abs(self.h).max()),
            mu=self.mu,
            rho=rho(W) if rho(W) > 1e-12 else 0.0,
            sigma2=sigma2,
            lam=lam,
            gap=float(n * (self.h.mean(axis=0) * (mean - self.best) ** 2).sum() / 2),
            distance2=float(((mean - self.best) ** 2).sum()),
            X1=float(((x - mean) ** 2).sum()),
            Y1=float(((g - g.mean(axis=0)) ** 2).sum() + (1 - 1 / n) * total),
        )


def expected(
    p: Quadratics, W: Array, lr: float, rounds: int, x: Array, *, sigma2: float = 0.0, lam: float = 0.0, mixed: bool
) -> Array:
    """(rounds + 1, 4): E|x̄ - x*|^2, E F(x̄) - F*, E||X - 1 x̄'||^2 and E||Y - 1 ȳ'||^2 before and after every round.

    With ``mixed`` Aug-DGM, else DSGT. Per coordinate the state is (X - x*, Y, noise of the last gradient).
    """
    n, m = p.h.shape
    one, none, V = np.eye(n), np.zeros((n, n)), W if mixed else np.eye(n)
    mean, cov = np.zeros((m, 3 * n)), np.zeros((m, 3 * n, 3 * n))
    mean[:, :n] = (x - p.best).T
    # the first Y is V S; from then on Y' = W Y + V (S' - S)
    first = np.stack([np.block([[one, none, none], [V * h, none, none], [none] * 3]) for h in p.h.T])
    later = np.stack([_step(W, V, h, lr) for h in p.h.T])
    E = np.vstack([none, V, one])
    rows = []
    for k in range(rounds + 1):
        step = later if k else first
        mean, cov = (step @ mean[..., None])[..., 0], step @ cov @ step.mT
        if k == 0:
            mean[:, n : 2 * n] -= (V @ (p.h * (p.a - p.best))).T
        second = mean[:, :n] ** 2 + np.diagonal(cov, axis1=1, axis2=2)[:, :n]
        slopes = (p.h.sum(axis=0)[:, None] ** 2 * second).sum(axis=0)  # E|grad f(x_i)|^2
        cov += (E * (sigma2 / n + lam**2 * slopes) / m) @ E.T
        rows.append(_look(p, mean, cov))
    return np.array(rows)


def _step(W: Array, V: Array, h: Array, lr: float) -> Array:
    n = len(W)
    one, none = np.eye(n), np.zeros((n, n))
    X = np.hstack([W, -lr * W, none])
    Y = np.hstack([none, W, -V]) + (V * h) @ (X - np.hstack([one, none, none]))
    return np.vstack([X, Y, np.zeros((n, 3 * n))])


def _look(p: Quadratics, mean: Array, cov: Array) -> Array:
    n = mean.shape[1] // 3
    second = mean[:, :, None] * mean[:, None, :] + cov  # E z z' per coordinate
    X, Y = second[:, :n, :n], second[:, n : 2 * n, n : 2 * n]
    bar = X.mean(axis=(1, 2))

    def apart(Z: Array) -> float:
        return float(np.trace(Z, axis1=1, axis2=2).sum() - n * Z.mean(axis=(1, 2)).sum())

    return np.array([bar.sum(), (p.h.mean(axis=0) * bar).sum() / 2, apart(X), apart(Y)])
