"""A run that is interrupted and resumed equals the undisturbed one bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import dsgt
from dsgt import checkpoint, data, metrics, problems
from dsgt.checkpoint import fingerprint
from dsgt.networks import Clocked, Cycle, Dense
from support.cases import CASES, F64, graph
from support.interrupted import MEASURED, ROUNDS, equal, go, interrupted, problem
from support.launch import TESTS, launch

N = 5


def weights(name: str) -> np.ndarray:
    return CASES[name].weights(graph(N))


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_equals_the_undisturbed_one(tmp_path: Path, name: str):
    expected = go(CASES[name], weights(name), N)
    found = interrupted(CASES[name], lambda: Dense(weights(name)), N, tmp_path)
    assert equal(found, expected)
    assert found.column("round") == [0, 4, 8, 12, 16, 20, 23]
    assert checkpoint.latest(tmp_path) == ROUNDS


@pytest.mark.parametrize(("kind", "n"), [("torch", 2), ("mpi", 2)])
def test_real_nodes_resume_every_method_and_the_optimizer_exactly(tmp_path: Path, kind: str, n: int):
    finished = launch(kind, n, str(TESTS / "workers" / "resume_worker.py"), kind, str(tmp_path))
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_a_changing_network_goes_on_with_the_right_member(tmp_path: Path):
    lazy = (np.eye(N) + weights("dsgt")) / 2
    expected = go(CASES["dsgt"], Cycle([weights("dsgt"), lazy, lazy @ lazy]), N)
    found = interrupted(CASES["dsgt"], lambda: Dense(Cycle([weights("dsgt"), lazy, lazy @ lazy])), N, tmp_path)
    assert equal(found, expected)


@pytest.mark.parametrize("name", CASES)
def test_a_virtual_clock_goes_on_from_the_time_it_showed_and_saving_takes_none(name: str, tmp_path: Path):
    def times(rounds: int, **options: object) -> list[float]:
        network = Clocked(weights(name), compute=[1.0, 2.0, 3.0, 1.0, 1.0], latency=0.7, bandwidth=100)
        return dsgt.run(
            CASES[name].algorithm, problem(N), network, rounds=rounds, lr=0.01, every=1,
            metrics={"t": metrics.virtual_seconds}, **options,
        ).column("t")  # fmt: skip

    kept = {"checkpoint_dir": tmp_path, "checkpoint_every": 3, "resume": True}
    assert times(20) == [times(k, **kept) for k in (7, 10, 20)][-1]


def test_a_finished_run_is_returned_without_running_and_can_be_prolonged(tmp_path: Path):
    case = CASES["dsgt"]
    short = {"rounds": 10, "lr": 0.01, "every": 4, "metrics": MEASURED, "checkpoint_dir": tmp_path}
    first = dsgt.run(case.algorithm, problem(N), weights("dsgt"), **short)
    again = dsgt.run(case.algorithm, problem(N), weights("dsgt"), **short, resume=True)
    assert equal(first, again)
    longer = dsgt.run(case.algorithm, problem(N), weights("dsgt"), **short | {"rounds": 20}, resume=True)
    assert longer.column("round") == [0, 4, 8, 12, 16, 20]
    undisturbed = dsgt.run(
        case.algorithm, problem(N), weights("dsgt"), rounds=20, lr=0.01, every=4, metrics=MEASURED
    )  # fmt: skip
    assert equal(longer, undisturbed)
    with pytest.raises(checkpoint.DifferentError, match="round 20, but rounds is 10"):
        dsgt.run(case.algorithm, problem(N), weights("dsgt"), **short, resume=True)


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path):
    go(CASES["dsgt"], weights("dsgt"), N, checkpoint_dir=tmp_path)
    with pytest.raises(checkpoint.CheckpointError, match="holds checkpoints of an earlier run: go on from them with"):
        go(CASES["dsgt"], weights("dsgt"), N, checkpoint_dir=tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"algorithm": dsgt.GNSD()}, r"method = DSGT\(\), but here it is GNSD\(\)"),
        ({"network": (np.eye(N) + weights("dsgt")) / 2}, "saved with W = "),
        ({"network": weights("dsgt")[:4, :4] + np.diag(1 - weights("dsgt")[:4, :4].sum(0))}, "network of 5 nodes"),
        ({"x0": torch.zeros(5)}, r"saved with start = float64 \(5, 5\) .*, but here it is float32"),
        ({"seed": 8}, "saved with seed = 3, but here it is 8"),
        ({"restart_every": 7}, "saved with restart_every = 0, but here it is 7"),
        ({"metrics": {"loss": metrics.loss}}, "saved with metrics = loss, gradient_norm"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_by_name(tmp_path: Path, change: dict[str, object], words: str):
    go(CASES["dsgt"], weights("dsgt"), N, checkpoint_dir=tmp_path)
    options = {"algorithm": dsgt.DSGT(), "network": weights("dsgt"), "seed": 3, "metrics": MEASURED} | change
    given = options.pop("algorithm"), problem(len(options["network"])), options.pop("network")
    with pytest.raises(checkpoint.DifferentError, match=words):
        dsgt.run(*given, rounds=ROUNDS, lr=0.01, checkpoint_dir=tmp_path, resume=True, **options)


def other_data(change: str) -> problems.Problem:
    """The problem of ``interrupted`` with the same shapes and something else in them."""
    samples, shards = data.synthetic.least_squares([7 + 2 * i for i in range(N)], 5, dtype=F64)
    x, y = samples.features.clone(), samples.targets.clone()
    order, sampling = shards.order, data.WithoutReplacement(eta=0.3)
    if change == "features":
        x[17, 3] += 1e-9
    elif change == "targets":
        y[[4, 9]] = y[[9, 4]]
    elif change == "shards":
        order = order.roll(1)
    elif change == "sampling":
        sampling = data.WithReplacement(eta=0.3)
    l2 = 0.1 if change == "l2" else 0.0
    return problems.LeastSquares(data.Samples(x, y), data.Shards(order, shards.sizes), sampling, l2=l2)


@pytest.mark.parametrize("change", ["none", "features", "targets", "shards", "sampling", "l2"])
def test_other_data_of_the_same_shapes_are_refused_by_name(tmp_path: Path, change: str):
    go(CASES["dsgt"], weights("dsgt"), N, checkpoint_dir=tmp_path)

    def again() -> None:
        dsgt.run(
            dsgt.DSGT(), other_data(change), weights("dsgt"), rounds=ROUNDS, lr=0.01, seed=3, metrics=MEASURED,
            checkpoint_dir=tmp_path, resume=True,
        )  # fmt: skip

    if change == "none":
        return again()
    with pytest.raises(checkpoint.DifferentError, match=f"was saved with {change} = .*, but here it is "):
        again()


def test_a_print_of_a_tensor_sees_every_number_and_every_order():
    rows = 3 * fingerprint.SAMPLE // 1000  # so many that not every number is in the sample
    t = torch.randn(rows, 1000, dtype=torch.float32, generator=torch.Generator().manual_seed(0))
    print_of = fingerprint.values(t)
    assert fingerprint.values(t.clone()) == print_of
    changed = [t.clone() for _ in range(3)]
    for place, other in enumerate(changed, start=565):
        other[1234, place] = torch.nextafter(other[1234, place], torch.tensor(9.0))
    for other in (*changed, t.roll(1, dims=0), t.roll(1, dims=1), t.double(), t.reshape(1000, rows)):
        assert fingerprint.values(other) != print_of
    for dtype in (torch.bool, torch.uint8, torch.float16, torch.bfloat16, torch.int64):
        assert fingerprint.values(torch.ones(3, 2, dtype=dtype)) != fingerprint.values(torch.zeros(3, 2, dtype=dtype))
    assert fingerprint.values(torch.tensor(1.0)) != fingerprint.values(torch.tensor(2.0))


def test_what_cannot_work_is_refused_before_any_work():
    with pytest.raises(ValueError, match="resume is True, but there is no checkpoint_dir"):
        go(CASES["dsgt"], weights("dsgt"), N, resume=True)
    with pytest.raises(ValueError, match="checkpoint_every is 5 and checkpoint_dir None; give a folder"):
        go(CASES["dsgt"], weights("dsgt"), N, checkpoint_every=5)
