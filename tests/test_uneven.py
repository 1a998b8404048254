"""The headline: exact on uneven data. Shards of any size and any distribution, one learning rate, one optimum."""

from itertools import islice

import networkx as nx
import pytest
import torch

from dsgt import DPSGD, DSGT, SGD, iterate, run
from dsgt.data import (
    Bernoulli,
    Full,
    Samples,
    Shards,
    WithoutReplacement,
    WithReplacement,
    digits,
    partition,
    synthetic,
)
from dsgt.problems import LeastSquares, Logistic, Model, Problem, lenet
from dsgt.topologies.weights import metropolis

F64 = torch.float64
SIZES = [10, 20, 40, 80, 160]
RING = metropolis(nx.cycle_graph(5))


def skewed_digits() -> tuple[Samples, Shards]:
    """Sizes 1 : 2 : 4 : 8 : 16 and sorted labels: small nodes know some digits, large nodes know others."""
    train, _ = digits(dtype=F64)
    order = train.targets[: sum(SIZES)].argsort(stable=True)
    data = Samples(train.features[: sum(SIZES)], train.targets[: sum(SIZES)])
    return data, Shards(order, torch.tensor(SIZES))


def uneven_least_squares() -> tuple[Samples, Shards]:
    return synthetic.least_squares(SIZES, 4, heterogeneity=1.0, seed=2, dtype=F64)


PROBLEMS: dict[str, Problem] = {
    "least squares": LeastSquares(*uneven_least_squares(), Full()),
    "logistic": Logistic(*skewed_digits(), Full(), l2=0.1),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_full_gradients_reach_the_optimum_of_all_samples(name: str) -> None:
    problem = PROBLEMS[name]
    assert problem.optimum is not None
    result = run(DSGT(), problem, RING, rounds=1500, lr=0.2)
    assert (result.x - problem.optimum).norm(dim=1).max() < 1e-8


@pytest.mark.parametrize("name", PROBLEMS)
def test_mean_gradients_reach_another_point(name: str) -> None:
    """Section 2.1 of the paper: equal batches with mean gradients weigh node i's samples with 1 / N_i."""
    problem = PROBLEMS[name]
    assert isinstance(problem, LeastSquares | Logistic)
    oracle, weights = problem.oracle(0), problem.weights[:, None]

    def mean_gradients(x: torch.Tensor, k: int) -> torch.Tensor:
        return (oracle(x, k) - problem.l2 * x) / weights + problem.l2 * x

    state = next(islice(iterate(DSGT(), mean_gradients, RING, problem.start(0), 0.2), 1500, None))
    found = state.x.mean(dim=0)
    assert float(mean_gradients(found.expand(5, -1), 0).mean(dim=0).norm()) < 1e-8  # it solved that other problem
    assert problem.optimum is not None
    assert float((found - problem.optimum).norm() / problem.optimum.norm()) > 0.1


def noise_ball(problem: LeastSquares, lr: float) -> float:
    """E |x̄ - x*|^2 for a small lr: C H + H C = lr S, S the covariance of mean(s) at x*, samples drawn with replacement.

    mean(s) = sum_i (N_i / N) (mean of b_i draws), so S = sum_i (N_i / N)^2 Cov_i / b_i.
    """
    A, x = problem.data.features, problem.optimum
    H = A.mT @ A / problem.samples
    S = torch.zeros_like(H)
    for rows, b in zip(problem.shards, problem.batch.tolist(), strict=True):
        r = A[rows] * (A[rows] @ x - problem.data.targets[rows])[:, None]
        r = r - r.mean(dim=0)
        S += (len(rows) / problem.samples) ** 2 * (r.mT @ r / len(rows)) / b
    values, vectors = torch.linalg.eigh(H)
    return lr * float(((vectors.mT @ S @ vectors).diagonal() / (2 * values)).sum())


def test_mini_batches_end_in_the_noise_ball_of_the_optimum() -> None:
    problem = LeastSquares(*uneven_least_squares(), WithReplacement(eta=0.1))
    lr, skip, rounds = 0.02, 1_000, 20_000
    states = iterate(DSGT(), problem.oracle(3), RING, problem.optimum, lr)
    path = torch.stack([s.x.mean(dim=0) for s in islice(states, skip, rounds)]) - problem.optimum
    # the path forgets in about 1 / (lr mu) = 60 rounds, so 19,000 rounds are some 300 independent looks
    assert float(path.square().sum(dim=1).mean()) == pytest.approx(noise_ball(problem, lr), rel=0.25)
    assert float(path.mean(dim=0).norm()) < 0.3 * noise_ball(problem, lr) ** 0.5


@pytest.mark.parametrize("way", [WithReplacement(eta=0.13), WithoutReplacement(eta=0.13), Bernoulli(0.13)])
def test_the_mean_gradient_is_unbiased_even_where_eta_N_i_is_no_whole_number(way) -> None:
    data, shards = synthetic.least_squares([3, 5, 11, 23], 3, seed=0, dtype=F64)
    problem = LeastSquares(data, shards, way)
    x = torch.ones(4, 3, dtype=F64)
    oracle = problem.oracle(0)
    draws = torch.stack([oracle(x, k).mean(dim=0) for k in range(4_000)])
    error = draws.mean(dim=0) - problem.gradient(x[0])
    deviation = float(draws.var(dim=0).sum()) ** 0.5
    assert float(error.norm()) < 5 * deviation / 4_000**0.5


class TestExample2:
    """Every node holds copies of one sample: its gradients have no variance, while those of all samples do."""

    data, shards = partition.duplicates(synthetic.least_squares([12], 4, noise=1.0, dtype=F64)[0], copies=2)
    W = metropolis(nx.circulant_graph(12, [1, 2, 4]))

    def distance(self, problem: LeastSquares, network, algorithm) -> float:
        x = run(algorithm, problem, network, rounds=2_000, lr=0.1).x
        return float((x - problem.optimum).norm(dim=1).max())

    def test_dsgt_converges_linearly_with_batches_of_one(self) -> None:
        problem = LeastSquares(self.data, self.shards, WithReplacement(batch=[1] * 12))
        assert self.distance(problem, self.W, DSGT()) < 1e-10

    def test_centralized_sgd_with_the_same_global_batch_stalls_at_its_noise(self) -> None:
        problem = LeastSquares(self.data, partition.equal(24, 1), WithReplacement(batch=12))
        assert self.distance(problem, [[1.0]], SGD()) > 1e-2

    def test_under_bernoulli_sampling_the_advantage_disappears(self) -> None:
        problem = LeastSquares(self.data, self.shards, Bernoulli(0.5))
        assert self.distance(problem, self.W, DSGT()) > 1e-2


@pytest.mark.parametrize("kind", ["logistic", "lenet"])
def test_one_node_is_plain_sgd_bit_for_bit(kind: str) -> None:
    """DSGT on one node is SGD bit for bit, and for a module both are, to rounding, the plain training loop."""
    train, _ = digits(images=kind == "lenet", dtype=F64)
    one, way = partition.equal(train, 1), WithoutReplacement(batch=64)
    module = lenet(channels=1, size=8)
    # by name: which way is the fastest is measured, and ways differ in the last bits
    problem = Logistic(train, one, way) if kind == "logistic" else Model(module, train, one, way, strategy="loop")
    paths = [run(a, problem, [[1.0]], rounds=20, lr=0.1, every=20, seed=5).x[0] for a in (DSGT(), SGD())]
    assert torch.equal(*paths)
    if kind == "lenet":
        module = module.double()
        batches = problem.batches(5)
        for k in range(20):
            rows = batches.rows(k)
            loss = torch.nn.functional.cross_entropy(module(train.features[rows]), train.targets[rows])
            for p, g in zip(module.parameters(), torch.autograd.grad(loss, list(module.parameters())), strict=True):
                p.data = p.data - 0.1 * g  # torch.optim.SGD fuses these two and rounds once
        plain = torch.nn.utils.parameters_to_vector(module.parameters())
        assert (paths[0] - plain).abs().max() < 1e-13  # some BLAS round by where in memory a matrix begins


def test_measuring_more_often_changes_nothing() -> None:
    train, test = digits(dtype=F64)
    problem = Logistic(train, partition.equal(train, 5), WithReplacement(eta=0.05), test=test)
    rarely, often = (run(DSGT(), problem, RING, rounds=50, lr=0.5, every=every).x for every in (50, 1))
    assert torch.equal(rarely, often)


def test_the_learning_rate_is_the_centralized_one_whatever_the_shards() -> None:
    """With everyone hearing everyone, one DSGT round on uneven shards is one centralized gradient step, same lr."""
    problem = PROBLEMS["logistic"]
    x0 = torch.randn(problem.dim, dtype=F64, generator=torch.Generator().manual_seed(0))
    x = run(DSGT(), problem, torch.full((5, 5), 0.2, dtype=F64), rounds=1, lr=0.3, x0=x0).x
    assert (x - (x0 - 0.3 * problem.gradient(x0))).norm() < 1e-12


def test_dpsgd_needs_equal_data_where_dsgt_does_not() -> None:
    problem = PROBLEMS["logistic"]
    assert problem.optimum is not None
    worse = run(DPSGD(), problem, RING, rounds=1500, lr=0.2).x
    assert (worse - problem.optimum).norm(dim=1).max() > 1e-2
