"""Methods that look at single messages, as published: loops over nodes and neighbours, in NumPy (see reference.py)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Gradient = Callable[[Array, int], Array]
Weights = Callable[[int], Array]
Rate = Callable[[int], float]


def neighbours(W: Array, i: int) -> list[int]:
    return [j for j in range(len(W)) if j != i and W[i, j] != 0]


def clipped_gossip(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, tau: float = 1.0) -> list[Array]:
    path = [X]
    for k in range(rounds):
        half, new = X - lr(k) * G(X, k), []
        for i in range(len(X)):
            x = half[i].copy()
            for j in neighbours(W(k), i):
                d = half[j] - half[i]
                size = np.sqrt(d @ d)
                x += W(k)[i, j] * (d if size <= tau else tau * d / size)
            new.append(x)
        X = np.stack(new)
        path.append(X)
    return path


def trimmed_mean(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, b: int = 1) -> list[Array]:
    path = [X]
    for k in range(rounds):
        new, g = np.empty_like(X), G(X, k)
        for i in range(len(X)):
            for c in range(X.shape[1]):
                heard = sorted(X[j, c] for j in neighbours(W(k), i))
                left = heard[b : len(heard) - b]
                new[i, c] = np.mean([X[i, c], *left]) - lr(k) * g[i, c]
        X = new
        path.append(X)
    return path


def median(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    path = [X]
    for k in range(rounds):
        g = G(X, k)
        X = np.stack([np.median(X[[i, *neighbours(W(k), i)]], axis=0) for i in range(len(X))]) - lr(k) * g
        path.append(X)
    return path


def relay_sgd(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    n, start, path = len(X), X, [X]
    around = [neighbours(W(0), i) for i in range(n)]
    message: dict[tuple[int, int], Array] = {}
    count: dict[tuple[int, int], int] = {}
    for k in range(rounds):
        X = X - lr(k) * G(X, k)
        pairs = [(i, j) for i in range(n) for j in around[i]]
        message, count = (
            {(i, j): X[i] + sum(message.get((h, i), 0) for h in around[i] if h != j) for i, j in pairs},
            {(i, j): 1 + sum(count.get((h, i), 0) for h in around[i] if h != j) for i, j in pairs},
        )
        heard = [sum((message[j, i] for j in around[i]), X[i]) for i in range(n)]
        missing = [n - 1 - sum(count[j, i] for j in around[i]) for i in range(n)]
        X = np.stack([(heard[i] + missing[i] * start[i]) / n for i in range(n)])
        path.append(X)
    return path


def rps(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, answers: Weights | None = None) -> list[Array]:
    """A message from i to j arrives in the first half of round k where W(k)[j, i] is not zero, in the second where
    answers(k)[j, i] is not."""
    n, path = len(X), [X]
    back = answers or W
    for k in range(rounds):
        V = X - lr(k) * G(X, k)
        blocks = [[b for b in range(V.shape[1]) if b // -(-V.shape[1] // n) == j] for j in range(n)]
        X = V.copy()
        for j in range(n):
            mean = np.mean([V[i, blocks[j]] for i in [j, *neighbours(W(k), j)]], axis=0)
            for i in range(n):
                if i == j or back(k)[i, j] != 0:
                    X[i, blocks[j]] = mean
        path.append(X)
    return path


def epigraph(
    G: Gradient,
    F: Callable[[int, Array], float],
    W: Weights,
    X: Array,
    lr: Rate,
    rounds: int,
    pick: Callable[[int, int], tuple[Array, float] | None],
    beta: float,
) -> list[Array]:
    """Xie et al. over half-spaces a'x <= c; ``pick(i, k)`` is the one that node i looks at in round k. The models are
    those where f_i is asked: after the half-space, before the step towards the epigraph."""
    n, path = len(X), [X]
    Z = np.concatenate([X, np.zeros((n, n))], axis=1)
    m = X.shape[1]
    for k in range(rounds):
        g = G(Z[:, :m], k)
        for i in range(n):
            v = F(i, Z[i, :m]) - Z[i, m + i]
            if v > 0:
                w = np.concatenate([g[i], -np.eye(n)[i]])
                Z[i] = Z[i] - beta * v * w / (w @ w)
        Z = W(k) @ Z
        Z[:, m:] -= lr(k) / n
        for i in range(n):
            picked = pick(i, k)
            if picked is not None and (over := picked[0] @ Z[i, :m] - picked[1]) > 0:
                Z[i, :m] -= beta * over * picked[0] / (picked[0] @ picked[0])
        path.append(Z[:, :m].copy())
    return path
