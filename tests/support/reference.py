"""Every method once more, as published: stacked NumPy, two-step recursions, explicit first steps.

Shares no code with dsgt, so that agreement means something. ``G(X, k)`` gives the gradients of round k, ``W(k)`` the
weights of round k, ``lr(k)`` the learning rate. A message sent in round k travels over W(k); the first messages of
the combine-then-adapt methods travel over W(0).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Gradient = Callable[[Array, int], Array]
Weights = Callable[[int], Array]
Rate = Callable[[int], float]


def sgd(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    X = np.tile(X.mean(axis=0), (len(X), 1))
    path = [X]
    for k in range(rounds):
        X = np.tile((X - lr(k) * G(X, k)).mean(axis=0), (len(X), 1))
        path.append(X)
    return path


def dpsgd(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    path = [X]
    for k in range(rounds):
        X = W(max(k - 1, 0)) @ X - lr(k) * G(X, k)
        path.append(X)
    return path


def atc_dpsgd(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    path = [X]
    for k in range(rounds):
        X = W(k) @ (X - lr(k) * G(X, k))
        path.append(X)
    return path


def dsgt(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    path, S = [X], G(X, 0)
    Y = S
    for k in range(rounds):
        X = W(k) @ (X - lr(k) * Y)
        path.append(X)
        new = G(X, k + 1)
        Y, S = W(k) @ Y + new - S, new
    return path


def gnsd(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    path, S = [X], G(X, 0)
    Y = S
    for k in range(rounds):
        X = W(max(k - 1, 0)) @ X - lr(k) * Y
        path.append(X)
        new = G(X, k + 1)
        Y, S = W(k) @ Y + new - S, new
    return path


def aug_dgm(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    path, S = [X], G(X, 0)
    Y = W(0) @ S
    for k in range(rounds):
        X = W(k) @ (X - lr(k) * Y)
        path.append(X)
        new = G(X, k + 1)
        Y, S = W(k + 1) @ (Y + new - S), new
    return path


def extra(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    A, before, S = W(0), X, G(X, 0)
    X = A @ X - lr(0) * S
    path = [before, X]
    for k in range(1, rounds):
        new = G(X, k)
        half = (before + A @ before) / 2
        X, before = X + A @ X - half - lr(k) * new + lr(k - 1) * S, X
        S = new
        path.append(X)
    return path


def two_step(G: Gradient, A: Array, X: Array, lr: Rate, rounds: int) -> list[Array]:
    """X'' = A (2 X' - X - lr' S' + lr S): D² with A = W, Exact Diffusion with A = (I + W)/2."""
    before, S = X, G(X, 0)
    X = A @ (X - lr(0) * S)
    path = [before, X]
    for k in range(1, rounds):
        new = G(X, k)
        X, before = A @ (2 * X - before - lr(k) * new + lr(k - 1) * S), X
        S = new
        path.append(X)
    return path


def d2(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    return two_step(G, W(0), X, lr, rounds)


def exact_diffusion(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    return two_step(G, (np.eye(len(X)) + W(0)) / 2, X, lr, rounds)


def sgp(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    path, U, w = [X], X, np.ones((len(X), 1))
    for k in range(rounds):
        U, w = W(k) @ (U - lr(k) * G(X, k)), W(k) @ w
        X = U / w
        path.append(X)
    return path


def decentlam(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, beta: float = 0.9) -> list[Array]:
    path, M = [X], np.zeros_like(X)
    for k in range(rounds):
        M = beta * M + (X - W(k) @ (X - lr(k) * G(X, k))) / lr(k)
        X = X - lr(k) * M
        path.append(X)
    return path


def momentum_dsgd(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, beta: float = 0.9) -> list[Array]:
    path, U = [X], np.zeros_like(X)
    for k in range(rounds):
        U = beta * U + G(X, k)
        X = X - lr(k) * U
        U, X = W(k) @ U, W(k) @ X
        path.append(X)
    return path


def qg_dsgdm(
    G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, beta: float = 0.9, mu: float = 0.9
) -> list[Array]:
    path, quasi_global = [X], np.zeros_like(X)
    for k in range(rounds):
        M = beta * quasi_global + G(X, k)
        X, before = W(k) @ (X - lr(k) * M), X
        quasi_global = mu * quasi_global + (1 - mu) * (before - X) / lr(k)
        path.append(X)
    return path


REFERENCE = {
    "sgd": sgd,
    "dpsgd": dpsgd,
    "atc-dpsgd": atc_dpsgd,
    "dsgt": dsgt,
    "gnsd": gnsd,
    "aug-dgm": aug_dgm,
    "extra": extra,
    "exact-diffusion": exact_diffusion,
    "d2": d2,
    "sgp": sgp,
    "decentlam": decentlam,
    "momentum-dsgd": momentum_dsgd,
    "qg-dsgdm": qg_dsgdm,
}
