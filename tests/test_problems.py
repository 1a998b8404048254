"""Closed-form problems: their gradients are the derivatives of their losses, for every way of holding and drawing."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dsgt.buffers import is_large
from dsgt.data import Bernoulli, Full, Samples, Shards, WithoutReplacement, WithReplacement, partition, synthetic
from dsgt.data.sampling import Sampling
from dsgt.problems import LeastSquares, Logistic
from dsgt.threads import threads

F64 = torch.float64
ROUNDING = 1e-12  # sums of some hundred terms of size one


def make(kind: str, sizes: list[int], sampling: Sampling, l2: float = 0.0) -> LeastSquares | Logistic:
    if kind == "least squares":
        return LeastSquares(*shuffled(*synthetic.least_squares(sizes, 4, seed=1, dtype=F64)), sampling, l2=l2)
    classes = 2 if kind == "two classes" else 5
    made = synthetic.classification(sizes, 4, classes=classes, seed=1, dtype=F64)
    return Logistic(*shuffled(*made), sampling, l2=l2)


def shuffled(data: Samples, shards: Shards) -> tuple[Samples, Shards]:
    """The same samples of every node, but not node after node."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(2))
    return Samples(data.features[order], data.targets[order]), Shards(order.argsort()[shards.order], shards.sizes)


KINDS = ["least squares", "two classes", "five classes"]
kinds = pytest.mark.parametrize("kind", KINDS)
l2s = pytest.mark.parametrize("l2", [0.0, 0.3])
SIZES = {"equal": [8, 8, 8], "uneven": [5, 10, 20, 40], "very uneven": [2, 300, 3, 2, 2, 2, 2, 2], "one": [9]}
WAYS = {
    "full": Full(),
    "with": WithReplacement(eta=0.3),
    "without": WithoutReplacement(eta=0.3),
    "bernoulli": Bernoulli(0.3),
}


def models(rows: int, m: int) -> torch.Tensor:
    return torch.randn(rows, m, dtype=F64, generator=torch.Generator().manual_seed(0))


@kinds
@l2s
def test_the_gradient_is_the_derivative_of_the_loss(kind: str, l2: float) -> None:
    problem = make(kind, [5, 10, 20], Full(), l2)
    for part in (problem, problem[1]):
        x = models(3, problem.dim).requires_grad_()
        (expected,) = torch.autograd.grad(part.loss(x).sum(), x)
        assert (part.gradient(x.detach()) - expected).abs().max() < ROUNDING


@kinds
@l2s
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sizes", SIZES)
def test_every_node_gets_its_weighted_batch_gradient_in_the_simulator_and_alone(
    kind: str, l2: float, way: str, sizes: str
) -> None:
    problem = make(kind, SIZES[sizes], WAYS[way], l2)
    x = models(problem.nodes, problem.dim)
    for k in (0, 3):
        found = problem.oracle(7)(x, k)
        rows, counts = problem.batches(7).ragged(k)  # of tables that are laid out node after node
        for i, batch in enumerate(problem.shards.order[rows].split(counts.tolist())):
            mine = x[i].clone().requires_grad_()
            scores = mine.view(problem.scores, -1) @ problem._with_intercept(problem.data.features[batch]).mT
            total = problem._loss_of_scores(scores, problem.data.targets[batch]).sum()
            N_i, b_i = int(problem.shards.sizes[i]), float(problem.batch[i])
            value = problem.nodes * N_i / problem.samples / b_i * total + l2 / 2 * mine.square().sum()
            (expected,) = torch.autograd.grad(value, mine)
            assert (found[i] - expected).abs().max() < ROUNDING
            assert (problem[i].oracle(7)(x[i], k) - expected).abs().max() < ROUNDING


@kinds
@pytest.mark.parametrize("way", ["with", "without"])
@pytest.mark.parametrize("sizes", SIZES)
def test_small_batches_give_the_same_gradients_as_large_ones(
    kind: str, way: str, sizes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy computes the small ones, torch the large ones."""
    problem = make(kind, SIZES[sizes], WAYS[way], l2=0.3)
    x = models(problem.nodes, problem.dim)
    small = [problem.oracle(7)(x, k) for k in (0, 3)]
    monkeypatch.setattr("dsgt.problems.numpy_gradients.IN_CACHE", 2 * problem.rows.shape[1])
    apart = [problem.oracle(7)(x, k) for k in (0, 3)]  # one or two nodes at a time
    assert all((a - b).abs().max() < ROUNDING for a, b in zip(small, apart, strict=True))
    with threads(2):
        both = [problem.oracle(7)(x, k) for k in (0, 3)]
    assert all((a - b).abs().max() < ROUNDING for a, b in zip(small, both, strict=True))
    monkeypatch.setattr("dsgt.problems.numpy_gradients.FEW", 0)
    by_blas = [problem.oracle(7)(x, k) for k in (0, 3)]
    assert all((a - b).abs().max() < ROUNDING for a, b in zip(small, by_blas, strict=True))
    monkeypatch.setattr("dsgt.problems.numpy_gradients.MOST_MULTIPLICATIONS", 0)
    large = [problem.oracle(7)(x, k) for k in (0, 3)]
    assert all((a - b).abs().max() < ROUNDING for a, b in zip(small, large, strict=True))


def test_a_gradient_that_somebody_keeps_is_not_overwritten() -> None:
    problem = make("five classes", [4] * 2800, WithReplacement(eta=0.5))
    oracle, x = problem.oracle(0), models(2800, problem.dim)
    assert is_large(x)
    first = oracle(x, 0)
    kept = first.clone()
    assert not torch.equal(oracle(x, 1), kept)
    assert torch.equal(first, kept)
    at = first.data_ptr()
    del first
    assert oracle(x, 2).data_ptr() == at  # and then it is used again


@settings(deadline=None, max_examples=25)
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6), kind=st.sampled_from(KINDS))
def test_at_equal_models_the_mean_of_full_gradients_is_the_global_gradient(sizes: list[int], kind: str) -> None:
    problem = make(kind, [5, *sizes], Full())
    x = models(1, problem.dim)[0]
    mean = problem.oracle(0)(x.expand(problem.nodes, -1).clone(), 0).mean(dim=0)
    assert (mean - problem.gradient(x)).abs().max() < ROUNDING


@kinds
def test_proportional_batches_have_the_weight_n_b_over_M(kind: str) -> None:
    problem = make(kind, [10, 20, 40], WithReplacement(eta=0.1))
    n, M = 3, int(problem.batch.sum())
    assert torch.allclose(problem.weights, n * problem.batch.double() / M, rtol=1e-15)
    assert problem.epochs_per_round == pytest.approx(0.1)


@kinds
def test_the_global_gradient_vanishes_at_the_optimum(kind: str) -> None:
    problem = make(kind, [5, 10, 20], Full(), l2=0.01)
    assert problem.optimum is not None
    assert problem.gradient(problem.optimum).norm() < 1e-12


def test_least_squares_without_l2_has_the_least_squares_solution() -> None:
    problem = make("least squares", [5, 10, 20], Full())
    assert problem.gradient(problem.optimum).norm() < 1e-12


def test_without_l2_the_optimum_of_logistic_regression_is_not_claimed() -> None:
    assert make("two classes", [10, 10], Full()).optimum is None


def test_the_constants_of_least_squares_are_those_of_its_hessians() -> None:
    problem = make("least squares", [5, 10, 20], Full(), l2=0.1)
    assert isinstance(problem, LeastSquares)
    x = torch.zeros(problem.dim, dtype=F64)
    H = torch.autograd.functional.hessian(lambda x: problem.loss(x), x)
    values = torch.linalg.eigvalsh(H)
    assert pytest.approx(float(values[-1])) == problem.constants.L
    assert problem.constants.mu == pytest.approx(float(values[0]))
    oracle = problem.oracle(0)
    for i in range(3):
        columns = [
            oracle((x + e).expand(3, -1).clone(), 0)[i] - oracle(x.expand(3, -1).clone(), 0)[i]
            for e in torch.eye(4).double()
        ]
        assert float(problem.constants.L_i[i]) == pytest.approx(float(torch.linalg.eigvalsh(torch.stack(columns))[-1]))
    assert float(problem.constants.L_i.mean()) >= problem.constants.L


@pytest.mark.parametrize("kind", KINDS[1:])
def test_the_smoothness_of_logistic_regression_is_never_exceeded(kind: str) -> None:
    problem = make(kind, [30, 30], Full(), l2=0.1)
    assert isinstance(problem, Logistic)
    for x in models(5, problem.dim) * torch.tensor([0.0, 0.1, 1.0, 3.0, 10.0], dtype=F64)[:, None]:
        H = torch.autograd.functional.hessian(lambda x: problem.loss(x), x)
        assert float(torch.linalg.eigvalsh(H)[-1]) <= problem.smoothness * (1 + 1e-12)


@pytest.mark.parametrize("classes", [2, 4])
def test_accuracy_counts_the_test_samples_that_are_right(classes: int) -> None:
    data, shards = synthetic.classification([40, 40], 3, classes=classes, dtype=F64)
    problem = Logistic(data, shards, Full(), test=data)
    x = models(2, problem.dim)
    scores = problem._with_intercept(data.features) @ x[1].view(problem.scores, -1).mT
    guess = (scores[:, 0] > 0).long() if classes == 2 else scores.argmax(dim=1)
    assert float(problem.accuracy(x)[1]) == pytest.approx(float((guess == data.targets).double().mean()))
    assert problem.accuracy(x[1]).shape == ()


def test_of_several_classes_with_the_highest_score_the_first_is_the_answer() -> None:
    draw = torch.Generator().manual_seed(0)
    features, X = (torch.randint(-2, 3, size, generator=draw).double() for size in ((60, 3), (7, 5, 4)))  # exact sums
    data = Samples(features, torch.randint(0, 5, (60,), generator=draw))
    problem = Logistic(data, Shards.of([torch.arange(60)]), Full(), test=data)
    tied = 0
    for one in (torch.zeros_like(X[0]), *X):
        right = 0
        for z, label in zip((problem._with_intercept(features) @ one.mT).tolist(), data.targets.tolist(), strict=True):
            right += z.index(max(z)) == label
            tied += z.count(max(z)) > 1
        assert float(problem.accuracy(one.flatten())) == right / 60
    assert 60 < tied < 480


def test_evaluation_in_pieces_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make("five classes", [30, 60], Full())
    x = models(2, problem.dim)
    whole = problem.loss(x), problem.gradient(x)
    monkeypatch.setattr("dsgt.problems.erm.AT_ONCE", 50)
    pieces = problem.loss(x), problem.gradient(x)
    assert all((a - b).abs().max() < ROUNDING for a, b in zip(whole, pieces, strict=True))


DATA, SHARDS = synthetic.classification([5, 5], 3, classes=3, dtype=F64)
BAD: list[tuple[Any, str]] = [
    (lambda: Logistic(DATA, Shards.of([[0, 1], [2]]), Full()), "hold 3 samples and the data set 10"),
    (lambda: Logistic(DATA, SHARDS, Full(), classes=2), "training sample 2 has the label 2"),
    (
        lambda: Logistic(DATA, SHARDS, Full(), test=(DATA.features, DATA.targets + 1)),
        "has the label 3, but there are 3",
    ),
    (
        lambda: Logistic(DATA, SHARDS, Full(), test=(DATA.features[:, :2], DATA.targets)),
        r"test sample has shape \(2,\)",
    ),
    (lambda: Logistic((DATA.features[:, :, None], DATA.targets), SHARDS, Full()), "flatten"),
    (lambda: Logistic((DATA.features, DATA.targets.double()), SHARDS, Full()), "whole number"),
    (lambda: LeastSquares(DATA, SHARDS, Full()), "real number per sample"),
    (lambda: Logistic(DATA, SHARDS, Full(), l2=-1), "l2 is -1"),
    (lambda: Logistic(DATA, SHARDS, Full()).oracle(0)(torch.zeros(2, 5), 0), r"shape \(2, 5\) and dtype torch.float32"),
    (lambda: Logistic(DATA, SHARDS, Full()).accuracy(torch.zeros(12, dtype=F64)), "test samples"),
    (lambda: Logistic(DATA, SHARDS, Full())[0][0], "already node 0"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_input_is_refused_with_a_reason(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_node_beyond_the_last_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        Logistic(DATA, SHARDS, Full())[2]


def test_many_small_nodes_need_no_loop() -> None:
    data, shards = synthetic.classification([2] * 20_000, 3)
    problem = Logistic(data, shards, WithReplacement(eta=0.5))
    g = problem.oracle(0)(torch.zeros(20_000, problem.dim), 0)
    assert g.shape == (20_000, 4)
    assert float((g.mean(dim=0) - problem.gradient(torch.zeros(4))).norm()) < 0.05  # 20,000 draws of size one


def test_samples_shards_and_partitions_fit_together() -> None:
    data = Samples(torch.randn(20, 2, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2)
    for shards in (partition.equal(data, 4), partition.by_label(data.targets, 4, labels_per_node=1)):
        assert Logistic(data, shards, Full()).nodes == 4
