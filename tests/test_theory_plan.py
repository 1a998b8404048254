"""dsgt plan: what a user reads before a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib.image
import pytest
import torch
import typer
from typer.testing import CliRunner

import dsgt
from dsgt import data, topologies
from dsgt.cli import app
from dsgt.commands import compare, plan_text
from dsgt.commands import plan as plan_command
from dsgt.problems import LeastSquares, Logistic
from dsgt.theory.plan import Plan, plan
from dsgt.theory.plan_picture import draw_plan
from dsgt.theory.traffic import rounds_of_all


def asked(tmp_path: Path, *options: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["plan", "--picture", str(tmp_path / "plan.png"), *options])
    return found.exit_code, " ".join(found.output.split())


@pytest.mark.slow
def test_the_command_answers_every_question_and_draws_a_picture(tmp_path: Path):
    code, text = asked(tmp_path, "--nodes", "6", "--graph", "ring", "--rounds", "300")
    assert code == 0, text
    for words in ("rho = 0.6667", "lr = ", "risk: ", "When the network stops mattering", "if messages were free"):
        assert words in text
    for name in dsgt.ALGORITHMS:
        assert name in text
    assert "closed form" in text  # numbers carry their assumptions
    assert matplotlib.image.imread(tmp_path / "plan.png").shape[2] == 4


def test_the_flags_are_those_of_compare_and_the_old_ones_work(tmp_path: Path):
    known = {flag for p in typer.main.get_command(compare.app).params for flag in p.opts}
    ours = {flag for p in typer.main.get_command(plan_command.app).params for flag in p.opts}
    assert ours - known == {"--rounds", "--l2", "--seed", "--picture", "--root", "--skew", "--parameters"}
    same = ["--nodes", "4", "--rounds", "100", "--compute", "1e-4", "--bandwidth", "1.25e6"]
    new, old = (asked(tmp_path, *same, *more) for more in (["--partition", "dirichlet:0.5"], ["--skew", "0.5"]))
    assert new == old
    assert new[0] == 0
    assert "differ in size" in new[1]
    assert "bytes/1.25e+06" in new[1]
    assert "a gradient 0.0001 s a sample" in new[1]


def test_of_a_model_whose_size_is_known_a_plan_tells_what_every_method_sends(tmp_path: Path):
    code, text = asked(tmp_path, "--parameters", "1e6", "--nodes", "6", "--bandwidth", "12.5e6", "--latency", "0.01")
    assert code == 0, text
    assert "6 nodes, at most 2 neighbours each, 1,000,000 parameters" in text
    assert not (tmp_path / "plan.png").exists()
    W = topologies.metropolis(topologies.ring(6))
    link = {"latency": 0.01, "bandwidth": 12.5e6}
    found = {(r.compressor, name): r for r in rounds_of_all(W, 10**6, **link) for name in r.methods}
    assert {name for _, name in found} == {
        name for name in dsgt.ALGORITHMS | dsgt.algorithms.COMPOSITIONS if name not in ("d2", "led", "rps", "relay-sgd")
    }
    tracking, beer = found["", "dsgt"], found["top-k:0.01", "beer"]
    assert (tracking.megabytes, beer.megabytes) == (8.0, 0.16)
    assert tracking.seconds == pytest.approx(2 * 2 * 4e6 / 12.5e6 + 2 * 0.01)
    assert beer.seconds == pytest.approx(2 * 2 * 8e4 / 12.5e6 + 2 * 0.01)
    assert ("top-k:0.01", "lead") not in found  # which needs an unbiased one
    busy = {(r.compressor, name): r for r in rounds_of_all(W, 10**6, **link, compute=1.0) for name in r.methods}
    assert busy["top-k:0.01", "beer"].seconds == 1.0  # all of it travels behind the gradient
    assert busy["", "dsgt"].seconds == pytest.approx(1 + tracking.seconds / 2)  # half of it


def test_epochs_are_rounds_by_the_batch(tmp_path: Path):
    """1,438 digits and 256 of them a round: 100 epochs are 562 rounds."""
    code, text = asked(tmp_path, "--nodes", "4", "--epochs", "100")
    assert code == 0
    assert "progress over 562 rounds" in text


@pytest.mark.parametrize(
    ("rounds", "said"), [(0.0, "0"), (7.0, "7"), (889.3, "890"), (12345.0, "12,000"), (1.6e9, "1.6e+09")]
)
def test_rounds_are_said_as_people_say_them(rounds: float, said: str):
    assert plan_text.count(rounds) == said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--rounds", "3", "--epochs", "1"], "not both"),
        (["--epochs", "0"], "--epochs"),
        (["--compute", "-1"], "--compute"),
        (["--partition", "dirichle:1"], "dirichlet"),
        (["--graph", "rng"], "ring"),
        (["--data", "digit"], "digits"),
        (["--model", "logistics"], "logistic"),
        (["--weights", "metropoli"], "metropolis"),
        (["--nodes", "6", "--weights", "push", "--graph", "star"], "needs the rows of W to sum to 1"),
        (["--nodes", "0"], "node"),
        (["--rounds", "0"], "rounds"),
        (["--nodes", "6", "--graph", "ring", "--weights", "local-degree"], "rho"),
        (["--batch", "2", "--nodes", "6"], "batch"),
        (["--parameters", "0.5"], "0.5 is no number of parameters, such as 25e6"),
    ],
)
def test_bad_options_are_refused_in_words(tmp_path: Path, options: list[str], says: str):
    code, text = asked(tmp_path, *options)
    assert code != 0
    assert says in text
    assert "Traceback" not in text


def digits_plan(W, sampling, alpha: float | None = None) -> Plan:
    train, _ = data.digits(dtype=torch.float64)
    n = len(W)
    shards = (
        data.partition.equal(train, n) if alpha is None else data.partition.dirichlet(train.targets, n, alpha=alpha)
    )
    return plan(Logistic(train, shards, sampling, l2=1e-2), W, 500)


@pytest.mark.slow
def test_a_method_without_a_polynomial_is_measured_and_the_plan_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Unknown(dsgt.DSGT):
        def update(self, s, g, mix, lr):  # another text of the same method: its limit is DSGT's
            return super().update(s, g, mix, lr)

    monkeypatch.setitem(dsgt.ALGORITHMS, "unknown", Unknown)
    code, text = asked(tmp_path, "--nodes", "5", "--graph", "ring", "--rounds", "300")
    assert code == 0, text
    assert "(measured)" in text
    fits = {f.method: f for f in digits_plan(topologies.metropolis(topologies.ring(5)), data.Full()).methods()}
    assert "measured on 5 equal quadratics" in fits["unknown"].how
    assert "exact" in fits["dsgt"].how
    assert fits["unknown"].lr == pytest.approx(fits["dsgt"].lr, rel=0.05)  # slow growth hides


def test_a_method_that_fails_or_is_never_stable_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch):
    class Broken(dsgt.DSGT):
        def update(self, s, g, mix, lr):
            raise RuntimeError("no luck")

    class Growing(dsgt.DSGT):
        def update(self, s, g, mix, lr):
            return super().update(s._replace(x=1.1 * s.x), g + 2, mix, -lr)

    monkeypatch.setitem(dsgt.ALGORITHMS, "broken", Broken)
    monkeypatch.setitem(dsgt.ALGORITHMS, "growing", Growing)
    fits = {f.method: f for f in digits_plan(topologies.metropolis(topologies.ring(5)), data.Full()).methods()}
    assert fits["broken"].verdict == "no: it fails on quadratics: no luck"
    assert fits["growing"].verdict == "no: stable for no learning rate (measured on 5 equal quadratics)"
    assert fits["dsgt"].verdict == "good"


def test_averaging_weights_cost_nothing_and_exact_gradients_neither(tmp_path: Path):
    free = digits_plan(topologies.averaging(4), data.WithReplacement(0.2))
    assert free.extra_noise == pytest.approx(0, abs=1e-20)
    assert free.bound(100).network == 0
    exact = digits_plan(topologies.metropolis(topologies.ring(4)), data.Full())
    assert exact.independent_from == exact.independent_worst == 0
    draw_plan(exact, tmp_path / "exact.png")
    draw_plan(free, tmp_path / "free.svg")


def test_a_plan_that_starts_at_the_minimiser_can_be_drawn(tmp_path: Path):
    samples, shards = data.synthetic.least_squares([5, 5, 5], 2, dtype=torch.float64)
    zero = LeastSquares(replace(samples, targets=torch.zeros_like(samples.targets)), shards, data.Full())
    made = plan(zero, topologies.metropolis(topologies.ring(3)), 100)
    assert made.bound(100).total == 0
    draw_plan(made, tmp_path / "zero.png")


@pytest.mark.slow
def test_methods_that_skew_would_bias_are_said_to_be_biased_and_run_so():
    """Skewed labels: D-PSGD ends away from the optimum by about what the plan says, DSGT does not."""
    W = topologies.metropolis(topologies.ring(6))
    made = digits_plan(W, data.Full(), alpha=0.2)
    fits = {fit.method: fit for fit in made.methods()}
    assert fits["dpsgd"].verdict.startswith("biased")
    assert fits["dsgt"].verdict == "good"
    assert fits["sgd"].verdict.startswith("no")
    lr = min(fits["dpsgd"].lr, made.advice.lr)
    apart = {}
    for name in ("dpsgd", "dsgt"):
        x = dsgt.run(dsgt.ALGORITHMS[name](), made.problem, W, rounds=400, lr=lr, every=400).x
        apart[name] = float((x - x.mean(dim=0)).norm()) / 6**0.5
    said = lr * made.estimate.zeta2**0.5 / (1 - made.estimate.rho)
    assert 0.1 * said < apart["dpsgd"] < 2 * said  # an order of magnitude, from above
    assert apart["dsgt"] < 0.1 * apart["dpsgd"]


@pytest.mark.slow
def test_the_advised_rate_is_near_the_best_on_the_digits():
    W = topologies.metropolis(topologies.ring(6))
    made = digits_plan(W, data.WithReplacement(0.1))

    def loss(lr: float) -> float:
        x = dsgt.run(dsgt.DSGT(), made.problem, W, rounds=500, lr=lr, every=500).x
        return float(made.problem.loss(x).mean() - made.problem.loss(made.problem.optimum))

    best = min(loss(f * made.advice.lr) for f in (0.03, 0.1, 0.3, 1.0, 3.0))
    assert loss(made.advice.lr) <= 3 * best
