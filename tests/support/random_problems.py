"""Random problems and networks for advise(): anything a user might bring that the theory covers."""

from __future__ import annotations

import networkx as nx
import numpy as np
import torch

from dsgt import data
from dsgt.problems import LeastSquares, Logistic
from dsgt.topologies.weights import metropolis

F64 = torch.float64


def random_problem(rng: np.random.Generator, n: int) -> LeastSquares | Logistic:
    """Uneven shards, features of any scale and shape, labels or targets, batches from one sample to all."""
    sizes = rng.integers(1, 30, n).tolist()
    sizes[0] += 4
    dim, seed = int(rng.integers(1, 8)), int(rng.integers(1 << 30))
    spread = float(rng.choice([0.0, 1.0, 5.0]))
    sampling = rng.choice(
        [data.Full(), data.WithReplacement(0.02), data.WithReplacement(0.3), data.WithoutReplacement(0.2)]
    )
    classes = int(rng.choice([0, 0, 2, 4]))
    if classes:
        samples, shards = data.synthetic.classification(
            sizes, dim, classes=classes, heterogeneity=spread, seed=seed, dtype=F64
        )
    else:
        samples, shards = data.synthetic.least_squares(sizes, dim, heterogeneity=spread, seed=seed, dtype=F64)
    shape = torch.from_numpy(10 ** rng.uniform(-1.5, 1.0, dim))  # badly scaled features, condition number up to 1e5
    per_sample = torch.from_numpy(rng.choice([0.3, 1.0, 3.0], len(samples)))[:, None]  # and uneven samples
    features = samples.features * shape * per_sample
    if classes:
        return Logistic(
            (features, samples.targets), shards, sampling, classes=classes, l2=float(rng.choice([1e-2, 1e-1]))
        )
    return LeastSquares((features, samples.targets), shards, sampling, l2=float(rng.choice([0.0, 1e-2])))


def random_network(rng: np.random.Generator, n: int) -> np.ndarray:
    """Doubly stochastic, rho < 1: Metropolis on a random graph, lazy or overdriven; or a mixture of permutations."""
    kind = rng.integers(5)
    if n == 1 or kind == 0:
        return np.full((n, n), 1 / n)
    if kind == 1:  # directed
        mixture = np.eye(n) + np.roll(np.eye(n), 1, axis=1) * rng.uniform(0.1, 2)
        for _ in range(rng.integers(3)):
            mixture = mixture + np.eye(n)[rng.permutation(n)]
        return mixture / mixture.sum(axis=1, keepdims=True)
    tree = nx.random_labeled_tree(n, seed=int(rng.integers(1 << 30)))
    for _ in range(rng.integers(0, 2 * n)):
        i, j = rng.choice(n, 2, replace=False)
        tree.add_edge(int(i), int(j))
    W = np.asarray(metropolis(tree))
    if kind == 2:
        return (np.eye(n) + W) / 2
    if kind == 3:  # as fast as the negative end of the spectrum allows, almost periodic
        low = np.linalg.eigvalsh(W)[0]
        s = rng.uniform(0, 0.95) * (1 + low) / 2
        return (W - s * np.eye(n)) / (1 - s)
    return W
