"""DSBA, ESDACD and ADFS as published, in NumPy, written from the papers and without looking at dsgt's texts of them.

Each takes a least-squares problem (``oracle_reference.Sums``) and what is drawn, and gives the models round by round.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from support.oracle_reference import Array, Sums


def component(f: Sums, i: int, u: int, q: int) -> tuple[Array, Array]:
    """H, h of part u of node i, penalty included: its gradient is H x - h."""
    edges = [t * len(f.b[i]) // q for t in range(q + 1)]
    a, b = (M[i][edges[u] : edges[u + 1]] for M in (f.A, f.b))
    scale = f.n * q / f.N
    return scale * a.T @ a + f.l2 * np.eye(a.shape[1]), scale * a.T @ b


def dsba(f: Sums, W: Array, X0: Array, lr: float, q: int, j: Callable[[int], Array], rounds: int) -> list[Array]:
    Wt, one = (np.eye(f.n) + W) / 2, np.eye(X0.shape[1])
    parts = [[component(f, i, u, q) for u in range(q)] for i in range(f.n)]
    phi = np.stack([[H @ X0[i] - h for H, h in parts[i]] for i in range(f.n)])
    path, delta = [X0], np.zeros_like(X0)
    for t in range(rounds):
        u = j(t)
        old = np.stack([phi[i, u[i]] for i in range(f.n)])
        if t == 0:
            psi = W @ X0 + lr * (old - phi.mean(axis=1))
        else:
            psi = Wt @ (2 * path[-1] - path[-2]) + lr * ((q - 1) / q * delta + old)
        Z = []
        for i in range(f.n):
            H, h = parts[i][u[i]]
            Z.append(np.linalg.solve(one + lr * H, psi[i] + lr * h))
            phi[i, u[i]] = H @ Z[i] - h
        path.append(np.stack(Z))
        delta = np.stack([phi[i, u[i]] for i in range(f.n)]) - old
    return path
