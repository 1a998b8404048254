"""SSDA, MSDA, MSPD, DCS and SDCS against their published recursions, other solvers and what they promise."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import dsgt
from dsgt.algorithms.named import label, method
from dsgt.cli import app
from dsgt.core import Algorithm
from dsgt.data import Full, Shards, WithReplacement
from dsgt.gossip import chebyshev, eigenvalue_range
from dsgt.networks import Clocked, Dense, Peers, in_threads
from dsgt.problems import AbsoluteDeviations, Hinge, LeastSquares, Logistic, Model
from dsgt.problems.erm import EmpiricalRisk
from dsgt.topologies import metropolis, ring
from support import dual_reference as published

F64 = torch.float64
N = 8
SIZES = [6, 7, 8, 9, 10, 11, 12, 13]
W = metropolis(ring(N))
LAP = np.eye(N) - W
EACH = {
    "ssda": dsgt.SSDA(),
    "msda:K=0": dsgt.MSDA(K=0),
    "msda:K=3": dsgt.MSDA(K=3),
    "mspd:M=5,K=3": dsgt.MSPD(M=5, K=3),
    "mspd:M=4,K=0": dsgt.MSPD(M=4, K=0),
    "dcs:T=5": dsgt.DCS(T=5),
    "sdcs:T=5": dsgt.SDCS(T=5),
}
each = pytest.mark.parametrize("name", EACH)


def shards() -> Shards:
    return Shards.of(torch.randperm(sum(SIZES), generator=torch.Generator().manual_seed(1)).split(SIZES))


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


@cache
def least_squares(sampling: Any = WithReplacement(batch=(2,) * N)) -> LeastSquares:  # noqa: B008
    A = drawn(sum(SIZES), 4)
    return LeastSquares((A, A @ drawn(4, seed=1) + drawn(sum(SIZES), seed=2)), shards(), sampling, l2=0.1)


@cache
def logistic() -> Logistic:
    A = drawn(sum(SIZES), 4)
    labels = (A[:, 0] + drawn(sum(SIZES), seed=1) > 0).long()
    return Logistic((A, labels), shards(), WithReplacement(batch=(2,) * N), l2=0.05)


@cache
def median() -> AbsoluteDeviations:
    """In each of three coordinates a weighted median; no half of the weights equals the other, so it is unique."""
    c = 0.5 + drawn(sum(SIZES)).abs()
    A = torch.zeros(sum(SIZES), 3, dtype=F64)
    A[torch.arange(sum(SIZES)), torch.arange(sum(SIZES)) % 3] = c
    return AbsoluteDeviations((A, c * (2 + 2 * drawn(sum(SIZES), seed=1))), shards(), Full())


def path(algorithm: Algorithm[Any], problem: EmpiricalRisk, rounds: int, lr: float, network: Any = W) -> list[Any]:
    return list(itertools.islice(dsgt.iterate(algorithm, problem.local(0), network, problem.start(0), lr), rounds + 1))


def relative(found: list[Tensor], expected: list[np.ndarray]) -> float:
    a, b = torch.stack(found), torch.from_numpy(np.stack(expected))
    return float((a - b).norm() / b.norm())


@cache
def curvatures() -> tuple[np.ndarray, np.ndarray]:
    """H_i and c_i of f_i(x) = x'H_i x / 2 - c_i'x: the whole problem, in two lines that share nothing with it."""
    p = least_squares()
    parts = [(p.data.features[rows].numpy(), p.data.targets[rows].numpy()) for rows in p.shards]
    scale = N / sum(SIZES)
    return np.stack([scale * A.T @ A + 0.1 * np.eye(4) for A, _ in parts]), np.stack(
        [scale * A.T @ t for A, t in parts]
    )


def conjugates(u: np.ndarray) -> np.ndarray:
    H, c = curvatures()
    return np.linalg.solve(H, (u + c)[..., None])[..., 0]


def subgradients(x: np.ndarray) -> np.ndarray:
    p = median()
    found = []
    for row, rows in zip(x, p.shards, strict=True):
        A, t = p.data.features[rows].numpy(), p.data.targets[rows].numpy()
        found.append(N / sum(SIZES) * A.T @ np.sign(A @ row - t))
    return np.stack(found)


@pytest.mark.parametrize("K", [None, 0, 1, 3, 4])
def test_ssda_and_msda_are_the_published_recursions(K: int | None):
    H, _ = curvatures()
    alpha, L = np.linalg.eigvalsh(H).min(), np.linalg.eigvalsh(H).max()
    if K is None:
        expected = published.ssda(conjugates, LAP, (N, 4), alpha, L, 60)
    else:
        rounds = K or published.published_rounds(LAP)
        expected = published.msda(conjugates, LAP, (N, 4), alpha, L, 60, rounds)
    states = path(dsgt.SSDA() if K is None else dsgt.MSDA(K=K), least_squares(), 60, 1.0)
    assert relative([s.x for s in states[1:]], [theta for theta, _ in expected]) < 1e-13
    assert relative([s.u for s in states[:-1]], [u for _, u in expected]) < 1e-12  # of numbers that tend to differences
    assert max(float(s.u.sum(dim=0).norm()) for s in states) < 1e-13


@pytest.mark.parametrize(("M", "K", "lr"), [(1, 1, 0.3), (4, 0, 0.7), (5, 3, 0.2)])
def test_mspd_is_the_published_recursion_and_its_model_the_mean(M: int, K: int, lr: float):
    """eta = n lr."""
    rounds = K or published.published_rounds(LAP)
    zs, means = published.mspd(subgradients, LAP, np.zeros((N, 3)), N * lr, 12, M, rounds)
    algorithm = dsgt.MSPD(M=M, K=K)
    states = path(algorithm, median(), 12 * M, lr)
    assert relative([s.x for s in states[1:]], zs) < 1e-13
    assert relative([algorithm.model(s) for s in states[M::M]], means) < 1e-13
    assert max(float(s.y.sum(dim=0).norm()) for s in states) < 1e-13


@pytest.mark.parametrize(("T", "scale"), [(1, 1.0), (5, 1.0), (7, 0.4)])
@pytest.mark.parametrize("kind", [dsgt.DCS, dsgt.SDCS])
def test_dcs_is_the_published_recursion_and_its_model_the_mean(kind: type[dsgt.DCS], T: int, scale: float):
    """scale = 1: eta = 2 |Lap| and tau = |Lap|, as published. The batches of ``median`` are all of the samples."""
    _, high = published.gap(LAP)
    us, means, ws = published.dcs(subgradients, LAP, np.zeros((N, 3)), 12, T, 2 * high / scale, high * scale)
    algorithm = kind(T=T)
    states = path(algorithm, median(), 12 * T, scale / (2 * high))
    assert relative([s.x for s in states[1:]], us) < 1e-13
    assert relative([algorithm.model(s) for s in states[T::T]], means) < 1e-13
    assert relative([s.v for s in states[: 12 * T : T]], ws) < 1e-13
    assert max(float(s.v.sum(dim=0).norm()) for s in states) < 1e-13


@pytest.mark.parametrize("problem", [least_squares, logistic], ids=["least squares", "logistic"])
def test_msda_is_as_fast_as_promised_and_ends_where_another_solver_does(problem: Callable[[], EmpiricalRisk]):
    p, algorithm = problem(), dsgt.MSDA(K=0)
    found = scipy.optimize.root(lambda x: p.gradient(torch.from_numpy(x)).numpy(), np.zeros(p.dim), tol=1e-13)
    optimum = torch.from_numpy(found.x)
    assert p.gradient(optimum).norm() < 1e-11
    fitted = algorithm.fitted(algorithm.over(Dense(W)), p.local(0))
    kappa = fitted.L / fitted.mu
    distances = [float((s.x - optimum).norm()) for s in path(algorithm, p, 400, 1.0)]
    assert distances[-1] < 1e-8
    end = next(k for k, d in enumerate(distances) if d < 1e-6)
    assert (distances[end] / distances[1]) ** (1 / (end - 1)) < 1 - 1 / (2 * kappa**0.5)


def test_more_gossip_needs_fewer_conjugates_and_on_a_long_ring_no_more_messages():
    long = metropolis(ring(24))
    A = drawn(240, 3)
    p = LeastSquares((A, A.sum(dim=1) + drawn(240, seed=1)), Shards.of(torch.arange(240).split(10)), Full(), l2=0.1)

    def rounds(algorithm: Algorithm[Any]) -> int:
        states = dsgt.iterate(algorithm, p.local(0), long, p.start(0), 1.0)
        return next(k for k, s in enumerate(states) if (s.x - p.optimum).norm() < 1e-8)

    K = published.published_rounds(np.eye(24) - long)
    plain, three, many = rounds(dsgt.SSDA()), rounds(dsgt.MSDA(K=3)), rounds(dsgt.MSDA(K=K))
    assert K == 7
    assert plain > 2.5 * three > 2.5 * 1.5 * many
    assert 3 * three < 1.2 * plain
    assert K * many < 1.5 * plain


@cache
def gap(kind: str, phases: int, steps: int, larger: float = 1.0) -> tuple[float, float]:
    """How far the loss of the mean model is above the lowest, and the nodes from each other."""
    p = median()
    x = cp.Variable(3)
    lowest = cp.Problem(cp.Minimize(cp.norm1(p.data.features.numpy() @ x - p.data.targets.numpy()) / p.samples)).solve(
        solver="CLARABEL"
    )
    assert abs(lowest - float(p.loss(p.optimum))) < 1e-8
    if kind == "mspd":
        low, high = eigenvalue_range(chebyshev(Dense(W)))
        R, ell = float(p.optimum.norm()), 1.5
        algorithm, lr = dsgt.MSPD(M=steps, K=0), R / ell * (low / high) ** 0.5
    else:
        algorithm, lr = dsgt.DCS(T=steps), 1 / (2 * published.gap(LAP)[1])
    run = dsgt.run(
        algorithm,
        p,
        W,
        rounds=phases * steps,
        lr=larger * lr,
        every=phases * steps,
        metrics={"loss": dsgt.metrics.loss},
    )
    mean = run.x.mean(dim=0)
    return run.column("loss")[-1] - lowest, float((run.x - mean).norm())


@pytest.mark.parametrize(("kind", "apart"), [("mspd", 0.35), ("dcs", 0.7)])
def test_on_weighted_medians_the_gap_falls_like_the_number_of_mixings_and_so_do_nodes_apart(kind: str, apart: float):
    """Four times as many phases of four times as many steps each: a quarter by the theorem, in the long run."""
    few, many = (gap(kind, t, 2 * t) for t in (20, 80))  # 0.045 to 0.0067 and 0.50 to 0.061 seen
    assert 0 < many[0] < 0.3 * few[0]
    assert many[1] < apart * few[1]


@pytest.mark.parametrize(("kind", "larger"), [("mspd", 1.0), ("dcs", 10.0)])
def test_where_functions_have_kinks_the_same_few_local_steps_leave_a_distance(kind: str, larger: float):
    few, many = (gap(kind, t, 2, larger)[0] for t in (400, 1600))  # 1.2e-2 and 1.9e-2 seen
    assert many > 0.5 * few


def test_sdcs_asks_for_batches_and_dcs_for_all_samples():
    batches = least_squares()
    assert torch.equal(path(dsgt.DCS(T=4), batches, 20, 0.1)[-1].x, path(dsgt.DCS(T=4), batches.full(), 20, 0.1)[-1].x)
    noisy = path(dsgt.SDCS(T=4), batches, 20, 0.1)[-1].x
    assert (noisy - path(dsgt.DCS(T=4), batches, 20, 0.1)[-1].x).norm() > 1e-3
    runs = [dsgt.run(dsgt.SDCS(T=10), batches, W, rounds=k, lr=0.05, seed=2) for k in (200, 3200)]
    early, late = (float(batches.loss(r.x.mean(dim=0)) - batches.loss(batches.optimum)) for r in runs)
    assert late < early / 4


@each
def test_smooth_functions_are_minimised_exactly_with_a_constant_lr(name: str):
    p = least_squares().full()
    lr = 1.0 if "sda" in name else 0.1
    end = path(method(name), p, 400 if "sda" in name else 4000, lr)[-1]
    assert (end.x - p.optimum).norm() < 1e-9


@each
def test_a_resumed_run_ends_bit_for_bit_as_if_it_had_not_been_interrupted(name: str, tmp_path: Path):
    """Logistic regression: the memory of conjugates is where Newton begins."""
    options = {"lr": 0.5, "seed": 3}
    whole = dsgt.run(method(name), logistic(), W, rounds=23, **options)
    dsgt.run(method(name), logistic(), W, rounds=9, **options, checkpoint_dir=tmp_path)
    resumed = dsgt.run(method(name), logistic(), W, rounds=23, **options, checkpoint_dir=tmp_path, resume=True)
    assert torch.equal(resumed.x, whole.x)
    assert torch.equal(resumed.state.x, whole.state.x)
    assert resumed.column("epochs") == whole.column("epochs")


@each
def test_a_checkpoint_knows_the_method_as_it_was_given(name: str, tmp_path: Path):
    dsgt.run(method(name), logistic(), W, rounds=3, lr=0.5, checkpoint_dir=tmp_path)
    other = method(name).__class__(high=1.9)
    with pytest.raises(dsgt.checkpoint.DifferentError, match=r"high=0\.0.*, but here it is .*high=1\.9"):
        dsgt.run(other, logistic(), W, rounds=3, lr=0.5, checkpoint_dir=tmp_path, resume=True)


@each
def test_it_sends_what_it_declares(name: str):
    network, algorithm = Dense(W), method(name)
    path(algorithm, least_squares(), 20, 0.5, network)
    rounds = {"msda:K=0": 2, "mspd:M=4,K=0": 2 / 4}.get(name, algorithm.sends)
    assert network.traffic.mixings == 20 * rounds
    assert network.traffic.bytes == 20 * rounds * 2 * N * 4 * 8


def test_the_clock_and_the_epochs_charge_what_conjugates_cost():
    """A batch is 2 samples, so all of a node's are SIZES / 2 gradients: a conjugate in closed form costs that."""

    def seconds(algorithm: Algorithm[Any], problem: EmpiricalRisk) -> tuple[float, float]:
        network = Clocked(W, compute=1.0)
        seen = {"t": dsgt.metrics.virtual_seconds, "epochs": dsgt.metrics.epochs}
        row = dsgt.run(algorithm, problem, network, rounds=10, lr=0.5, metrics=seen).rows[-1]
        return row["t"], row["epochs"]

    assert seconds(dsgt.SDCS(T=5), least_squares())[0] == pytest.approx(10)
    for algorithm in (dsgt.MSDA(), dsgt.DCS(T=5)):
        t, epochs = seconds(algorithm, least_squares())
        assert epochs == pytest.approx(10)
        assert t == pytest.approx(10 * max(SIZES) / 2)
    t, epochs = seconds(dsgt.MSDA(), logistic())
    assert epochs > 20  # Newton looks at all samples several times
    assert t >= epochs * max(SIZES) / 2 / 2


def once(algorithm: Algorithm[Any], problem: EmpiricalRisk) -> object:
    return dsgt.run(algorithm, problem, W, rounds=1, lr=1.0)


def separable() -> tuple[Tensor, Tensor]:
    return drawn(sum(SIZES), 4), torch.arange(sum(SIZES)) % 2


HAVE = "LeastSquares, Logistic, and Model with convex=True do"
LACKING: dict[str, Callable[[], EmpiricalRisk]] = {
    "Hinge": lambda: Hinge(separable(), shards(), Full(), l2=0.1),
    "AbsoluteDeviations": median,
    "Model": lambda: Model(nn.Linear(4, 2, dtype=F64), separable(), shards(), Full(), l2=0.1),
}


@pytest.mark.parametrize("name", LACKING)
@pytest.mark.parametrize("algorithm", [dsgt.SSDA(), dsgt.MSDA(mu=0.1, L=1.0)], ids=repr)
def test_who_has_no_conjugates_is_told_who_has(name: str, algorithm: Algorithm[Any]):
    with pytest.raises(TypeError, match=f"{name} does not compute conjugates.*{HAVE}"):
        once(algorithm, LACKING[name]())


@pytest.mark.parametrize("kind", [dsgt.SSDA, dsgt.MSDA])
def test_functions_that_are_not_strongly_convex_are_refused_before_any_work(kind: type[dsgt.SSDA], tmp_path: Path):
    flat = Logistic(separable(), shards(), Full())
    message = f"{kind.__name__} needs strongly convex functions at all nodes, but that of node 0 is not: use l2"
    with pytest.raises(ValueError, match=message):
        dsgt.run(kind(), flat, W, rounds=1, lr=1.0, checkpoint_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    few = LeastSquares((drawn(16, 5), drawn(16)), Shards.of(torch.arange(16).split(2)), Full())
    with pytest.raises(ValueError, match="needs strongly convex functions"):
        dsgt.iterate(kind(), few.local(0), W, few.start(0), 1.0)


def test_a_comparison_and_a_training_say_so_before_any_run(tmp_path: Path):
    some = ["--nodes", "4", "--graph", "ring", "--lr", "1", "--out", str(tmp_path / "runs")]
    for command in (["compare", "dsgt", "msda", "--seeds", "1", "--workers", "1"], ["train", "msda"]):
        told = CliRunner().invoke(app, [*command, *some])
        assert told.exit_code == 2
        text = " ".join(told.output.split())
        assert "msda: MSDA needs strongly convex functions at all nodes, but that of node 0 is not" in text
        assert not any(file.stat().st_size for file in tmp_path.rglob("*.jsonl"))


def test_a_module_is_told_to_give_its_curvature_and_then_works():
    A, labels = separable()
    two = Shards.of(torch.arange(len(A)).split(len(A) // 2))
    p = Model(nn.Linear(4, 2, dtype=F64), (A, labels), two, Full(), l2=0.1, strategy="loop", convex=True)
    pair = metropolis(nx.path_graph(2))
    with pytest.raises(TypeError, match=r"Model does not compute how curved .*give the method its L"):
        dsgt.run(dsgt.MSDA(), p, pair, rounds=1, lr=1.0)
    assert p.gradient(path(dsgt.MSDA(L=2.0), p, 40, 1.0, pair)[-1].x).norm() < 1e-6


def test_an_optimizer_refuses_what_a_training_script_cannot_compute():
    def act(network: Peers) -> str:
        try:
            dsgt.Optimizer(nn.Linear(2, 1).parameters(), dsgt.MSDA(), network, lr=0.1)
        except ValueError as error:
            return str(error)
        return ""

    for text in in_threads(metropolis(ring(3)), act, timeout=60):
        assert text.startswith("MSDA with Conjugate() asks for more than gradients at its model (conjugate)")


@pytest.mark.parametrize("kind", [dsgt.MSPD, dsgt.DCS, dsgt.SDCS])
def test_starts_that_differ_and_restarts_are_refused(kind: type[Algorithm[Any]]):
    different = drawn(N, 3)
    with pytest.raises(ValueError, match=f"{kind.__name__} needs equal ones"):
        dsgt.iterate(kind(), median().local(0), W, different, 0.1)
    with pytest.raises(ValueError, match="begins with equal models"):
        dsgt.run(kind(), median(), W, rounds=40, lr=0.1, restart_every=20)


def test_parameters_come_from_text_and_are_checked():
    assert method("msda:K=0,L=3.5") == dsgt.MSDA(K=0, L=3.5)
    assert label(dsgt.MSPD(M=7)) == "mspd:M=7"
    assert (dsgt.MSDA(K=3).sends, dsgt.MSPD(M=6, K=3).sends, dsgt.DCS(T=8).sends) == (3, 0.5, 0.25)
    for text, message in {
        "msda:K=-1": "K of MSDA is -1; expected at least 0",
        "mspd:M=0": "M of MSPD is 0; expected at least 1",
        "dcs:T=0": "T of DCS is 0",
        "msda+saga": r"MSDA already asks Conjugate\(\) and cannot ask SAGA",
    }.items():
        with pytest.raises(ValueError, match=message):
            method(text)


@pytest.mark.parametrize("name", ["ssda", "msda", "mspd", "dcs", "sdcs"])
def test_it_has_a_name_on_the_command_line(name: str):
    assert label(method(name)) == name
    shown = CliRunner().invoke(app, ["methods", name])
    assert shown.exit_code == 0
    assert "Guarantee:" in shown.output
    assert name in CliRunner().invoke(app, ["methods"], env={"COLUMNS": "200"}).output
    assert "Sends as many m-vectors as the network asks for" in CliRunner().invoke(app, ["methods", "msda:K=0"]).output


def test_one_node_alone_is_at_the_optimum_of_its_own_function_at_once():
    p = LeastSquares((drawn(9, 3), drawn(9, seed=1)), Shards.of([torch.arange(9)]), Full())
    for kind in (dsgt.SSDA, dsgt.MSDA):
        assert (path(kind(), p, 1, 1.0, [[1.0]])[-1].x - p.optimum).norm() < 1e-12
    for other in (dsgt.MSPD(M=5), dsgt.DCS(T=5)):
        assert (path(other, p, 2000, 0.3, [[1.0]])[-1].x - p.optimum).norm() < 1e-9
