"""Dual and primal-dual methods as published, in NumPy, written from the papers and without looking at dsgt.algorithms.

``Lap`` is a gossip matrix: symmetric, positive semidefinite, and 0 for equal models only. Each gives every iterate.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Answer = Callable[[Array], Array]
"""(n, m) -> (n, m): every node's answer at its own point."""


def gap(Lap: Array) -> tuple[float, float]:
    """gamma, the ratio of the lowest to the highest nonzero eigenvalue, and the highest."""
    eigenvalues = np.sort(np.linalg.eigvalsh(Lap))
    return float(eigenvalues[1] / eigenvalues[-1]), float(eigenvalues[-1])


def c1_of(Lap: Array) -> float:
    gamma, _ = gap(Lap)
    return float((1 - np.sqrt(gamma)) / (1 + np.sqrt(gamma)))


def published_rounds(Lap: Array) -> int:
    return int(np.floor(1 / np.sqrt(gap(Lap)[0])))


def acc_gossip(Lap: Array, K: int) -> Answer:
    """x -> P_K(Lap) x."""
    gamma, high = gap(Lap)
    c2, c3 = (1 + gamma) / (1 - gamma), 2 / ((1 + gamma) * high)

    def P(x: Array) -> Array:
        a = [1.0, c2]
        xs = [x, c2 * (x - c3 * Lap @ x)]
        for _ in range(1, K):
            a.append(2 * c2 * a[-1] - a[-2])
            xs.append(2 * c2 * (xs[-1] - c3 * Lap @ xs[-1]) - xs[-2])
        return x - xs[K] / a[K]

    return P


def ssda(dual: Answer, Lap: Array, shape: tuple[int, int], alpha: float, L: float, T: int) -> list[tuple[Array, Array]]:
    """(theta_t, x_t) of t = 0 ... T - 1."""
    gamma, high = gap(Lap)
    eta, kappa = alpha / high, L / alpha
    mu = (np.sqrt(kappa) - np.sqrt(gamma)) / (np.sqrt(kappa) + np.sqrt(gamma))
    x, y, found = np.zeros(shape), np.zeros(shape), []
    for _ in range(T):
        theta = dual(x)
        found.append((theta, x))
        y_new = x - eta * Lap @ theta
        x, y = (1 + mu) * y_new - mu * y, y_new
    return found


def msda(
    dual: Answer, Lap: Array, shape: tuple[int, int], alpha: float, L: float, T: int, K: int
) -> list[tuple[Array, Array]]:
    c, kappa, P = c1_of(Lap) ** K, L / alpha, acc_gossip(Lap, K)
    eta = alpha * (1 + c**2) / (1 + c) ** 2
    mu = ((1 + c) * np.sqrt(kappa) - 1 + c) / ((1 + c) * np.sqrt(kappa) + 1 - c)
    x, y, found = np.zeros(shape), np.zeros(shape), []
    for _ in range(T):
        theta = dual(x)
        found.append((theta, x))
        y_new = x - eta * P(theta)
        x, y = (1 + mu) * y_new - mu * y, y_new
    return found


def mspd(sub: Answer, Lap: Array, X: Array, eta: float, T: int, M: int, K: int) -> tuple[list[Array], list[Array]]:
    """Every z, and the mean of the x_t so far after each t. X must be equal rows: then the first step is that of 0."""
    n, c = len(Lap), c1_of(Lap) ** K
    P, sigma = acc_gossip(Lap, K), (1 + c**2) / (eta * (1 + c) ** 2)
    Y, before, zs, ends, means = np.zeros_like(X), X, [], [], []
    for _ in range(T):
        Y = Y - sigma * P(2 * X - before)
        z = X
        for s in range(M):
            z = s / (s + 2) * z - 2 / (s + 2) * (eta / n * sub(z) - eta * Y - X)
            zs.append(z)
        before, X = X, z
        ends.append(X)
        means.append(np.mean(ends, axis=0))
    return zs, means


def dcs(
    sub: Answer, Lap: Array, x: Array, N: int, T: int, eta: float, tau: float
) -> tuple[list[Array], list[Array], list[Array]]:
    """Every u; after each outer step the mean of the averages so far, and w of the next one."""
    before, hat, y = x, None, np.zeros_like(x)
    us, hats, means, ws = [], [], [], []
    for _ in range(N):
        tilde = x if hat is None else hat + x - before
        y = y + Lap @ tilde / tau
        w = Lap @ y
        ws.append(w)
        u, weighted, weights = x, np.zeros_like(x), 0
        for t in range(1, T + 1):
            beta = t / 2
            u = (eta * x + eta * beta * u - (w + sub(u))) / (eta * (1 + beta))
            us.append(u)
            weighted, weights = weighted + (t + 1) * u, weights + t + 1
        before, x, hat = x, u, weighted / weights
        hats.append(hat)
        means.append(np.mean(hats, axis=0))
    return us, means, ws
