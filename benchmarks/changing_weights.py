"""What a round costs over weights that chance decides anew, beside the same graph's fixed sparse W.

    python benchmarks/changing_weights.py

1,000 nodes in this process, models of 650 float64 numbers, gradients that cost one pass over memory, one thread. The
rounds take turns; CPU seconds, medians. The goal is 1.5 for every graph.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import networkx as nx
import torch
from timing import goal, in_turn

from dsgt import AtcDPSGD, topologies
from dsgt.core import Weights
from dsgt.networks import Dense
from dsgt.run import iterate
from dsgt.topologies import Lossy, Pairs

NODES, NUMBERS, TURNS, ROUNDS = 1000, 650, 15, 10


def rounds(weights: Weights | topologies.Matrix) -> Callable[[], None]:
    """Some rounds of ATC D-PSGD more."""
    x = torch.randn(NODES, NUMBERS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    run: Iterator[object] = iterate(AtcDPSGD(), lambda x, k: x.clone(), Dense(weights), x, lr=0.1)
    return lambda: next(itertools.islice(run, ROUNDS - 1, None), None) and None


def main() -> None:
    torch.set_num_threads(1)
    graphs = {
        "ring": nx.cycle_graph(NODES),
        "regular, degree 4": nx.random_regular_graph(4, NODES, seed=0),
        "regular, degree 20": nx.random_regular_graph(20, NODES, seed=0),
    }
    print("| graph | fixed W, ms a round | Pairs | Lossy(0.1) | Lossy(0.1), both ways |\n|---|---|---|---|---|")
    for name, graph in graphs.items():
        W = topologies.metropolis(graph)
        contenders = {
            "fixed": W,
            "pairs": Pairs(graph),
            "lossy": Lossy(W, 0.1),
            "both": Lossy(W, 0.1, both_ways=True),
        }
        seconds = in_turn({name: rounds(w) for name, w in contenders.items()}, TURNS, clock=time.process_time)
        ratios = [f"{seconds[other] / seconds['fixed']:.2f}" for other in ("pairs", "lossy", "both")]
        print(f"| {name} | {1e3 * seconds['fixed'] / ROUNDS:.2f} | {' | '.join(ratios)} |", flush=True)
        goal(f"changing / fixed weights, {name}", max(seconds.values()) / seconds["fixed"], most=1.5)


if __name__ == "__main__":
    main()
