"""Every method once more, as published: stacked NumPy, two-step recursions, explicit first steps.

Shares no code with dsgt but the coins, so that agreement means something. ``G(X, k)`` gives the gradients of round k,
``W(k)`` the weights of round k, ``lr(k)`` the learning rate. A message sent in round k travels over W(k); the first
messages of the combine-then-adapt methods travel over W(0).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dsgt import randomness
from support.compressed_reference import COMPRESSED
from support.edge_reference import clipped_gossip, median, relay_sgd, rps, trimmed_mean

Array = np.ndarray
Gradient = Callable[[Array, int], Array]
Weights = Callable[[int], Array]
"""With a second one as its attribute ``push``, where a method mixes with two."""
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


def osgp(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, tau: int = 1) -> list[Array]:
    path, U, w, sent = [X], X, np.ones((len(X), 1)), []
    for k in range(rounds):
        own = np.diag(np.diag(W(k)))
        Z = np.hstack([U - lr(k) * G(X, k), w])
        sent.append((W(k) - own) @ Z)
        Z = own @ Z + (sent[k - tau] if k >= tau else 0)
        U, w = Z[:, :-1], Z[:, -1:]
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
    G: Gradient,
    W: Weights,
    X: Array,
    lr: Rate,
    rounds: int,
    beta: float = 0.9,
    mu: float = 0.9,
    nesterov: bool = False,
) -> list[Array]:
    path, quasi_global = [X], np.zeros_like(X)
    for k in range(rounds):
        S = G(X, k)
        M = beta * quasi_global + S
        X, before = W(k) @ (X - lr(k) * (S + beta * M if nesterov else M)), X
        quasi_global = mu * quasi_global + (1 - mu) * (before - X) / lr(k)
        path.append(X)
    return path


def momentum_tracking(
    G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, beta: float = 0.9, published_start: bool = False
) -> list[Array]:
    path, U, C = [X], np.zeros_like(X), np.zeros_like(X)
    if published_start:
        S = G(X, 0)
        U = C = (S - S.mean(axis=0)) / (1 - beta)
    for k in range(rounds):
        U = beta * U + G(X, k)
        X = W(max(k - 1, 0)) @ X - lr(k) * (U - C)
        C = W(k) @ (C - U) + U
        path.append(X)
    return path


def dsgt_hb(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, beta: float = 0.9) -> list[Array]:
    path, S = [X], G(X, 0)
    Y = W(0) @ S
    U = (1 - beta) * Y
    for k in range(rounds):
        X = W(k) @ (X - lr(k) * U)
        path.append(X)
        new = G(X, k + 1)
        Y, S = W(k + 1) @ (Y + new - S), new
        U = beta * U + (1 - beta) * Y
    return path


def dsgt_nesterov(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, beta: float = 0.9) -> list[Array]:
    """Published nowhere: DSGT with torch.optim.SGD(momentum=beta, nesterov=True) fed with the tracker."""
    path, S = [X], G(X, 0)
    Y, buffer = S, np.zeros_like(X)
    for k in range(rounds):
        buffer = beta * buffer + Y
        X = W(k) @ (X - lr(k) * (Y + beta * buffer))
        path.append(X)
        new = G(X, k + 1)
        Y, S = W(k) @ Y + new - S, new
    return path


def dsmt(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, lam: float = 0.9) -> list[Array]:
    """The first Y is mixed, as all others are."""
    r = (1 - np.sqrt(1 - lam**2)) / (1 + np.sqrt(1 - lam**2))
    ew = (1 + r) / 2
    be = np.sqrt(ew)
    path, half = [X], (np.eye(len(X)) + W(0)) / 2
    Xl, Y, Yl, Z = X, np.zeros_like(X), np.zeros_like(X), np.zeros_like(X)
    for k in range(rounds):
        new = be * Z + (1 - be) * G(X, k)
        Yt, Ylt = Y + new - Z, Yl + new - Z
        Y, Yl, Z = (1 + ew) * half @ Yt - ew * Ylt, Yt, new
        Xt, Xlt = X - lr(k) * Y, Xl - lr(k) * Y
        X, Xl = (1 + ew) * half @ Xt - ew * Xlt, Xt
        path.append(X)
    return path


def acc_dngd(G: Gradient, W: Weights, Y: Array, lr: Rate, rounds: int, mu: float = 0.01, L: float = 1.0) -> list[Array]:
    """With mu = 0 the form for convex functions, for a constant step."""
    path, V, new = [Y], Y, G(Y, 0)
    S, alpha = new, np.sqrt((mu or L) * lr(0))
    for k in range(rounds):
        A, eta = W(max(k - 1, 0)), lr(k)
        if mu:
            alpha = np.sqrt(mu * eta)
            X = A @ Y - eta * S
            V = (1 - alpha) * A @ V + alpha * A @ Y - eta / alpha * S
            Y = (X + alpha * V) / (1 + alpha)
        else:
            X, V = A @ Y - eta * S, A @ V - eta / alpha * S
            alpha = (np.sqrt(alpha**4 + 4 * alpha**2) - alpha**2) / 2
            Y = (1 - alpha) * X + alpha * V
        path.append(Y)
        old, new = new, G(Y, k + 1)
        S = W(k) @ S + new - old
    return path


def gtadam(
    G: Gradient,
    W: Weights,
    X: Array,
    lr: Rate,
    rounds: int,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 0.01,
    cap: float = np.inf,
) -> list[Array]:
    path, S = [X], G(X, 0)
    Y, M, V = S, np.zeros_like(X), np.zeros_like(X)
    for k in range(rounds):
        M = beta1 * M + (1 - beta1) * Y
        V = np.minimum(beta2 * V + (1 - beta2) * Y**2, cap)
        X = W(max(k - 1, 0)) @ X - lr(k) * M / np.sqrt(V + eps)
        path.append(X)
        new = G(X, k + 1)
        Y, S = W(k) @ Y + new - S, new
    return path


def decentralized_amsgrad(
    G: Gradient,
    W: Weights,
    X: Array,
    lr: Rate,
    rounds: int,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 0.01,
) -> list[Array]:
    path, M, v = [X], np.zeros_like(X), np.zeros_like(X)
    highest = WU = np.full_like(X, eps)
    for k in range(rounds):
        S = G(X, k)
        M, v = beta1 * M + (1 - beta1) * S, beta2 * v + (1 - beta2) * S**2
        X = W(max(k - 1, 0)) @ X - lr(k) * M / np.sqrt(np.maximum(WU, eps))
        path.append(X)
        higher = np.maximum(highest, v)
        U, highest = WU + higher - highest, higher
        WU = W(k) @ U
    return path


def dda(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    """With psi = |x - x_0|^2 / 2, and no constraint."""
    path, start, Z = [X], X, np.zeros_like(X)
    for k in range(rounds):
        Z = W(max(k - 1, 0)) @ Z + G(X, k)
        X = start - lr(k) * Z
        path.append(X)
    return path


def gradient_push(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    """Combine, then adapt; the first messages travel over W(0)."""
    A, path, w = W(0), [], np.ones((len(X), 1))
    for k in range(rounds + 1):
        mixed, w = A @ X, A @ w
        Z = mixed / w
        path.append(Z)
        X, A = mixed - lr(k) * G(Z, k), W(k)
    return path


def push_diging(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    path, U, v, S = [X], X, np.ones((len(X), 1)), G(X, 0)
    Y = S
    for k in range(rounds):
        U, v = W(k) @ (U - lr(k) * Y), W(k) @ v
        X = U / v
        path.append(X)
        new = G(X, k + 1)
        Y, S = W(k) @ Y + new - S, new
    return path


def push_pull(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    path, S = [X], G(X, 0)
    Y = S
    for k in range(rounds):
        X = W(k) @ (X - lr(k) * Y)
        path.append(X)
        new = G(X, k + 1)
        Y, S = W.push(k) @ Y + new - S, new
    return path


def ab(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    path, S = [X], G(X, 0)
    Y = S
    for k in range(rounds):
        X = W(max(k - 1, 0)) @ X - lr(k) * Y
        path.append(X)
        new = G(X, k + 1)
        Y, S = W.push(k) @ Y + new - S, new
    return path


def frost(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int) -> list[Array]:
    """For the sum of the nodes' functions: a step is lr / n."""
    path, V, S = [X], np.eye(len(X)), G(X, 0)
    Y = S
    for k in range(rounds):
        X = W(max(k - 1, 0)) @ X - lr(k) / len(X) * Y
        path.append(X)
        V = W(max(k - 1, 0)) @ V
        new = G(X, k + 1) / np.diag(V)[:, None]
        Y, S = W(k) @ Y + new - S, new
    return path


def k_gt(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, K: int = 4, eta: float = 1.0) -> list[Array]:
    """Where lr changes within a phase, K eta_c is the sum of its steps."""
    path, C = [X], np.zeros_like(X)
    for first in range(0, rounds, K):
        Z, length = X, 0.0
        for k in range(first, min(first + K, rounds)):
            Z = Z - lr(k) * (G(Z, k) + C)
            length += lr(k)
            path.append(Z)
        if first + K <= rounds:
            D = (X - Z) / length
            A = W(first + K - 1)
            X, C = A @ (X - length * eta * D), C - D + A @ D
            path[-1] = X
    return path


def led(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, K: int = 4, beta: float = 1.0) -> list[Array]:
    path, Y, phi = [X], np.zeros_like(X), X
    for k in range(rounds):
        phi = phi - lr(k) * G(phi, k) - beta / K * Y
        if k % K == K - 1:
            mixed = W(k) @ phi
            Y, phi = Y + phi - mixed, mixed
        path.append(phi)
    return path


def proxskip(
    G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, p: float = 0.2, a: float = 0.5, seed: int = 0
) -> list[Array]:
    path, Y = [X], np.zeros_like(X)
    for k in range(rounds):
        Z = X - lr(k) * G(X, k) - Y
        X = Z
        if float(randomness.uniform(seed, k)) < p:
            X = (1 - a) * Z + a * W(k) @ Z
            Y = Y + p * (Z - X)
        path.append(X)
    return path


def lu_gt(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, K: int = 4) -> list[Array]:
    eye = np.eye(len(X))

    def M(k: int) -> Array:
        return W(k) if k % K == K - 1 else eye

    return aug_dgm(G, M, X, lr, rounds)


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
    "osgp": osgp,
    "decentlam": decentlam,
    "momentum-dsgd": momentum_dsgd,
    "qg-dsgdm": qg_dsgdm,
    "momentum-tracking": momentum_tracking,
    "dsgt-hb": dsgt_hb,
    "dsgt-nesterov": dsgt_nesterov,
    "dsmt": dsmt,
    "acc-dngd": acc_dngd,
    "gtadam": gtadam,
    "decentralized-amsgrad": decentralized_amsgrad,
    "dda": dda,
    "gradient-push": gradient_push,
    "push-diging": push_diging,
    "clipped-gossip": clipped_gossip,
    "trimmed-mean": trimmed_mean,
    "median": median,
    "relay-sgd": relay_sgd,
    "rps": rps,
    "push-pull": push_pull,
    "ab": ab,
    "frost": frost,
    "k-gt": k_gt,
    "led": led,
    "proxskip": proxskip,
    "lu-gt": lu_gt,
} | COMPRESSED
