"""Methods with compressed messages, as published: every node's copies of its neighbours, products with W, no flows.

Compressors are written again in NumPy; they share the random numbers with dsgt, as the coins of reference.py. Copies
begin at the models that the nodes begin with.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from dsgt import randomness
from dsgt.compression import Draw
from dsgt.compression.base import Uniform

Array = np.ndarray
Gradient = Callable[[Array, int], Array]
Weights = Callable[[int], Array]
Rate = Callable[[int], float]
Compress = Callable[..., Array]
"""C(V, k, stream)."""


def top_k(share: float) -> Compress:
    def kept(V: Array, k: int, stream: int = 0) -> Array:
        out = np.zeros_like(V)
        for i, v in enumerate(V):
            best = np.argsort(-np.abs(v))[: max(1, round(share * len(v)))]
            out[i, best] = v[best]
        return out

    return kept


def quantise(bits: int) -> Compress:
    """For vectors of one block."""
    levels = 2 ** (bits - 1) - 1

    def rounded(V: Array, k: int, stream: int = 0) -> Array:
        u = Draw(torch.arange(len(V))[:, None], k, stream).uniform(0).dither(V.shape[1]).double().numpy()
        out = np.zeros_like(V)
        for i, v in enumerate(V):
            largest = np.abs(v).max()
            scale = np.float32(largest)
            if scale < largest:
                scale = np.nextafter(scale, np.float32(np.inf))
            if scale > 0:
                out[i] = np.floor(v / np.float64(scale) * levels + u[i]) / levels * np.float64(scale)
        return out

    return rounded


def identity(V: Array, k: int, stream: int = 0) -> Array:
    return V


TOP, FINE, ROUGH = top_k(0.4), quantise(8), quantise(4)


def choco(
    G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, C: Compress = TOP, gamma: float = 0.4
) -> list[Array]:
    path, H = [X], X
    for k in range(rounds):
        half = X - lr(k) * G(X, k)
        H = H + C(half - H, k)
        X = half + gamma * (W(k) @ H - H)
        path.append(X)
    return path


def dcd_psgd(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, C: Compress = FINE) -> list[Array]:
    path = [X]
    for k in range(rounds):
        X = X + C(W(k) @ X - lr(k) * G(X, k) - X, k)
        path.append(X)
    return path


def ecd_psgd(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, C: Compress = FINE) -> list[Array]:
    path, T = [X], X
    for k in range(rounds):
        new, t = W(k) @ T - lr(k) * G(X, k), k + 1
        T = (1 - 2 / t) * T + 2 / t * C((1 - t / 2) * X + t / 2 * new, k)
        X = new
        path.append(X)
    return path


def c_gt(
    G: Gradient,
    W: Weights,
    X: Array,
    lr: Rate,
    rounds: int,
    C: Compress = TOP,
    gamma: float = 0.4,
    alpha: float = 0.8,
) -> list[Array]:
    path, S = [X], G(X, 0)
    V, H, H_w, Gh, Gh_w = S, X, W(0) @ X, 0 * X, 0 * X
    Q = 0 * X  # C(X - H) at the start, where H = X
    for k in range(rounds):
        P = C(V - Gh, k, 1)
        X_hat, X_w = H + Q, H_w + W(k) @ Q
        V_hat, V_w = Gh + P, Gh_w + W(k) @ P
        H, H_w, Gh, Gh_w = ((1 - alpha) * a + alpha * b for a, b in ((H, X_hat), (H_w, X_w), (Gh, V_hat), (Gh_w, V_w)))
        X = X - gamma * (X_hat - X_w) - lr(k) * V
        path.append(X)
        Q = C(X - H, k, 0)
        new = G(X, k + 1)
        V, S = V - gamma * (V_hat - V_w) + new - S, new
    return path


def beer(
    G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, C: Compress = TOP, gamma: float = 0.4
) -> list[Array]:
    path, S = [X], G(X, 0)
    V, H, Gh = S, X, 0 * X
    for k in range(rounds):
        Gh = Gh + C(V - Gh, k, 1)
        X = X + gamma * (W(k) @ H - H) - lr(k) * V
        path.append(X)
        H = H + C(X - H, k, 0)
        new = G(X, k + 1)
        V, S = V + gamma * (W(k) @ Gh - Gh) + new - S, new
    return path


def lead(
    G: Gradient,
    W: Weights,
    X: Array,
    lr: Rate,
    rounds: int,
    C: Compress = ROUGH,
    gamma: float = 0.8,
    alpha: float = 0.5,
) -> list[Array]:
    path, D, H, H_w = [X], 0 * X, X, W(0) @ X
    for k in range(rounds):
        S = G(X, k)
        Y = X - lr(k) * S - lr(k) * D
        q = C(Y - H, k)
        Y_hat, Y_w = H + q, H_w + W(k) @ q
        H, H_w = (1 - alpha) * H + alpha * Y_hat, (1 - alpha) * H_w + alpha * Y_w
        D = D + gamma / (2 * lr(k)) * (Y_hat - Y_w)
        X = X - lr(k) * S - lr(k) * D
        path.append(X)
    return path


def cedas(
    G: Gradient,
    W: Weights,
    X: Array,
    lr: Rate,
    rounds: int,
    C: Compress = ROUGH,
    gamma: float = 0.8,
    alpha: float = 0.5,
) -> list[Array]:
    path, d, H, H_w = [X], 0 * X, X, W(0) @ X
    for k in range(rounds):
        Y = X - lr(k) * G(X, k) - d
        q = C(Y - H, k)
        Y_hat, Y_w = H + q, H_w + W(k) @ q
        H, H_w = (1 - alpha) * H + alpha * Y_hat, (1 - alpha) * H_w + alpha * Y_w
        d = d + gamma / 2 * (Y_hat - Y_w)
        X = Y - gamma / 2 * (Y_hat - Y_w)
        path.append(X)
    return path


def deepsqueeze(
    G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, C: Compress = TOP, gamma: float = 0.4
) -> list[Array]:
    path, error = [X], 0 * X
    for k in range(rounds):
        half = X - lr(k) * G(X, k)
        v = half + error
        sent = C(v, k)
        error = v - sent
        X = half + gamma * (W(k) @ sent - sent)
        path.append(X)
    return path


def moniqua(G: Gradient, W: Weights, X: Array, lr: Rate, rounds: int, theta: float = 4.0, bits: int = 8) -> list[Array]:
    delta = 2.0**-bits
    B = 2 * theta / (1 - 2 * delta)

    def cmod(z: Array, a: float) -> Array:
        return z - a * np.floor(z / a + 0.5)

    path = [X]
    for k in range(rounds):
        u = Uniform(randomness.bits(0, torch.tensor([k]))).draw(X.shape[1]).numpy()
        Q = np.floor(cmod(X / B, 1) / delta + u) * delta
        S, new = G(X, k), X.copy()
        for i in range(len(X)):
            own = cmod(Q[i] * B - X[i], B) + X[i]
            for j in range(len(X)):
                if j != i:
                    new[i] += W(k)[i, j] * (cmod(Q[j] * B - X[i], B) + X[i] - own)
        X = new - lr(k) * S
        path.append(X)
    return path


COMPRESSED = {
    "choco": choco,
    "dcd-psgd": dcd_psgd,
    "ecd-psgd": ecd_psgd,
    "beer": beer,
    "c-gt": c_gt,
    "lead": lead,
    "cedas": cedas,
    "moniqua": moniqua,
    "deepsqueeze": deepsqueeze,
}
