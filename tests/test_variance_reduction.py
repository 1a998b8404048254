"""Each oracle against its published recursion, its special cases and what it promises at the optimum."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import dsgt
from dsgt import randomness
from dsgt.algorithms.named import in_python, label, method
from dsgt.cli import app
from dsgt.comparison import Job
from dsgt.core import Algorithm, Oracle
from dsgt.data import Shards
from dsgt.data.sampling import Full, WithReplacement
from dsgt.networks import Clocked, Dense, in_threads
from dsgt.oracles import AVRG, ORACLES, SAG, SAGA, SARAH, STORM, SVRG, Momentum, Stale
from dsgt.oracles.table import DELAYS, ORDERS, PARTS, RESTARTS
from dsgt.problems import LeastSquares
from dsgt.report.cards import card
from dsgt.topologies import metropolis, ring
from support import oracle_reference as published
from support.reference import REFERENCE

F64 = torch.float64
SIZES = [6, 7, 8, 13]
N, Q, SEED = 4, 6, 3
W = metropolis(ring(N))


@cache
def problem(sampling: Any = WithReplacement(batch=(2,) * N), l2: float = 0.1) -> LeastSquares:  # noqa: B008
    generator = torch.Generator().manual_seed(3)
    A = torch.randn(sum(SIZES), 5, dtype=F64, generator=generator)
    b = A @ torch.ones(5, dtype=F64) + torch.randn(sum(SIZES), dtype=F64, generator=generator)
    shards = Shards.of(torch.randperm(sum(SIZES), generator=generator).split(SIZES))
    return LeastSquares((A, b), shards, sampling, l2=l2)


def path(algorithm: Algorithm[Any], rounds: int, lr: float, p: LeastSquares | None = None) -> Tensor:
    p = p or problem()
    states = dsgt.iterate(algorithm, p.local(SEED), W, p.start(0), lr)
    return torch.stack([s.x.clone() for s in islice(states, rounds + 1)])


def sums() -> published.Sums:
    p = problem()
    held = [p.shards[i] for i in range(N)]
    return published.Sums([p.data.features[h].numpy() for h in held], [p.data.targets[h].numpy() for h in held], p.l2)


BATCHES = problem().batches(SEED)


@cache
def batch(k: int) -> list[np.ndarray]:
    """The samples drawn in round k, by their positions in the shards."""
    rows = BATCHES.rows(k).split([2] * N)
    return [np.array([problem().places[i].tolist().index(r) for r in rows[i].tolist()]) for i in range(N)]


def j(k: int) -> np.ndarray:
    return randomness.integers(Q, SEED, PARTS, torch.arange(N), k).numpy()


def order(t: int) -> np.ndarray:
    return randomness.bits(SEED, ORDERS, torch.arange(N)[:, None], t, torch.arange(Q)).numpy().argsort(axis=1)


def coin(k: int) -> bool:
    return k == 0 or float(randomness.uniform(SEED, RESTARTS, k)) < 1 / 7


def geometric(k: int) -> np.ndarray:
    u = randomness.uniform(SEED, DELAYS, torch.arange(N), k).numpy()
    return np.minimum(np.floor(np.log1p(-u) / np.log(0.75)), k).astype(int)


def uniform(k: int) -> np.ndarray:
    return np.minimum(randomness.integers(5, SEED, DELAYS, torch.arange(N), k).numpy(), k)


X0 = np.zeros((N, 5))
PUBLISHED: dict[str, tuple[str, Callable[[], published.Ask]]] = {
    f"dsa:q={Q}": ("extra", lambda: published.saga(sums(), X0, Q, j)),
    f"gt-saga:q={Q}": ("gnsd", lambda: published.saga(sums(), X0, Q, j)),
    f"dsgt+sag:q={Q}": ("dsgt", lambda: published.sag(sums(), X0, Q, j)),
    "gt-svrg:every=7": ("gnsd", lambda: published.svrg(sums(), lambda k: k % 7 == 0, batch)),
    "dsgt+svrg:every=7,loopless=true": ("dsgt", lambda: published.svrg(sums(), coin, batch)),
    "gt-sarah:every=7": ("gnsd", lambda: published.sarah(sums(), lambda k: k % 7 == 0, batch)),
    "gnsd+sarah:every=7,loopless=true": ("gnsd", lambda: published.sarah(sums(), coin, batch)),
    "gt-hsgd:beta=0.2": ("aug-dgm", lambda: published.storm(sums(), 0.2, batch)),
    "edm:beta=0.8": ("exact-diffusion", lambda: published.momentum(sums(), 0.8, batch)),
    "docom:compress=top-k:0.4,gamma=0.4,beta=0.2": ("beer", lambda: published.storm(sums(), 0.2, batch)),
    "motef:compress=top-k:0.4,gamma=0.4,lam=0.2": ("beer", lambda: published.momentum(sums(), 0.8, batch)),
    "sirb-ye": ("dpsgd", lambda: published.stale(sums(), geometric, batch)),
    "dpsgd+stale:mean=2.0,law=uniform": ("dpsgd", lambda: published.stale(sums(), uniform, batch)),
    "dsgt+exact": ("dsgt", lambda: lambda X, k: sums().full(X)),
    f"diffusion-avrg:q={Q}": ("exact-diffusion", lambda: published.avrg(sums(), Q, order)),
}
"""A method with its oracle, the method without it, and the oracle as published."""
each = pytest.mark.parametrize("name", PUBLISHED)


def test_every_oracle_and_every_method_that_asks_one_is_in_the_table():
    asked = {type(method(name).asks) for name in PUBLISHED}
    assert asked == set(ORACLES.values())
    kinds = {n: kind for n, kind in dsgt.algorithms.COMPOSITIONS.items() if kind.fitted is Algorithm.fitted}
    asking = {n for n, kind in kinds.items() if type(kind().asks) in ORACLES.values()}
    assert asking <= {name.partition(":")[0] for name in PUBLISHED}


@each
def test_it_is_the_published_recursion_on_uneven_shards(name: str):
    without, made = PUBLISHED[name]
    ask = cache_by_round(made())
    expected = REFERENCE[without](ask, lambda k: W, X0, lambda k: 0.02, 30)
    found = path(method(name), 30, 0.02)
    assert (found - torch.from_numpy(np.stack(expected[:31]))).abs().max() < 1e-12
    assert (found - path(method(without), 30, 0.02)).abs().max() > 1e-3  # the oracle was asked


def cache_by_round(ask: published.Ask) -> published.Ask:
    """A reference may ask for the gradients of a round again."""
    known: dict[int, np.ndarray] = {}

    def once(X: np.ndarray, k: int) -> np.ndarray:
        if k not in known:
            known[k] = ask(X, k)
        return known[k]

    return once


@each
def test_its_name_is_understood_and_said_again(name: str):
    assert method(label(method(name))) == method(name)


@each
def test_a_resumed_run_is_the_same_bit_for_bit(name: str, tmp_path):
    kwargs: dict[str, Any] = {"lr": 0.02, "every": 10, "seed": SEED}
    whole = dsgt.run(method(name), problem(), W, rounds=25, **kwargs)
    dsgt.run(method(name), problem(), W, rounds=13, checkpoint_dir=tmp_path, **kwargs)
    resumed = dsgt.run(method(name), problem(), W, rounds=25, checkpoint_dir=tmp_path, resume=True, **kwargs)
    assert torch.equal(whole.x, resumed.x)
    assert whole.column("epochs") == resumed.column("epochs")


def test_docom_and_motef_without_a_past_are_beer():
    beer = path(dsgt.BEER(), 15, 0.02)
    assert (path(dsgt.DoCoM(beta=1), 15, 0.02) - beer).abs().max() < 1e-15
    assert torch.equal(path(dsgt.MoTEF(lam=1), 15, 0.02), beer)


def test_real_nodes_compute_what_the_simulator_does():
    def act(network: Any) -> Tensor:
        found = []
        for name in PUBLISHED:
            f, x = problem()[network.node].local(SEED), problem().start(0)
            states = dsgt.iterate(method(name), f, network, x, 0.02)
            found.append(torch.stack([s.x.clone() for s in islice(states, 16)]))
        return torch.stack(found)

    expected = torch.stack([path(method(name), 15, 0.02) for name in PUBLISHED])
    assert (torch.stack(in_threads(W, act, timeout=60), dim=2) - expected).abs().max() < 1e-12


def test_real_nodes_resume_bit_for_bit_and_count_the_same_epochs(tmp_path):
    names = [f"dsa:q={Q}", "gt-svrg:every=7", f"diffusion-avrg:q={Q}", "gt-hsgd", "sirb-ye"]
    kwargs: dict[str, Any] = {"lr": 0.02, "every": 5, "seed": SEED}

    def act(network: Any) -> list[tuple[Tensor, list[float]]]:
        found = []
        for name in names:
            dsgt.run(method(name), problem(), network, rounds=8, checkpoint_dir=tmp_path / name, **kwargs)
            resumed = dsgt.run(
                method(name), problem(), network, rounds=15, checkpoint_dir=tmp_path / name, resume=True, **kwargs
            )
            whole = dsgt.run(method(name), problem(), network, rounds=15, **kwargs)
            assert torch.equal(resumed.x, whole.x)
            found.append((resumed.x, resumed.column("epochs")))
        return found

    for name, (x, epochs) in zip(names, in_threads(W, act, timeout=60)[0], strict=True):
        simulated = dsgt.run(method(name), problem(), W, rounds=15, **kwargs)
        assert (x - simulated.x).abs().max() < 1e-12
        assert epochs == pytest.approx(simulated.column("epochs"))


EXACT = {
    f"dsa:q={Q}": ("extra", 0.1),
    f"gt-saga:q={Q}": ("gnsd", 0.05),
    "gt-svrg:every=10": ("gnsd", 0.05),
    "gt-sarah:every=10": ("gnsd", 0.05),
    f"diffusion-avrg:q={Q}": ("exact-diffusion", 0.1),
    "dsgt+svrg:every=10,loopless=true": ("dsgt", 0.1),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_constant_step_reaches_the_optimum_where_the_method_without_it_stops_at_its_noise(name: str):
    without, lr = EXACT[name]

    def distances(word: str) -> list[float]:
        kwargs = {"rounds": 600, "every": 100, "lr": lr, "seed": SEED, "metrics": {"distance": dsgt.metrics.distance}}
        return dsgt.run(method(word), problem(l2=0.5), W, **kwargs).column("distance")

    reached, noisy = distances(name), distances(without)
    assert reached[-1] < 1e-10
    assert min(noisy) > 1e-3
    gained = [b / a for a, b in pairwise(reached) if b > 1e-12]
    assert len(gained) > 1
    assert max(gained) < 0.1  # in every hundred rounds, down to rounding: linear


def enumerated(oracle: Oracle[Any], memory: Any, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """The answers for every j."""
    found = []
    for part in range(Q):
        same = torch.full((N, 1), part), part + Q * torch.arange(N)
        monkeypatch.setattr("dsgt.oracles.saga.drawn", lambda *_, same=same: same)
        copy = type(memory)(*(t.clone() for t in memory))
        found.append(oracle.ask(copy, problem().local(SEED), x, 1, 0.1)[0])
    return torch.stack(found)


def test_the_mean_of_saga_over_its_draws_is_the_gradient_and_its_variance_vanishes_at_the_optimum(monkeypatch):
    p, oracle = problem(), SAGA(Q)
    f = p.local(SEED)
    old, x = (torch.randn(N, 5, dtype=F64, generator=torch.Generator().manual_seed(s)) for s in (1, 2))
    answers = enumerated(oracle, oracle.init(f, old), x, monkeypatch)
    assert (answers.mean(dim=0) - f.full(x)).abs().max() < 1e-13
    assert answers.var(dim=0).sum() > 1
    optimum = p.optimum.expand(N, -1).clone()
    settled = enumerated(oracle, oracle.init(f, optimum), optimum, monkeypatch)
    assert settled.var(dim=0).sum() < 1e-24


def test_the_mean_of_a_table_does_not_drift():
    """It is computed anew every q rounds."""
    f, x = problem().local(SEED), problem().start(0).expand(N, -1).clone()
    oracle = SAGA(Q)
    memory = oracle.init(f, x)
    for k in range(4 * Q):
        _, memory = oracle.ask(memory, f, x + k, k, 0.1)
        assert (memory.mean - memory.phi.mean(dim=-2)).abs().max() < 1e-10
        if (k + 1) % Q == 0:
            assert torch.equal(memory.mean, memory.phi.mean(dim=-2))


@pytest.mark.parametrize("oracle", [SVRG(50), SARAH(50)])
def test_the_mean_over_all_batches_is_the_gradient(oracle: Oracle[Any]):
    """One sample a node: every sample once is every batch there is. SARAH: one round after its restart."""
    single = problem(WithReplacement(batch=(1,) * N))
    z, x = (torch.randn(N, 5, dtype=F64, generator=torch.Generator().manual_seed(s)) for s in (1, 2))
    for i in range(N):
        f = single[i].local(0)
        answers = []
        for row in range(SIZES[i]):
            only = single[i].gradient_of(Only(single.places[i][row]))
            f._gradient = lambda at, k, only=only: only(at, k)
            _, memory = oracle.ask(oracle.init(f, z[i]), f, z[i], 0, 0.1)
            answers.append(oracle.ask(memory, f, x[i], 1, 0.1)[0])
        assert (torch.stack(answers).mean(dim=0) - f.full(x[i])).abs().max() < 1e-13
        assert torch.stack(answers).var(dim=0).sum() > 1e-2


class Only:
    """One sample, in every round."""

    fixed, constant, sizes = True, False, torch.tensor([1])

    def __init__(self, row: Tensor) -> None:
        self.row = row.reshape(1)

    def rows(self, k: int) -> Tensor:
        return self.row

    def ragged(self, k: int) -> tuple[Tensor, Tensor]:
        return self.row, self.sizes


@pytest.mark.parametrize("oracle", [SVRG(50), SVRG(50, loopless=True), SARAH(50)])
def test_its_variance_vanishes_at_the_optimum_where_that_of_gradients_does_not(oracle: Oracle[Any]):
    p = problem()
    x = p.optimum.expand(N, -1).clone()
    f = p.local(SEED)
    answer, memory = oracle.ask(oracle.init(f, x), f, x, 0, 0.1)
    assert torch.equal(answer, f.full(x))  # a restart is the exact gradient
    for k in range(1, 20):
        answer, memory = oracle.ask(memory, f, x, k, 0.1)
        assert (answer - f.full(x)).abs().max() < 1e-13
        assert (f.gradient(x, k) - f.full(x)).abs().max() > 1e-2


def test_restarts_are_exact_whatever_went_before():
    p = problem()
    for oracle in (SVRG(3), SARAH(3)):
        f, memory = p.local(SEED), oracle.init(p.local(SEED), p.start(0).expand(N, -1))
        for k in range(7):
            x = torch.randn(N, 5, dtype=F64, generator=torch.Generator().manual_seed(k))
            answer, memory = oracle.ask(memory, f, x, k, 0.1)
            assert torch.equal(answer, f.full(x)) == (k % 3 == 0)


def test_special_cases_are_the_method_without_the_oracle():
    exact = problem(Full())
    same = [
        (path(method("extra+saga:q=1"), 40, 0.02), path(method("extra"), 40, 0.02, exact)),
        (path(method("extra+sag:q=1"), 40, 0.02), path(method("extra"), 40, 0.02, exact)),
        (path(method("dsgt+storm:beta=1.0"), 40, 0.02), path(method("dsgt"), 40, 0.02)),
        (path(method("dpsgd+stale:mean=0"), 40, 0.02), path(method("dpsgd"), 40, 0.02)),
        (path(method("dpsgd+stale:mean=0,law=uniform"), 40, 0.02), path(method("dpsgd"), 40, 0.02)),
        (path(method("exact-diffusion+momentum:beta=0"), 40, 0.02), path(method("exact-diffusion"), 40, 0.02)),
        (path(method("gnsd+sarah:every=9"), 40, 0.02, exact), path(method("gnsd"), 40, 0.02, exact)),
        (path(method("gnsd+svrg:every=9"), 40, 0.02, exact), path(method("gnsd"), 40, 0.02, exact)),
        (path(method("dsgt+svrg:every=1"), 40, 0.02), path(method("dsgt"), 40, 0.02, exact)),
        (path(method("dsgt+storm:beta=0.3"), 40, 0.02, exact), path(method("dsgt"), 40, 0.02, exact)),
    ]
    for found, expected in same:
        assert (found - expected).abs().max() < 1e-13


def test_avrg_of_one_part_is_a_gradient_one_round_old_and_not_exact_diffusion():
    exact = problem(Full())
    f, x = exact.local(0), exact.start(0).expand(N, -1).clone()
    mix, algorithm = Dense(W), dsgt.ExactDiffusion()
    state, old, states = algorithm.init(x, mix.at(0)), f.full(x), []
    for k in range(20):
        new = f.full(state.x)
        state, old = algorithm.update(state, old, mix.at(k), 0.02), new
        states.append(state.x)
    found = path(method("diffusion-avrg:q=1"), 20, 0.02)
    assert (found[1:] - torch.stack(states)).abs().max() < 1e-13
    assert (found - path(method("exact-diffusion"), 20, 0.02, exact)).abs().max() > 1e-3


@pytest.mark.parametrize(("law", "mean"), [("geometric", 3.0), ("uniform", 2.0)])
def test_delays_have_the_mean_that_was_asked_for(law: str, mean: float):
    f = problem().local(0)
    f.rows = torch.arange(20_000)[:, None]
    found = Stale(mean, law).delays(f, 10_000).double()
    assert abs(float(found.mean()) - mean) < 4 * float(found.std()) / 20_000**0.5
    assert found.min() == 0
    assert Stale(mean, law).delays(f, 1).max() == 1  # nothing is older than the run


def test_a_memory_of_delays_is_as_long_as_asked_for():
    assert Stale(3.0, longest=5).kept == 5
    assert Stale(2.0, "uniform").kept == 4
    assert Stale(0.0).kept == 0
    assert 40 < Stale(3.0).kept < 60
    f = problem().local(0)
    f.rows = torch.arange(2000)[:, None]
    assert Stale(3.0, longest=5).delays(f, 100).max() == 5


def test_epochs_are_those_that_one_counts_by_hand():
    """Epochs after 21 rounds, by hand: a batch is 8 of 34 samples, a part 1/6 of them."""
    b, part = 8 / 34, 1 / Q
    expected = {
        f"extra+saga:q={Q}": 1 + 21 * part,
        f"extra+sag:q={Q}": 1 + 21 * part,
        "gnsd+svrg:every=7": 3 + 18 * 2 * b,
        "gnsd+sarah:every=7": 3 + 18 * 2 * b,
        "dsgt+storm": b + 20 * 2 * b,
        "dsgt+storm:full_start=true": 1 + 20 * 2 * b,
        "dsgt+momentum": 21 * b,
        "dsgt+stale": 21 * b,
        "dsgt+exact": 21,
        f"exact-diffusion+avrg:q={Q}": (6 + 15 * 2 - 3) * part,  # an epoch begins where x is z
    }
    for name, epochs in expected.items():
        found = dsgt.run(method(name), problem(), W, rounds=21, lr=0.02).column("epochs")[-1]
        assert found == pytest.approx(epochs), name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gnsd+svrg:every=3", ["full", 2, 2, "full", 2]),
        ("gnsd+sarah:every=3", ["full", 2, 2, "full", 2]),
        ("dsgt+storm", [1, 2, 2, 2, 2]),
        ("dsgt+storm:full_start=true", ["full", 2, 2, 2, 2]),
        ("dsgt+stale", [1] * 5),
        (f"extra+saga:q={Q}", ["full and part", "part", "part", "part", "part"]),
        ("exact-diffusion+avrg:q=2", ["part", "part", "part", "two parts", "part"]),
    ],
)
def test_the_virtual_clock_charges_every_node_for_what_it_looks_at(name: str, expected: list[Any]):
    """Messages take no time here and node i a second a sample, so the clock shows what the slowest has computed."""
    network = Clocked(metropolis(ring(N)), compute=[2.0] * N)
    batch = 2.0
    parts = 2 if "q=2" in name else Q
    biggest = max(SIZES)
    cost = {"full": biggest, "part": biggest / parts, "two parts": 2 * biggest / parts, 1: batch, 2: 2 * batch}
    cost["full and part"] = cost["full"] + cost["part"]
    seconds = dsgt.run(
        method(name), problem(), network, rounds=5, every=1, lr=0.02, metrics={"s": dsgt.metrics.virtual_seconds}
    ).column("s")
    assert [b - a for a, b in pairwise(seconds)] == pytest.approx([cost[word] for word in expected])


def test_a_budget_of_epochs_and_of_seconds_counts_what_an_oracle_asks():
    name, small = "gt-svrg:every=9", {"nodes": 4, "graph": "ring", "batch": 40, "seeds": 1}
    for budget, column in (("3epochs", "epochs"), ("9000 gradients", "epochs"), ("0.3s", "virtual_seconds")):
        settings = dsgt.Settings(methods=(name,), budget=budget, **small)
        problem = settings.problem(0)
        most = {"3epochs": 3, "9000 gradients": 9000 / problem.samples, "0.3s": 0.3}[budget]
        assert 0.8 * most < Job(settings, name, 0.01, 0)()[-1][column] <= most
        assert settings.rounds(problem, name) < settings.rounds(problem, "gnsd")


def test_seeds_draw_different_parts_orders_and_delays():
    for name in (f"extra+saga:q={Q}", f"exact-diffusion+avrg:q={Q}", "dpsgd+stale"):
        one, other = (dsgt.run(method(name), problem(), W, rounds=9, lr=0.02, seed=s).x for s in (1, 2))
        assert (one - other).abs().max() > 1e-4


def once(algorithm: Algorithm[Any], **kwargs: Any) -> dsgt.Result[Any]:
    return dsgt.run(algorithm, problem(), W, rounds=1, lr=0.1, **kwargs)


@pytest.mark.parametrize(
    "oracle", [SVRG(), SAG(3), SAGA(4), AVRG(5), SARAH(), STORM(), Momentum(), Stale(), Stale(2.0, "uniform")]
)
def test_a_node_keeps_as_many_vectors_as_it_says(oracle: Oracle[Any]):
    f, x = problem().local(0), problem().start(0).expand(N, -1).clone()
    held = sum(t.numel() for t in oracle.init(f, x) if t.is_floating_point())
    assert held == oracle.keeps * x.numel()
    f.bill()
    with pytest.raises(ValueError, match="raise it"):
        (SAGA(4, limit=1e-9) if isinstance(oracle, SAGA) else Stale(limit=1e-9)).check(f, x)
    assert f.bill() == 0  # before anything is computed


def test_what_an_oracle_cannot_be_asked_is_refused_before_any_run_of_a_comparison(tmp_path):
    small = {"nodes": 4, "graph": "ring", "seeds": 1, "epochs": 1.0, "lrs": (0.1,)}
    for name, message in (
        ("extra+saga:q=5000", "extra.saga:q=5000: q is 5000, but node . holds"),
        ("extra+saga:limit=1e-6", "takes 0.000104 GB, and the limit is 1e-06 GB"),
        ("sirb-ye:mean=1e6", "a table of the last .* models of 650 numbers for 4 node.s. here takes 144 GB"),
    ):
        with pytest.raises(ValueError, match=message):
            dsgt.compare(methods=["dsgt", name], folder=tmp_path, workers=1, **small)
        assert not list(tmp_path.iterdir())
    normed = torch.nn.Sequential(torch.nn.Linear(64, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 10))
    with pytest.raises(ValueError, match=r"gt-svrg: this module draws or remembers"):
        dsgt.compare(methods=["dsgt", "gt-svrg"], model=normed, workers=1, **small)


BAD = [
    (lambda: once(dsgt.EXTRA(), oracle=SAGA(7)), "q is 7, but node 0 holds 6 samples"),
    (lambda: once(dsgt.DSA(q=6, limit=1e-7)), r"takes 9.6e-07 GB.*raise it \(limit=1"),
    (lambda: once(dsgt.SirbYe(mean=50.0, limit=1e-6)), "a table of the last 699 models of 5 numbers for 4 node"),
    (lambda: once(dsgt.DSA(), oracle=SAGA(2)), r"DSA already asks SAGA\(q=10"),
    (lambda: STORM(0), "beta of STORM is 0; expected above 0"),
    (lambda: Momentum(1.0), "expected at least 0 and below 1"),
    (lambda: Stale(law="normal"), "law of Stale is 'normal'; expected geometric or uniform"),
    (lambda: method("extra+sago"), "saga"),
    (lambda: method("saga:q=3"), r"saga is an oracle.*write for example dsgt\+saga:q=3"),
    (lambda: method("extra+saga:parts=3"), "parameter of saga"),
    (lambda: method("dsa+saga"), "already asks"),
    (lambda: method("extra+svrg:every=0"), "every of SVRG is 0; expected at least 1"),
    (lambda: AVRG(0), "q of AVRG"),
    (lambda: SAG(-1), "q of SAG is -1"),
]


@pytest.mark.parametrize(("act", "message"), BAD)
def test_bad_input_is_refused_with_what_to_do(act: Callable[[], object], message: str):
    with pytest.raises(ValueError, match=message):
        act()


def test_a_plain_function_has_no_full_gradient():
    states = dsgt.iterate(dsgt.DSGT(), lambda x, k: x, W, torch.zeros(5, dtype=F64), 0.1, oracle=SVRG())
    with pytest.raises(TypeError, match="does not compute the gradient of all of a node's samples"):
        next(islice(states, 1, None))


def test_the_command_line_tells_of_oracles_and_of_methods_that_ask_them():
    def shown(*words: str) -> str:
        done = CliRunner().invoke(app, ["methods", *words], env={"COLUMNS": "200"})
        assert done.exit_code == 0
        return done.output

    assert all(f"│ {name} " in shown() for name in ORACLES)
    both = shown("extra+saga:q=20")
    assert "dsgt.EXTRA().asking(dsgt.SAGA(q=20, limit=2.0))" in both
    assert "EXTRA, with W~ = (I + W)/2." in both
    assert "SAGA: a table" in both
    assert "A node keeps 21 m-vectors for its gradients." in both
    assert "MISSING" not in both
    assert "A node keeps 11 m-vectors" in shown("dsa")
    one = shown("stale:longest=7")
    assert "METHOD+stale:longest=7, in Python dsgt.Stale(" in one
    assert "A node keeps 8 m-vectors for it." in one
    assert eval(in_python(method("dsgt+svrg:every=7"))) == method("dsgt+svrg:every=7")


def test_a_report_shows_the_equations_of_the_method_and_of_its_oracle():
    made = card("title", method("extra+saga"))
    assert "X'' = (I + W) X'" in made.equation
    assert "phi_j <- g_j(x)" in made.equation
    assert made.guarantee
    assert [name for name, _, _ in made.parameters] == ["oracle"]
    assert all(meaning for _, _, meaning in made.parameters)
