"""Metrics are functions of the stacked iterates; each is checked against its definition."""

from typing import NamedTuple

import networkx as nx
import pytest
import torch

from dsgt import DPSGD, DSGT, GNSD, AugDGM, metrics, run
from dsgt.core import tensors
from dsgt.data import Full, WithReplacement, digits, partition, synthetic
from dsgt.metrics import Snapshot
from dsgt.networks import Clocked, Dense
from dsgt.problems import LeastSquares, Logistic
from dsgt.topologies.weights import metropolis

F64 = torch.float64
N_NODES = 5
W = metropolis(nx.cycle_graph(N_NODES))
TRAIN, TEST = digits(dtype=F64)
PROBLEM = Logistic(TRAIN, partition.dirichlet(TRAIN.targets, N_NODES, alpha=0.5), WithReplacement(eta=0.05), test=TEST)
X = torch.randn(N_NODES, PROBLEM.dim, dtype=F64, generator=torch.Generator().manual_seed(0))


def snapshot(**changes) -> Snapshot:
    values = {"k": 7, "x": X, "state": (), "problem": PROBLEM, "network": Dense(W), "seconds": 1.5}
    values |= {"algorithm": DSGT()} | changes
    return Snapshot(**values)


def test_the_mean_model_is_measured_on_all_samples() -> None:
    mean = X.mean(dim=0)
    assert metrics.loss(snapshot()) == pytest.approx(float(PROBLEM.loss(mean)))
    assert metrics.gradient_norm(snapshot()) == pytest.approx(float(PROBLEM.gradient(mean).norm()))
    assert metrics.accuracy(snapshot()) == pytest.approx(float(PROBLEM.accuracy(mean)))


@pytest.mark.parametrize("what", ["loss", "accuracy"])
@pytest.mark.parametrize("over", ["mean", "min", "max"])
def test_every_node_is_measured_on_all_samples(what: str, over: str) -> None:
    each = torch.stack([getattr(PROBLEM, what)(x) for x in X])
    assert getattr(metrics, f"node_{what}_{over}")(snapshot()) == pytest.approx(float(getattr(each, over)()))


def test_consensus_is_the_root_mean_square_distance_from_the_mean() -> None:
    squares = [(x - X.mean(dim=0)).square().sum() for x in X]
    assert metrics.consensus(snapshot()) == pytest.approx(float(torch.stack(squares).mean().sqrt()))
    assert metrics.consensus(snapshot(x=X[:1].expand(5, -1))) < 1e-14  # the mean of equal rows rounds


@pytest.mark.parametrize("algorithm", [DSGT(), GNSD(), AugDGM()], ids=lambda a: type(a).__name__)
def test_tracking_is_the_distance_of_the_trackers_from_the_mean_gradient(algorithm) -> None:
    result = run(algorithm, PROBLEM, W, rounds=10, lr=0.1, every=10, metrics={"tracking": metrics.tracking})
    fields = tensors(result.state)
    y = fields.get("y", fields.get("Wy"))
    expected = float((y - fields["g"].mean(dim=0)).norm()) / N_NODES**0.5
    assert result.rows[-1]["tracking"] == pytest.approx(expected)
    assert expected > 1e-3


class Renamed(NamedTuple):
    x: torch.Tensor
    direction: torch.Tensor
    last: torch.Tensor


class OtherNames(AugDGM):
    """Aug-DGM whose state calls its parts otherwise."""

    tracker = ("direction", "last")

    def init(self, x, mix):
        return Renamed(*super().init(x, mix))

    def update(self, s, g, mix, lr):
        y = mix(g + (s.direction - s.last))
        return Renamed(mix(s.x - lr * y), y, g)


def test_a_tracker_is_found_by_what_a_method_declares_and_not_by_its_name() -> None:
    both = {"tracking": metrics.tracking, "drift": metrics.tracking_drift}
    usual, other = (
        run(a, PROBLEM, W, rounds=10, lr=0.1, every=10, metrics=both).rows[-1] for a in (AugDGM(), OtherNames())
    )
    assert other["tracking"] == pytest.approx(usual["tracking"])
    assert other["drift"] < 1e-12

    class Silent(OtherNames):
        tracker = None

    with pytest.raises(ValueError, match=r"Silent declares none; use one of DSGT, GNSD, AugDGM, .*, or drop this"):
        run(Silent(), PROBLEM, W, rounds=1, lr=0.1, metrics={"tracking": metrics.tracking})
    with pytest.raises(ValueError, match="Silent declares neither `tracker` nor `zero_sum`"):
        run(Silent(), PROBLEM, W, rounds=1, lr=0.1, metrics={"drift": metrics.tracking_drift})


def test_trackers_of_exact_gradients_come_to_agree() -> None:
    problem = LeastSquares(*synthetic.least_squares([5, 10, 20, 5, 5], 3, dtype=F64), Full())
    rows = run(DSGT(), problem, W, rounds=500, lr=0.1, every=500, metrics={"tracking": metrics.tracking}).rows
    assert rows[0]["tracking"] == 0
    assert rows[-1]["tracking"] < 1e-10


def test_gap_and_distance_vanish_at_the_optimum() -> None:
    problem = LeastSquares(*synthetic.least_squares([9, 9, 9, 9, 9], 3, dtype=F64), Full())
    there = snapshot(problem=problem, x=problem.optimum.expand(5, -1))
    assert metrics.gap(there) == pytest.approx(0, abs=1e-14)
    assert metrics.distance(there) == 0
    beside = snapshot(problem=problem, x=problem.optimum + torch.ones(5, 3, dtype=F64))
    assert metrics.distance(beside) == pytest.approx(3**0.5)
    assert metrics.gap(beside) > 0.1


def test_epochs_count_how_often_all_samples_were_looked_at() -> None:
    assert metrics.epochs(snapshot()) == pytest.approx(7 * float(PROBLEM.batch.sum()) / len(TRAIN))
    assert metrics.epochs(snapshot(problem=PROBLEM.full())) == 7


def test_bytes_and_both_clocks_are_reported() -> None:
    network = Clocked(W, compute=0.5, latency=0.25, bandwidth=float("inf"))
    wanted = {"megabytes": metrics.megabytes, "seconds": metrics.seconds, "virtual": metrics.virtual_seconds}
    rows = run(DSGT(), PROBLEM, network, rounds=4, lr=0.1, every=1, metrics=wanted).rows
    # two vectors of 650 float64 to each of two neighbours, by five nodes
    assert rows[4]["megabytes"] - rows[3]["megabytes"] == pytest.approx(2 * 2 * 5 * 650 * 8 / 1e6)
    assert 0 <= rows[0]["seconds"] <= rows[4]["seconds"]
    assert rows[3]["virtual"] - rows[2]["virtual"] == pytest.approx(0.75)  # W y travels during the gradient


def test_R_is_the_papers_weighted_mean() -> None:
    data, shards = synthetic.least_squares([5, 10, 20, 5, 5], 3, dtype=F64)
    problem = LeastSquares(data, shards, Full())
    L = float(problem.constants.L_i.max()) * problem.samples / problem.nodes
    states: list[torch.Tensor] = []

    def keep(s: Snapshot) -> float:
        states.append(s.x)
        return 0.0

    def lr(k: int) -> float:
        return 0.1 / (1 + k)

    wanted = {"stationarity": metrics.stationarity(L), "keep": keep}
    rows = run(DSGT(), problem, W, rounds=6, lr=lr, every=1, metrics=wanted).rows
    found = metrics.R(rows, lr)

    total = weight = 0.0
    for k, x in enumerate(states):
        mean = x.mean(dim=0)
        sum_gradient = data.features.mT @ (data.features @ mean - data.targets)  # f is the sum of the losses
        term = sum_gradient.square().sum() + 5 * L**2 * (x - mean).square().sum()
        total, weight = total + lr(k) * float(term), weight + lr(k)
        assert found[k] == pytest.approx(total / weight)


def test_the_papers_inequality_holds_for_stationarity() -> None:
    """(1/2n) sum ||∇f(x_i)||^2 <= ||∇f(x̄)||^2 + n L^2 ||X - 1x̄'||^2, under the definition of R(k)."""
    problem = LeastSquares(*synthetic.least_squares([5, 10, 20, 5, 5], 3, dtype=F64), Full())
    L = float(problem.constants.L_i.max()) * problem.samples / problem.nodes
    for scale in (0.01, 1.0, 100.0):
        x = scale * X[:, :3]
        left = (problem.samples * problem.gradient(x)).square().sum() / (2 * N_NODES)
        assert float(left) <= metrics.stationarity(L)(snapshot(problem=problem, x=x))


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (metrics.tracking, "needs a tracker"),
        (metrics.virtual_seconds, "no clock"),
        (metrics.gap, "not known"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_any_round(metric, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(DPSGD(), PROBLEM, W, rounds=3, lr=0.1, metrics={"m": metric})


def test_the_default_metrics_suit_every_problem() -> None:
    rows = run(DSGT(), PROBLEM, W, rounds=4, lr=0.5, metrics=metrics.CLASSIFICATION).rows
    assert set(metrics.DEFAULT) < set(rows[-1])
    assert rows[-1]["node_accuracy_min"] <= rows[-1]["node_accuracy_mean"] <= rows[-1]["node_accuracy_max"]


def test_a_metric_that_costs_much_is_measured_seldom_and_is_the_same():
    often = {"loss": metrics.loss, "consensus": metrics.consensus}
    seldom = often | {"consensus": metrics.Seldom(metrics.consensus, 4, last=10)}
    all_rows, rows = (run(DSGT(), PROBLEM, W, rounds=10, lr=0.1, every=2, metrics=m).rows for m in (often, seldom))
    assert [row["round"] for row in rows if "consensus" in row] == [0, 4, 8, 10]
    assert rows == [
        row if row["round"] in (0, 4, 8, 10) else {"round": row["round"], "loss": row["loss"]} for row in all_rows
    ]
