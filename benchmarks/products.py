"""W v by its nonzero weights and by BLAS, for many sizes: the map by which networks/sparse.py chooses.

    python benchmarks/products.py

A cell is (sparse seconds) / (dense seconds), both minima on one core, with a * where the sparse product is chosen. Last
the choice as a whole: the time of what is chosen in that of the better one, goal <= 1.1 in the mean.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import networkx as nx
import numpy as np
import torch
from timing import goal

from dsgt.networks.sparse import SparseProduct, is_faster, nonzeros
from dsgt.threads import threads

NODES, WIDTHS = (8, 16, 24, 64, 100, 128, 512), (5, 50, 650, 10_000)
SECONDS = 0.01


def fastest(*contenders: Callable[[], object]) -> list[float]:
    best = [float("inf")] * len(contenders)
    end = time.perf_counter() + SECONDS * len(contenders)
    turns = 0
    while turns < 3 or time.perf_counter() < end:
        for i, act in enumerate(contenders):
            began = time.perf_counter()
            act()
            best[i] = min(best[i], time.perf_counter() - began)
        turns += 1
    return best


def main() -> None:
    regrets = []
    print("nodes  neighbours  nonzero " + "".join(f"{f'm = {m:,}':>12}" for m in WIDTHS))
    for n in NODES:
        for degree in sorted({2, 4, n // 8, n // 4, n // 2}):
            if not 2 <= degree < n or n * degree % 2:
                continue
            W = nx.to_numpy_array(nx.random_regular_graph(degree, n, seed=0)) / (degree + 1) + np.eye(n) / (degree + 1)
            cells = []
            for m in WIDTHS:
                v = torch.rand(n, m, generator=torch.Generator().manual_seed(0))
                out, dense, rows = (
                    torch.empty_like(v),
                    torch.from_numpy(W).float(),
                    SparseProduct(W, np.dtype("float32")),
                )
                a, b = v.numpy(), out.numpy()
                sparse, blas = fastest(
                    lambda rows=rows, a=a, b=b: rows.times(a, b),
                    lambda dense=dense, v=v, out=out: torch.mm(dense, v, out=out),
                )
                chosen = is_faster(n, nonzeros(W), m)
                regrets.append((sparse if chosen else blas) / min(sparse, blas))
                cells.append(f"{sparse / blas:10.2f} {'*' if chosen else ' '}")
            print(f"{n:5d}  {degree:10d}  {nonzeros(W) / n**2:7.0%} " + "".join(cells), flush=True)
    mean = statistics.fmean(regrets)
    print(f"chosen / better one: mean {mean:.2f}, worst {max(regrets):.2f}")
    goal("time of the chosen product / of the better one", mean, most=1.1)


if __name__ == "__main__":
    with threads(1):
        main()
