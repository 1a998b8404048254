"""DSBA, ESDACD and ADFS as published, in NumPy, written from the papers and without looking at dsgt's texts of them.

Each takes a least-squares problem (``oracle_reference.Sums``) and what is drawn, and gives the models round by round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


def incidence(n: int, edges: Sequence[tuple[int, int]]) -> Array:
    A = np.zeros((n, len(edges)))
    for e, (i, j) in enumerate(edges):
        A[i, e], A[j, e] = 1, -1
    return A


@dataclass
class Edges:
    """The constants of ESDACD, for any probabilities of the edges."""

    f: Sums
    edges: Sequence[tuple[int, int]]

    def __post_init__(self) -> None:
        H = [component(self.f, i, 0, 1)[0] for i in range(self.f.n)]
        self.mu, self.L = (np.array([np.linalg.eigvalsh(h)[at] for h in H]) for at in (0, -1))
        A = incidence(self.f.n, self.edges)
        self.sigma = float(np.linalg.eigvalsh(A.T @ np.diag(1 / self.L) @ A)[1 - self.f.n])  # of rank n - 1
        self.R = np.diag(np.linalg.pinv(A) @ A)

    def rho(self, p: Array) -> float:
        sums = np.array([1 / self.mu[i] + 1 / self.mu[j] for i, j in self.edges])
        return float(np.min(np.sqrt(p**2 * self.sigma / (sums * self.R))))


def esdacd(
    c: Edges, p: Array, drawn: Callable[[int], int], m: int, rounds: int
) -> tuple[list[Array], list[Array], list[Array]]:
    """grad f_i*(y_i) as each node last computed it, v, and grad f_i*(v_i)."""
    f, rho = c.f, c.rho(p)
    parts = [component(f, i, 0, 1) for i in range(f.n)]

    def dual(i: int, u: Array) -> Array:
        H, h = parts[i]
        return np.linalg.solve(H, u + h)

    x, v, last = (np.zeros((f.n, m)) for _ in range(3))
    seen, vs, outputs = [last.copy()], [v], [np.stack([dual(i, v[i]) for i in range(f.n)])]
    for k in range(rounds):
        e = drawn(k)
        i, j = c.edges[e]
        y = (x + rho * v) / (1 + rho)
        last[i], last[j] = dual(i, y[i]), dual(j, y[j])
        move = np.zeros_like(x)
        move[i], move[j] = last[i] - last[j], last[j] - last[i]
        new = (1 - rho) * v + rho * y - rho / (c.sigma * p[e]) * move
        x = y + rho * c.R[e] / p[e] * (new - (1 - rho) * v - rho * y)
        v = new
        seen.append(last.copy())
        vs.append(v)
        outputs.append(np.stack([dual(i, v[i]) for i in range(f.n)]))
    return seen, vs, outputs


@dataclass
class Virtual:
    """The constants of ADFS: every part of a node's samples is a virtual node."""

    f: Sums
    edges: Sequence[tuple[int, int]]
    q: int

    def __post_init__(self) -> None:
        f, q, self.c = self.f, self.q, self.f.l2
        one = np.eye(f.A[0].shape[1])
        self.parts = [[component(f, i, u, q) for u in range(q)] for i in range(f.n)]
        self.parts = [[((H - f.l2 * one) / q, h / q) for H, h in row] for row in self.parts]
        self.L = np.array([[np.linalg.eigvalsh(H)[-1] for H, _ in row] for row in self.parts])
        A = incidence(f.n, self.edges)
        self.kappa = 1 + self.L.sum(axis=1) / self.c
        lam = np.linalg.eigvalsh(A @ A.T)[1]
        self.mu2 = self.L * lam / (self.c * self.kappa[:, None])
        self.sigma = lam / (2 * self.c * self.kappa.max())
        self.R = np.diag(np.linalg.pinv(A) @ A)
        each = np.sqrt(1 + self.L / self.c)
        S, E = each.sum(), len(self.edges)
        rho_comm = np.sqrt(self.c * self.sigma / (2 * self.R.max())) / E
        rho_comp = np.sqrt(self.kappa.min() / (2 * self.kappa.max())) / S
        self.p_comp = max(0.5, 1 / (1 + rho_comp / rho_comm))
        self.rho = min(rho_comp * self.p_comp, rho_comm * (1 - self.p_comp))
        self.P = each / S * self.p_comp


def adfs(
    c: Virtual, drawn: Callable[[int], int | tuple[int, int]], m: int, rounds: int
) -> tuple[list[Array], list[Array]]:
    """y_i / c, and the sum of all v. ``drawn`` gives an edge's number, or a node and its part."""
    n, q, rho, sigma = c.f.n, c.q, c.rho, c.sigma
    v, y = np.zeros((n, m)), np.zeros((n, m))
    vs, ys = np.zeros((n, q, m)), np.zeros((n, q, m))
    delta = rho * (1 - rho) / (1 + rho)
    path, totals = [y / c.c], [v.sum(axis=0)]

    def waited(v: Array, y: Array) -> tuple[Array, Array]:
        return (1 - rho) * v + rho * y, delta * v + (1 - delta) * y

    for k in range(rounds):
        what = drawn(k)
        if isinstance(what, int):
            i, j = c.edges[what]
            P = (1 - c.p_comp) / len(c.edges)
            d = (y[i] - y[j]) / c.c
            (v, y), (vs, ys) = waited(v, y), waited(vs, ys)
            v[i] -= rho / (P * sigma) * d
            v[j] += rho / (P * sigma) * d
            move = rho**2 * (1 + c.R[what] / P) / (P * sigma * (1 + rho)) * d
            y[i] -= move
            y[j] += move
        else:
            i, u = what
            P, L, (H, h) = c.P[i, u], c.L[i, u], c.parts[i][u]
            s = c.mu2[i, u] * rho / (P * sigma)
            old_v, old_y, old_vs, old_ys = v[i].copy(), y[i].copy(), vs[i, u].copy(), ys[i, u].copy()
            z = (1 - rho) * old_vs + rho * old_ys + s * (old_y / c.c - old_ys / L)
            x = np.linalg.solve(s * np.eye(m) + (1 - s / L) * H, z + (1 - s / L) * h)
            (v, y), (vs, ys) = waited(v, y), waited(vs, ys)
            vs[i, u] = H @ x - h
            v[i] = (1 - rho) * (old_v + old_vs) + rho * (old_y + old_ys) - vs[i, u]
            for mine, v_old, y_old, v_new in ((y[i], old_v, old_y, v[i]), (ys[i, u], old_vs, old_ys, vs[i, u])):
                before = ((1 - rho**2 / P) * y_old - (1 - rho) * rho / P * v_old) / (1 + rho)
                mine[:] = before + rho * (1 + 1 / P) / (1 + rho) * v_new
        path.append(y / c.c)
        totals.append(v.sum(axis=0) + vs.sum(axis=(0, 1)))
    return path, totals
