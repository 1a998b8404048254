"""The table of methods that the tests run over, and the problem they run on. A new method adds one row to CASES."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor

import dsgt
from dsgt import randomness
from dsgt.algorithms import COMPOSITIONS
from dsgt.algorithms.epigraph_projection import EpigraphProjection
from dsgt.compression import Quantise, TopK
from dsgt.constraints import Ball, Box, HalfSpace
from dsgt.core import Algorithm, Local
from dsgt.topologies import Activated, Cycle, Lossy, Pairs, Periodic, TwoMatrices
from dsgt.topologies.changing import as_weights
from dsgt.topologies.matrix import to_dense
from dsgt.topologies.weights import averaging, metropolis

F64 = torch.float64
Weights = Callable[[nx.Graph], Any]


def lazy(graph: nx.Graph) -> np.ndarray:
    """(I + W)/2: no negative eigenvalue, so D² may use it."""
    return (np.eye(len(graph)) + metropolis(graph)) / 2


def average(graph: nx.Graph) -> np.ndarray:
    return averaging(len(graph))


def push(graph: nx.Graph) -> np.ndarray:
    """Column stochastic and unbalanced: one edge is a one-way street, and every node tells equal shares."""
    directed = graph.to_directed()
    for edge in graph.edges:
        directed.remove_edge(*edge)
        if nx.is_strongly_connected(directed):
            break
        directed.add_edge(*edge)
    W = nx.to_numpy_array(directed, nodelist=range(len(graph))).T + np.eye(len(graph))
    return W / W.sum(axis=0)


def tree(graph: nx.Graph) -> np.ndarray:
    """Of the graph only so many edges that there is no circle."""
    return metropolis(nx.minimum_spanning_tree(graph))


def pull(graph: nx.Graph) -> np.ndarray:
    """Row stochastic over the same one-way street: every node listens to equal shares."""
    W = (push(graph) > 0).astype(float)
    return W / W.sum(axis=1, keepdims=True)


def both(graph: nx.Graph) -> TwoMatrices:
    return TwoMatrices(pull(graph), push(graph))


def changing(members: Sequence[Any]) -> Any:
    """The same weights one after the other, over and over again."""
    if isinstance(members[0], TwoMatrices):
        return TwoMatrices(Cycle([W.at(0) for W in members]), Cycle([W.push.at(0) for W in members]))
    return Cycle(members)


def relabelled(W: Any, order: Tensor) -> Any:
    """The same weights where the nodes have other numbers."""
    if isinstance(W, TwoMatrices):
        return TwoMatrices(relabelled(W.at(0), order), relabelled(W.push.at(0), order))
    return W[order][:, order]


class Rounds:
    """k -> the matrix of round k, and ``push(k)`` the second one: as the published recursions ask for them."""

    def __init__(self, W: Any) -> None:
        self._weights = as_weights(W)

    def __call__(self, k: int) -> np.ndarray:
        return to_dense(self._weights.at(k))

    def push(self, k: int) -> np.ndarray:
        return to_dense(self._weights.push.at(k))


KINDS: dict[str, Callable[[np.ndarray], dsgt.core.Weights]] = {
    "lossy": lambda W: Lossy(W, 0.3, seed=5),
    "lossy both ways": lambda W: Lossy(W, 0.3, seed=5, both_ways=True),
    "pairs": lambda W: Pairs(W, seed=5),
    "activated": lambda W: Activated(W, 0.6, seed=5),
    "periodic": lambda W: Periodic(W, 3),
}
"""Weights that change from round to round, made of one matrix. In some rounds a node hears and tells nobody."""


Rate = Callable[[int], float]
Mean = Callable[[Tensor, Sequence[Tensor], Rate], list[Tensor]]
"""Where the mean of the nodes is, round by round, if it starts at x and the mean gradients are these."""


@dataclass(frozen=True)
class HeavyBall:
    """Centralized SGD; with momentum, as torch.optim.SGD has it."""

    beta: float = 0.0

    def __call__(self, x: Tensor, gradients: Sequence[Tensor], lr: Rate) -> list[Tensor]:
        path, m = [x], torch.zeros_like(x)
        for k, g in enumerate(gradients):
            m = self.beta * m + g
            path.append(path[-1] - lr(k) * m)
        return path


@dataclass(frozen=True)
class QuasiGlobal:
    """The momentum is a moving mean of the steps."""

    beta: float
    mu: float

    def __call__(self, x: Tensor, gradients: Sequence[Tensor], lr: Rate) -> list[Tensor]:
        path, m = [x], torch.zeros_like(x)
        for k, g in enumerate(gradients):
            step = self.beta * m + g
            path.append(path[-1] - lr(k) * step)
            m = self.mu * m + (1 - self.mu) * step
        return path


@dataclass(frozen=True)
class Averaged:
    """SGD along a moving mean of the gradients."""

    beta: float

    def __call__(self, x: Tensor, gradients: Sequence[Tensor], lr: Rate) -> list[Tensor]:
        path, m = [x], torch.zeros_like(x)
        for k, g in enumerate(gradients):
            m = self.beta * m + (1 - self.beta) * g
            path.append(path[-1] - lr(k) * m)
        return path


@dataclass(frozen=True)
class Nesterov:
    """As torch.optim.SGD(nesterov=True) has it."""

    beta: float

    def __call__(self, x: Tensor, gradients: Sequence[Tensor], lr: Rate) -> list[Tensor]:
        path, m = [x], torch.zeros_like(x)
        for k, g in enumerate(gradients):
            m = self.beta * m + g
            path.append(path[-1] - lr(k) * (g + self.beta * m))
        return path


@dataclass(frozen=True)
class Accelerated:
    """Nesterov's scheme with three sequences, for strong convexity mu."""

    mu: float

    def __call__(self, y: Tensor, gradients: Sequence[Tensor], lr: Rate) -> list[Tensor]:
        path, v = [y], y
        for k, g in enumerate(gradients):
            alpha = (self.mu * lr(k)) ** 0.5
            x = path[-1] - lr(k) * g
            v = (1 - alpha) * v + alpha * path[-1] - lr(k) / alpha * g
            path.append((x + alpha * v) / (1 + alpha))
        return path


@dataclass(frozen=True)
class Adam:
    """Without correction of the start, eps under the root."""

    beta1: float
    beta2: float
    eps: float

    def __call__(self, x: Tensor, gradients: Sequence[Tensor], lr: Rate) -> list[Tensor]:
        path, m, v = [x], torch.zeros_like(x), torch.zeros_like(x)
        for k, g in enumerate(gradients):
            m, v = self.beta1 * m + (1 - self.beta1) * g, self.beta2 * v + (1 - self.beta2) * g**2
            path.append(path[-1] - lr(k) * m / (v + self.eps).sqrt())
        return path


@dataclass(frozen=True)
class AMSGrad:
    """Divides by the largest second moment before the present round."""

    beta1: float
    beta2: float
    eps: float

    def __call__(self, x: Tensor, gradients: Sequence[Tensor], lr: Rate) -> list[Tensor]:
        path, m, v, highest = [x], torch.zeros_like(x), torch.zeros_like(x), torch.full_like(x, self.eps)
        for k, g in enumerate(gradients):
            m, v = self.beta1 * m + (1 - self.beta1) * g, self.beta2 * v + (1 - self.beta2) * g**2
            path.append(path[-1] - lr(k) * m / highest.sqrt())
            highest = torch.maximum(highest, v)
        return path


def dual_averaging(x: Tensor, gradients: Sequence[Tensor], lr: Rate) -> list[Tensor]:
    """The start minus lr times the sum of all gradients."""
    sums = torch.stack(list(gradients)).cumsum(dim=0)
    return [x, *(x - lr(k) * total for k, total in enumerate(sums))]


@dataclass(frozen=True)
class Case:
    """What holds for one method; the tests of all methods ask this table and no name."""

    algorithm: Algorithm[Any]
    weights: Weights = metropolis
    mean: Mean = HeavyBall()
    """What the mean model does, whatever the network; also one node alone."""
    follows: bool = True
    """Whether it does so among many nodes too. Not if every node divides by numbers of its own, or leaves some out."""
    carrier: str = "x"
    """The field of the state whose mean over the nodes is that mean model."""
    mass: str | None = None
    """A field of the state whose sum over the nodes stays n."""
    atc: bool = False
    """With W = 11'/n and equal starts every node is the mean, step by step."""
    rotates: bool = True
    """Whether all directions of the space are alike to it; not if it looks at coordinates."""
    share: float = 0.2
    """Of 1/L: a learning rate at which it reaches the optimum of the quadratics below, if it is exact."""
    halves: bool = True
    """Whether, if it is not exact, it stops beside the optimum by a distance that halves with the learning rate."""
    mixes_first: bool = False
    """Whether it mixes the models before the first gradient."""
    alone: bool = True
    """Whether one node alone moves as the mean does; not if it takes compressed steps."""
    relabels: bool = True
    """Whether other numbers of the nodes change nothing else; not if they decide what is drawn at random."""
    patience: float = 1.0
    """The part of the usual rounds that the long tests run it for: compressing is not the quickest of things."""
    drifts: bool = False
    """Whether sums of flows make float32 drift a little with every round: tests/test_compression.py says how little."""
    l2: float = 0.0
    """A penalty that it needs; only real nodes and the simulator know it."""
    limit: Callable[[float], float] | None = None
    """lambda_n -> the lr L at which it stops converging on quadratics (ALGORITHMS, section 2)."""


DRAWN: dict[str, Any] = {"rotates": False, "relabels": False, "halves": False, "patience": 0.25}
"""Of methods that round at random."""

CASES: dict[str, Case] = {
    "sgd": Case(dsgt.SGD(), average, atc=True),
    "dpsgd": Case(dsgt.DPSGD(), limit=lambda low: 1 + low),
    "atc-dpsgd": Case(dsgt.AtcDPSGD(), atc=True, limit=lambda low: 2.0),
    "dsgt": Case(dsgt.DSGT(), atc=True, limit=lambda low: min(2.0, (1 - low**2) / -low) if low < 0 else 2.0),
    "gnsd": Case(dsgt.GNSD(), limit=lambda low: (1 + low) ** 2 / 2),
    "aug-dgm": Case(dsgt.AugDGM(), atc=True, limit=lambda low: min(2.0, (1 + low) ** 2 / (2 * low**2))),
    "extra": Case(dsgt.EXTRA(), limit=lambda low: (5 + 3 * low) / 4),
    "exact-diffusion": Case(dsgt.ExactDiffusion(), limit=lambda low: 2.0),
    "d2": Case(dsgt.D2(), lazy, atc=True, limit=lambda low: 2.0),
    "sgp": Case(dsgt.SGP(), push, carrier="u", mass="w"),
    "osgp": Case(dsgt.OSGP(), push, follows=False, carrier="u"),
    "decentlam": Case(
        dsgt.DecentLaM(), mean=HeavyBall(0.9), atc=True, limit=lambda low: min(3.8, 1 - 1 / low) if low < 0 else 3.8
    ),
    "momentum-dsgd": Case(dsgt.MomentumDSGD(), mean=HeavyBall(0.9), atc=True, limit=lambda low: 3.8),
    "qg-dsgdm": Case(dsgt.QGDSGDm(), mean=QuasiGlobal(0.9, 0.9), atc=True, limit=lambda low: 2 + 0.18 / 1.9),
    "momentum-tracking": Case(dsgt.MomentumTracking(), mean=HeavyBall(0.9)),
    "dsgt-hb": Case(dsgt.DSGTHB(), mean=Averaged(0.9), atc=True),
    "dsgt-nesterov": Case(dsgt.DSGTNesterov(), mean=Nesterov(0.9), atc=True),
    "dsmt": Case(dsgt.DSMT(), mean=Averaged((1 / (1 + 0.19**0.5)) ** 0.5)),
    "acc-dngd": Case(dsgt.AccDNGD(), mean=Accelerated(0.01), share=0.05),
    "gtadam": Case(dsgt.GTAdam(), mean=Adam(0.9, 0.999, 0.01), follows=False, rotates=False),
    "decentralized-amsgrad": Case(
        dsgt.DecentralizedAMSGrad(), mean=AMSGrad(0.9, 0.999, 0.01), follows=False, rotates=False
    ),
    "dda": Case(dsgt.DDA(), mean=dual_averaging),
    "gradient-push": Case(dsgt.GradientPush(), push, carrier="v", mass="w", mixes_first=True),
    "push-diging": Case(dsgt.PushDIGing(), push, carrier="u", mass="w"),
    "clipped-gossip": Case(dsgt.ClippedGossip()),
    "trimmed-mean": Case(dsgt.TrimmedMean(), follows=False, rotates=False, halves=False),
    "median": Case(dsgt.Median(), follows=False, rotates=False, halves=False),
    "relay-sgd": Case(dsgt.RelaySGD(), tree, follows=False),
    "rps": Case(dsgt.RPS(), average, atc=True, halves=False),
    "push-pull": Case(dsgt.PushPull(), both, follows=False),
    "ab": Case(dsgt.AB(), both, follows=False),
    "frost": Case(dsgt.FROST(), pull, follows=False),
    "k-gt": Case(dsgt.KGT()),
    "lu-gt": Case(dsgt.LUGT()),
    "led": Case(dsgt.LED(), lazy),
    "proxskip": Case(dsgt.ProxSkip()),
    "choco": Case(dsgt.CHOCO(TopK(0.4), gamma=0.4), rotates=False, halves=False, patience=0.25),
    "dcd-psgd": Case(dsgt.DCDPSGD(Quantise(8)), **DRAWN, follows=False, alone=False),
    "ecd-psgd": Case(dsgt.ECDPSGD(Quantise(8)), **DRAWN, follows=False, alone=False),
    "beer": Case(dsgt.BEER(TopK(0.4), gamma=0.4), rotates=False, patience=0.25, drifts=True),
    "c-gt": Case(dsgt.CGT(TopK(0.4), gamma=0.4, alpha=0.8), rotates=False, patience=0.25, drifts=True),
    "lead": Case(dsgt.LEAD(Quantise(4), gamma=0.8), **DRAWN, drifts=True),
    "cedas": Case(dsgt.CEDAS(Quantise(4), gamma=0.8), **DRAWN, drifts=True),
    "moniqua": Case(dsgt.Moniqua(theta=4.0), rotates=False, halves=False, patience=0.25),
    "deepsqueeze": Case(dsgt.DeepSqueeze(TopK(0.4), gamma=0.4), rotates=False, halves=False, patience=0.25),
}


def over(method: str, kind: str) -> Case:
    case = CASES[method]
    return replace(case, weights=lambda graph: KINDS[kind](case.weights(graph)))


CHANGING: dict[str, Case] = {
    "atc-dpsgd over lossy": over("atc-dpsgd", "lossy"),
    "dsgt over lossy both ways": over("dsgt", "lossy both ways"),
    "aug-dgm over pairs": over("aug-dgm", "pairs"),
    "gnsd over activated": over("gnsd", "activated"),
    "sgp over periodic": over("sgp", "periodic"),
}
"""What real nodes run too, of all the methods over all kinds of weights."""

COMPOSED: dict[str, Case] = {name: Case(kind()) for name, kind in COMPOSITIONS.items()} | {
    "gnsd+sag:q=6": Case(dsgt.GNSD().asking(dsgt.SAG(6))),
    "dsa": Case(dsgt.DSA(q=6)),
    "dsba": Case(dsgt.DSBA(q=6)),
    "adfs": Case(dsgt.ADFS(q=3), l2=0.02),
    "gt-saga": Case(dsgt.GTSAGA(q=6)),
    "diffusion-avrg": Case(dsgt.DiffusionAVRG(q=6)),
    "msda": Case(dsgt.MSDA(K=2)),
    "mspd": Case(dsgt.MSPD(M=3, K=2)),
    "dcs": Case(dsgt.DCS(T=3)),
    "sdcs": Case(dsgt.SDCS(T=3)),
    "dsgt+svrg:every=9,loopless=true": Case(dsgt.DSGT().asking(dsgt.SVRG(9, loopless=True))),
}
"""A node of six samples has no more than six parts."""


def half_square(i: int, x: Tensor) -> Tensor:
    """A value of node i. Not the one whose gradient the quadratic gives: paths are compared, not their ends."""
    return (x - i).square().sum() / 2


CONSTRAINED: dict[str, Case] = {
    "epigraph-projection": Case(
        EpigraphProjection(half_square, [[Ball(0.9)], [HalfSpace([1, 0, 1, 0, 0], 0.2), Box(-1, 1)], [], [Box(-2, 1)]]),
        pull,
    )
}
"""What has functions among its parameters, and so no name. Sets for four nodes: with two, the others have none."""
WALKED = CASES | CHANGING | COMPOSED | CONSTRAINED
"""All that real nodes run."""


@dataclass
class Quadratic:
    """Least squares over uneven, different shards, in a few lines that share nothing with dsgt.problems.

    f(x) = mean over all samples of (a'x - b)^2 / 2; node i holds sizes[i] of them. ``local`` adds (l2/2) |x|^2.
    """

    A: list[Tensor]
    b: list[Tensor]
    l2: float = 0.0

    @cached_property
    def H(self) -> Tensor:
        """Every node's weighted curvature, (n, m, m): the gradient is H x - c."""
        return torch.stack([self.weight(i) * A.T @ A / len(A) for i, A in enumerate(self.A)])

    @cached_property
    def c(self) -> Tensor:
        return torch.stack([self.weight(i) * A.T @ self.b[i] / len(A) for i, A in enumerate(self.A)])

    @property
    def sizes(self) -> list[int]:
        return [len(b) for b in self.b]

    @property
    def optimum(self) -> Tensor:
        return torch.linalg.lstsq(torch.cat(self.A), torch.cat(self.b)[:, None]).solution[:, 0]

    @property
    def L(self) -> float:
        """The largest curvature that a node feeds to the network."""
        return torch.linalg.eigvalsh(self.H).max().item()

    def weight(self, i: int) -> float:
        return len(self.A) * self.sizes[i] / sum(self.sizes)

    def node_gradient(self, i: int, x: Tensor, k: int | None = None) -> Tensor:
        """Node i's weighted mean gradient: of all its samples, or of the half that (i, k) picks, with replacement."""
        A, b = self.A[i], self.b[i]
        if k is not None:
            batch = randomness.integers(len(A), 7, i, k, torch.arange(max(1, len(A) // 2)))
            A, b = A[batch], b[batch]
        return self.weight(i) * A.T @ (A @ x - b) / len(A)

    def local(self, node: int | None = None) -> Local:
        """What all nodes, or one, can compute: half of their samples by round, all of them, or the j-th of q parts."""
        return QuadraticLocal(self, range(len(self.A)) if node is None else [node], alone=node is not None)

    def part(self, i: int, x: Tensor, j: int, q: int) -> Tensor:
        A, b = self.A[i], self.b[i]
        some = slice(j * len(A) // q, (j + 1) * len(A) // q)
        return len(self.A) * q / sum(self.sizes) * A[some].T @ (A[some] @ x - b[some])

    def inverse(self, i: int, r: Tensor, j: int, q: int, own: float, weight: float) -> Tensor:
        """own x + weight part(x) = r"""
        return torch.linalg.solve(
            own * torch.eye(len(r), dtype=F64) + weight * self.curvature(i, j, q),
            r - weight * self.part(i, torch.zeros_like(r), j, q),
        )

    def curvature(self, i: int, j: int, q: int) -> Tensor:
        one = torch.eye(self.A[i].shape[1], dtype=F64)
        return torch.stack([self.part(i, e, j, q) - self.part(i, 0 * e, j, q) for e in one], dim=1)

    def full(self, x: Tensor, k: int) -> Tensor:
        return (self.H @ x[..., None])[..., 0] - self.c

    def stochastic(self, x: Tensor, k: int) -> Tensor:
        return torch.stack([self.node_gradient(i, row, k) for i, row in enumerate(x)])


class QuadraticLocal(Local):
    def __init__(self, problem: Quadratic, nodes: Sequence[int], *, alone: bool) -> None:
        rows = torch.tensor(nodes)
        super().__init__(
            lambda x, k: self._each(x, lambda i, row: problem.node_gradient(i, row, k)),
            rows if alone else rows[:, None],
        )
        self.problem, self.alone = problem, alone

    def _each(self, x: Tensor, answer: Callable[[int, Tensor], Tensor]) -> Tensor:
        stacked = x[None] if self.alone else x
        found = torch.stack([answer(i, row) for i, row in zip(self.rows.flatten().tolist(), stacked, strict=True)])
        return found[0] if self.alone else found

    def full(self, x: Tensor) -> Tensor:
        return self._each(x, self.problem.node_gradient)

    def part(self, x: Tensor, j: Tensor, q: int) -> Tensor:
        return self._each(x, lambda i, row: self.problem.part(i, row, self._of(j, i), q)) + self.problem.l2 * x

    def resolvent(self, v: Tensor, j: Tensor, q: int, lr: float) -> Tensor:
        return self.inverse(v, j, q, 1 + lr * self.problem.l2, lr, v)

    def inverse(self, r: Tensor, j: Tensor, q: int, own: Any, weight: Any, near: Tensor) -> Tensor:
        a, b = (torch.as_tensor(t).expand(self.rows.shape) for t in (own, weight))

        def solved(i: int, row: Tensor) -> Tensor:
            return self.problem.inverse(i, row, self._of(j, i), q, self._of(a, i), self._of(b, i))

        return self._each(r, solved)

    def conjugate(self, u: Tensor, near: Tensor) -> Tensor:
        return self.inverse(u, torch.zeros_like(self.rows), 1, self.problem.l2, 1.0, near)

    def penalty(self) -> float:
        return self.problem.l2

    def convexity(self) -> Tensor:
        return self._extremes(1)[..., 0] + self.problem.l2

    def smoothness(self, q: int) -> Tensor:
        return self._extremes(q)[..., -1]

    def _extremes(self, q: int) -> Tensor:
        """Eigenvalues of all parts, (..., q, m)."""
        found = [[self.problem.curvature(i, j, q) for j in range(q)] for i in self.rows.flatten().tolist()]
        eigenvalues = torch.linalg.eigvalsh(torch.stack([torch.stack(row) for row in found]))
        return eigenvalues[0] if self.alone else eigenvalues

    def _of(self, j: Tensor, i: int) -> Any:
        return j.flatten()[i - int(self.rows.flatten()[0])].item()


def quadratic(n: int, m: int = 5, seed: int = 0, l2: float = 0.0) -> Quadratic:
    """Sizes 6, 7, 8, ...; every node's own minimiser lies somewhere else."""
    draw = torch.Generator().manual_seed(seed)
    A = [torch.randn(6 + i, m, dtype=F64, generator=draw) for i in range(n)]
    b = [a @ torch.randn(m, dtype=F64, generator=draw) + i for i, a in enumerate(A)]
    return Quadratic(A, b, l2)


def graph(n: int, seed: int = 1) -> nx.Graph:
    """A connected random graph, neither regular nor complete."""
    if n <= 2:
        return nx.path_graph(n)
    for s in range(seed, seed + 1000):
        g = nx.erdos_renyi_graph(n, min(0.9, 2.2 * np.log(n) / n), seed=s)
        if nx.is_connected(g):
            return g
    raise AssertionError("no connected graph found")
