"""What the simulator costs beyond the arithmetic. Contenders take turns; medians; ratios within one run.

python benchmarks/simulator.py
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np
import torch
from timing import goal, in_turn

import dsgt
from dsgt.buffers import Buffers
from dsgt.data import Samples, WithReplacement, partition
from dsgt.engine.in_place import InPlace
from dsgt.networks import Dense
from dsgt.problems import Logistic
from dsgt.threads import threads
from dsgt.topologies import metropolis, ring

NODES, FEATURES, BATCH, SHARD, ROUNDS, LR, SEED = 24, 50, 32, 500, 2000, 0.1, 0


def draws(n: int, b: int, size: int, rounds: int) -> Iterator[np.ndarray]:
    """The same numbers as dsgt.randomness, by hand: SplitMix64 over (seed, kind of draw, node, j, round)."""
    golden = np.uint64(0x9E3779B97F4A7C15)

    def scramble(z: np.ndarray) -> np.ndarray:
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def absorb(z: np.ndarray, c: np.ndarray) -> np.ndarray:
        return scramble((z + c.astype(np.uint64) + np.uint64(1)) * golden)

    seed = scramble((np.array([SEED], dtype=np.uint64) + np.uint64(1)) * golden)
    node = absorb(absorb(seed, np.array([1])), np.arange(n))
    slot = absorb(node[:, None], np.arange(b)[None])
    block = max(1, (1 << 15) // (n * b))
    for k in range(0, rounds, block):
        z = absorb(slot[None], np.arange(k, k + block)[:, None, None])
        yield from ((z >> np.uint64(12)) * 2.0**-52 * size).astype(np.int64)[: rounds - k]


def numpy_dsgt(A: np.ndarray, labels: np.ndarray, W: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Stacked DSGT on logistic regression, as one would write it for one experiment."""
    n, b = NODES, BATCH
    start = np.arange(n)[:, None] * SHARD
    x = np.zeros((n, A.shape[1]), dtype=A.dtype)
    g_old, Wy = np.zeros_like(x), np.zeros_like(x)
    for drawn in draws(n, b, SHARD, ROUNDS):
        rows = order[start + drawn]
        batch = A[rows]
        z = (batch @ x[:, :, None])[:, :, 0]
        slope = (1 / (1 + np.exp(-z)) - labels[rows]) / b
        g = (slope[:, None, :] @ batch)[:, 0]
        y = Wy + g - g_old
        x = W @ (x - LR * y)
        Wy, g_old = W @ y, g
    return x


def against_numpy() -> None:
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(NODES * SHARD, FEATURES, generator=draw)
    labels = (features @ torch.randn(FEATURES, generator=draw) + torch.randn(len(features), generator=draw) > 0).long()
    data = Samples(features, labels)
    shards = partition.equal(data, NODES, seed=0)
    problem = Logistic(data, shards, WithReplacement(batch=NODES * BATCH))
    W = metropolis(ring(NODES))
    A = np.concatenate([features.numpy(), np.ones((len(features), 1), dtype=np.float32)], axis=1)
    inputs = A, labels.numpy().astype(np.float32), W.astype(np.float32), shards.order.numpy()
    found: dict[str, Any] = {}

    def by_run() -> None:
        found["run"] = dsgt.run(dsgt.DSGT(), problem, W, rounds=ROUNDS, lr=LR, every=ROUNDS, seed=SEED).x.numpy()

    def by_hand() -> None:
        found["numpy"] = numpy_dsgt(*inputs)

    took = in_turn({"run": by_run, "numpy": by_hand}, turns=15, clock=time.process_time)  # one core each
    apart = np.abs(found["run"] - found["numpy"]).max()
    assert apart < 1e-3, f"the two loops do different things: {apart}"  # float32, 2,000 rounds
    print(
        f"run / NumPy loop, rounds per second     {took['numpy'] / took['run']:5.2f}   ({ROUNDS / took['run']:,.0f} "
        f"against {ROUNDS / took['numpy']:,.0f} a second, results {apart:.0e} apart)"
    )
    goal("run / NumPy loop, rounds per second", took["numpy"] / took["run"], least=0.8)


def against_two_products() -> None:
    n, m, lr = 24, 62_006, 1e-3
    W = metropolis(nx.random_regular_graph(9, n, seed=0))
    draw = torch.Generator().manual_seed(0)
    a, b, g = (torch.randn(n, m, generator=draw) for _ in range(3))
    bare, first, second = torch.from_numpy(W).float(), torch.empty(n, m), torch.empty(n, m)

    def products() -> None:
        torch.mm(bare, a, out=first)
        torch.mm(bare, b, out=second)

    method, dense = dsgt.DSGT(), Dense(W)
    rounds = InPlace(method, Buffers())
    state = method.init(a.clone(), dense.at(0))

    def round() -> None:
        nonlocal state
        state = rounds.update(state, g, dense.at(0), lr)

    states = dsgt.iterate(method, lambda x, k: g, Dense(W), a, lr)
    g_old, Wy, y, step = (torch.randn(n, m, generator=draw) for _ in range(4))

    def by_hand() -> None:
        """As one would write it for this method alone, no memory asked for."""
        torch.sub(Wy, g_old, out=y).add_(g)
        torch.mm(bare, torch.sub(a, y, alpha=lr, out=step), out=first)
        torch.mm(bare, y, out=second)

    contenders = {"round": round, "loop": lambda: next(states), "hand": by_hand}
    for cores in sorted({1, torch.get_num_threads()}):
        with threads(cores):
            times = {  # in pairs: a third one would throw the others' tensors out of the caches
                name: in_turn({"products": products, name: act}, turns=100, warm=10) for name, act in contenders.items()
            }
        ratio = {name: took[name] / took["products"] for name, took in times.items()}
        print(
            f"DSGT round / two bare products, {cores} core{'s' * (cores > 1):1}  {ratio['round']:5.2f}   ("
            f"{1e3 * times['round']['round']:.2f} ms; with the loop around it, which looks for NaN, "
            f"{ratio['loop']:.2f}; written by hand {ratio['hand']:.2f})"
        )
        goal(f"DSGT round / two bare products, {cores} core{'s' * (cores > 1)}", ratio["round"], most=1.3)


if __name__ == "__main__":
    against_numpy()
    against_two_products()
