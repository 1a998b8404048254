"""How fast are the problems? Medians of interleaved rounds, and ratios within one run; seconds depend on the day.

usage: python benchmarks/problems.py [lenet] [logistic] [mlp] [scale] [million]      (all but million by default)
"""

# torch reads the two variables below when it is imported or first allocates.
from __future__ import annotations

import os

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # fresh pages are what large updates cost; huge ones are cheap
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # on a busy machine, threads that spin steal the time they wait for

import resource
import sys
from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse
import torch
from timing import goal, in_turn
from torch import nn

from dsgt import DSGT, iterate
from dsgt.data import Samples, Shards, WithReplacement, partition
from dsgt.networks import Dense
from dsgt.problems import Logistic, Model, Problem, lenet
from dsgt.topologies.weights import metropolis

WARM = 3
"""Turns that do not count: in the first ones the kernel finds the memory and torch its threads."""


def report(what: str, ratio: float, details: str, *, most: float | None = None, least: float | None = None) -> None:
    print(f"{what:44} {ratio:8.2f}   {details}", flush=True)
    goal(what, ratio, most=most, least=least)


def graph(n: int) -> Any:
    """About 2 log2(n) neighbours, as in the paper's experiments."""
    return metropolis(nx.random_regular_graph(min(2 * round(np.log2(n)), n - 1), n, seed=0))


def ring(n: int) -> scipy.sparse.csr_array:
    i = np.arange(n)
    rows, columns = np.concatenate([i, i, i]), np.concatenate([i, (i + 1) % n, (i - 1) % n])
    return scipy.sparse.csr_array((np.full(3 * n, 1 / 3), (rows, columns)), shape=(n, n))


def rounds(problem: Problem, W: Any) -> Callable[[], Any]:
    states: Iterator[Any] = iterate(DSGT(), problem.oracle(0), Dense(W), problem.start(0), 0.01)
    with torch.no_grad():
        next(states)

    def step() -> None:
        with torch.no_grad():
            next(states)

    return step


def cifar_shaped(images: bool) -> Samples:
    some = torch.Generator().manual_seed(0)
    features = torch.randn(12_288, 3, 32, 32, generator=some)
    labels = torch.randint(0, 10, (12_288,), generator=some)
    return Samples(features if images else features.flatten(1), labels)


def central_step(module: nn.Module, data: Samples, batch: int) -> Callable[[], Any]:
    """Plain torch: draw, forward, backward, torch.optim.SGD."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        rows = torch.randint(0, len(data), (batch,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(data.features[rows]), data.targets[rows]).backward()
        optimizer.step()

    return step


def bench_lenet(repeats: int = 9) -> None:
    data = cifar_shaped(images=True)
    problems = {n: Model(lenet(), data, partition.equal(data, n), WithReplacement(batch=1024)) for n in (6, 12, 24)}
    contenders = {"central": central_step(lenet(), data, 1024)}
    contenders |= {f"n = {n}": rounds(p, graph(n)) for n, p in problems.items()}
    median = in_turn(contenders, repeats, WARM)
    for n, p in problems.items():
        ratio = median[f"n = {n}"] / median["central"]
        details = f"{1e3 * median[f'n = {n}']:.0f} ms / {1e3 * median['central']:.0f} ms, {p.chosen}"
        report(f"LeNet n={n}, batch 1024: round / SGD step", ratio, details, most=1.25)


def bench_logistic(repeats: int = 25) -> None:
    data = cifar_shaped(images=False)
    problem = Logistic(data, partition.equal(data, 24), WithReplacement(batch=1024))
    contenders = {"central": central_step(nn.Linear(3072, 10), data, 1024), "dsgt": rounds(problem, graph(24))}
    median = in_turn(contenders, repeats, WARM)
    ratio = median["dsgt"] / median["central"]
    details = f"{1e3 * median['dsgt']:.1f} ms / {1e3 * median['central']:.1f} ms"
    report("logistic m=30,730 n=24: round / SGD step", ratio, details, most=2)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(50, 64), nn.ReLU(), nn.Linear(64, 2))


def naive_round(data: Samples, shards: Shards, W: Any, batch: int) -> Callable[[], Any]:
    """What one writes first: a module and a torch.optim.SGD per node, and parameters averaged one by one (D-PSGD)."""
    modules = [mlp() for _ in shards]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in modules]
    generator = torch.Generator().manual_seed(0)
    weights = torch.as_tensor(W, dtype=torch.float32)

    def step() -> None:
        for i, (module, optimizer) in enumerate(zip(modules, optimizers, strict=True)):
            rows = shards[i][torch.randint(0, len(shards[i]), (batch,), generator=generator)]
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(data.features[rows]), data.targets[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            for same in zip(*(m.parameters() for m in modules), strict=True):
                mixed = torch.tensordot(weights, torch.stack(list(same)), dims=1)
                for p, v in zip(same, mixed, strict=True):
                    p.copy_(v)

    return step


def bare_rounds(problem: Model, W: Any) -> Callable[[], Any]:
    """DSGT for this model alone: back-propagation written out for all nodes, on the same samples, no autograd."""
    n, b, d, h, classes, lr = 24, 32, 50, 64, 2, 0.01
    weights, batches, k = torch.as_tensor(W, dtype=torch.float32), problem.batches(0), 0
    features, targets = problem.data.features, problem.data.targets
    x = problem.start(0).repeat(n, 1)
    g_old, Wy, one = torch.zeros_like(x), torch.zeros_like(x), torch.ones(n, classes, b)

    def parts(v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        U, u, V, v = v.split([h * d, h, classes * h, classes], 1)
        return U.view(n, h, d), u[..., None], V.view(n, classes, h), v[..., None]

    def step() -> torch.Tensor:
        nonlocal x, g_old, Wy, k
        rows, (U, u, V, v), g = batches.rows(k), parts(x), torch.empty_like(x)
        a, t = features.index_select(0, rows).view(n, b, d), targets.index_select(0, rows).view(n, 1, b)
        z = torch.baddbmm(u, U, a.mT).relu_()
        slope = torch.baddbmm(v, V, z).softmax(1).scatter_add_(1, t, -one).div_(b)
        back = torch.bmm(V.mT, slope).masked_fill_(z == 0, 0)
        made = torch.bmm(back, a), back.sum(2, keepdim=True), torch.bmm(slope, z.mT), slope.sum(2, keepdim=True)
        for part, found in zip(parts(g), made, strict=True):
            part.copy_(found)
        y = Wy + (g - g_old)
        x, Wy, g_old, k = weights @ (x - lr * y), weights @ y, g, k + 1
        return x

    return step


def bench_mlp(repeats: int = 150) -> None:
    some = torch.Generator().manual_seed(0)
    data = Samples(torch.randn(24_000, 50, generator=some), torch.randint(0, 2, (24_000,), generator=some))
    shards, W = partition.equal(data, 24), graph(24)
    problem = Model(mlp(), data, shards, WithReplacement(batch=24 * 32))
    contenders = {
        "naive": naive_round(data, shards, W, 32),
        "bare": torch.no_grad()(bare_rounds(problem, W)),
        "dsgt": rounds(problem, W),
    }
    median = in_turn(contenders, repeats, WARM)
    a_second = {name: f"{1 / seconds:.0f} rounds/s" for name, seconds in median.items()}
    ratio, details = median["naive"] / median["dsgt"], f"{a_second['dsgt']} / {a_second['naive']}, {problem.chosen}"
    report("MLP 50-64-2 n=24, batch 32: rounds/s / naive", ratio, details, least=5)
    ratio, details = median["dsgt"] / median["bare"], f"{a_second['bare']} / {a_second['dsgt']}"
    report("MLP, time of dsgt / written by hand without autograd", ratio, details, most=1.4)


def many_nodes(n: int, d: int, classes: int) -> Problem:
    """Four samples a node, two of them drawn; sizes are equal, labels random."""
    some = torch.Generator().manual_seed(0)
    data = Samples(torch.randn(4 * n, d, generator=some), torch.randint(0, classes, (4 * n,), generator=some))
    return Logistic(data, partition.equal(data, n), WithReplacement(eta=0.5), classes=classes, intercept=classes > 2)


def bench_scale(repeats: int = 7) -> None:
    previous = None
    for n in (1_000, 10_000, 100_000):
        problem = many_nodes(n, 64, 10)
        oracle, x = problem.oracle(0), torch.zeros(n, problem.dim)
        median = in_turn({"round": rounds(problem, ring(n)), "gradient": lambda: oracle(x, 0)}, repeats, WARM)  # noqa: B023
        seconds = median["round"]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        grown = "" if previous is None else f", {seconds / previous:.1f} times the tenth of it"
        details = f"gradients {median['gradient']:.3f} s of {seconds:.3f} s, peak {memory:.1f} GB{grown}"
        report(f"logistic m={problem.dim} on {n:,} nodes: rounds/s", 1 / seconds, details, least=1)
        previous = seconds
    goal("GB at most, 100,000 nodes", memory, most=6)


def bench_million(repeats: int = 3) -> None:
    n = 1_000_000
    problem = many_nodes(n, 50, 2)
    seconds = in_turn({"round": rounds(problem, ring(n))}, repeats, WARM)["round"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    report(f"logistic m={problem.dim} on {n:,} nodes: rounds/s", 1 / seconds, f"peak {memory:.1f} GB", least=1)


BENCHMARKS = {
    "lenet": bench_lenet,
    "logistic": bench_logistic,
    "mlp": bench_mlp,
    "scale": bench_scale,
    "million": bench_million,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or ["lenet", "logistic", "mlp", "scale"]:
        if name not in BENCHMARKS:
            sys.exit(__doc__)
        BENCHMARKS[name]()
