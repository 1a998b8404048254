"""Budgets: what a person may write, how many rounds they are, and that a run uses what it may and no more."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path

import networkx as nx
import pytest
from typer.testing import CliRunner

import dsgt
from dsgt.algorithms import ALGORITHMS, COMPOSITIONS
from dsgt.algorithms.named import method
from dsgt.cli import app
from dsgt.comparison import Job
from dsgt.comparison.budget import Budget
from dsgt.topologies import averaging, write_network

SMALL = {"nodes": 6, "graph": "ring", "batch": 60, "seeds": 1, "lrs": (0.01,), "evaluations": 1}


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("20epochs", 20, "epochs"),
        ("1 epoch", 1, "epochs"),
        ("500 rounds", 500, "rounds"),
        ("1e6gradients", 1e6, "gradients"),
        ("200MB", 200, "MB"),
        ("200mb", 200, "MB"),
        (" 1.5 GB ", 1500, "MB"),
        ("20kB", 0.02, "MB"),
        ("90s", 90, "s"),
        ("2h", 7200, "s"),
        ("3min", 180, "s"),
        ("250ms", 0.25, "s"),
    ],
)
def test_a_budget_is_a_number_and_a_unit(text: str, amount: float, unit: str):
    assert Budget.of(text) == Budget(pytest.approx(amount), unit)
    assert Budget.of(str(Budget.of(text))) == Budget.of(text)


def test_a_budget_is_said_as_people_say_it():
    said = [str(Budget.of(text)) for text in ("1epochs", "2epochs", "1rounds", "1MB", "1s", "0.5epochs")]
    assert said == ["1 epoch", "2 epochs", "1 round", "1 MB", "1 s", "0.5 epochs"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("200", "give a number above 0 and a unit"),
        ("MB", "give a number above 0"),
        ("0MB", "above 0"),
        ("-3s", "above 0"),
        ("1e999MB", "above 0"),
        ("1.2.3MB", "above 0"),
        ("20 epoks", "no unit of a budget called 'epoks'; did you mean 'epochs'?"),
    ],
)
def test_what_is_no_budget_is_refused_and_told_how_to_write_it(text: str, said: str):
    with pytest.raises(ValueError, match="budget") as refused:
        dsgt.Settings.of({"budget": text})
    assert said in str(refused.value)


def test_a_budget_stands_for_epochs_and_not_beside_them(tmp_path):
    with pytest.raises(ValueError, match="epochs is 3 and budget 5 MB; give one of them"):
        dsgt.Settings.of({"epochs": 3, "budget": "5MB"})
    file = tmp_path / "settings.toml"
    file.write_text(dsgt.Settings(budget="5MB").toml())
    assert dsgt.Settings.of(dsgt.comparison.read_settings(file)) == dsgt.Settings(budget="5MB")
    assert "--budget '5 MB'" in dsgt.Settings(budget="5MB").command()


def test_a_flag_takes_the_place_of_what_a_file_says(tmp_path):
    from dsgt.commands.options import settled

    file = tmp_path / "settings.toml"
    file.write_text("epochs = 3\nseeds = 2\n")
    assert settled(file, {"budget": "5MB"}) == {"seeds": 2, "budget": "5MB"}
    file.write_text('budget = "5MB"\n')
    assert settled(file, {"epochs": 3.0}) == {"epochs": 3.0}
    assert settled(file, {}) == {"budget": "5MB"}


@pytest.mark.parametrize(
    ("budget", "rounds"), [("2 epochs", 48), ("48rounds", 48), ("2879gradients", 47), ("2880gradients", 48)]
)
def test_epochs_rounds_and_gradients_are_the_same_rounds_for_every_method(budget: str, rounds: int):
    """Of 60 of 1438 samples each: all that fit in, and not one more; of epochs the nearest number."""
    settings = dsgt.Settings(budget=budget, **SMALL)
    assert [settings.rounds(settings.problem(0), m) for m in ("sgd", "dsgt")] == [rounds] * 2


def test_an_epoch_is_at_least_a_round():
    settings = dsgt.Settings(budget="0.001epochs", **SMALL)
    for name in ("dsgt", "gt-saga"):
        settings.check_budget(settings.problem(0), name, 0)
        assert settings.rounds(settings.problem(0), name) == 1


@pytest.mark.parametrize("epochs", [0.3, 0.7, 1, 3])
def test_a_tenth_of_an_epoch_fits_into_an_epoch_ten_times(epochs: float):
    problem = copy.copy(dsgt.Settings(**SMALL).problem(0))
    problem.epochs_per_round = 0.1
    assert Budget(epochs, "epochs").rounds(dsgt.DSGT(), problem, lambda: None) == round(10 * epochs)
    tenths = Budget(epochs * problem.samples, "gradients")
    assert tenths.rounds(dsgt.DSGT(), problem, lambda: None) == round(10 * epochs)


@pytest.mark.parametrize(("text", "round_of"), [("59gradients", "60"), ("0.9rounds", "1")])
def test_less_than_a_round_is_refused_in_every_unit(text: str, round_of: str):
    settings = dsgt.Settings(budget=text, **SMALL)
    with pytest.raises(ValueError, match=f"but one round of DSGT takes {round_of}: give more"):
        settings.check_budget(settings.problem(0), "dsgt", 0)


@pytest.mark.parametrize("graph", ["complete", "directed-complete", "file"])
def test_where_everybody_hears_everybody_a_vector_costs_all_methods_the_same(graph: str, tmp_path: Path):
    """Flows cannot travel in an all-reduce, so whoever is compared with them does not use one either."""
    if graph == "directed-complete":
        names = ["sgp", "gradient-push", "push-pull", "push-diging"]
        write_network(tmp_path / "all.graphml", nx.complete_graph(5, create_using=nx.DiGraph))
        given = {"graph": str(tmp_path / "all.graphml")}
    else:
        names = ["dpsgd", "atc-dpsgd", "d2", "exact-diffusion", "extra", "dsgt", "gnsd", "momentum-tracking"]
        given = {"graph": "complete"}
    if graph == "file":
        write_network(tmp_path / "all.json", nx.complete_graph(5), averaging(5))
        given = {"graph": str(tmp_path / "all.json")}
    settings = dsgt.Settings(methods=tuple(names), **SMALL | {"nodes": 5, "budget": "1MB"} | given)
    problem = settings.problem(0)
    for name in names:
        vector = settings.algorithm(name).sends * 5 * 4 * problem.dim * 4 / 1e6
        assert settings.rounds(problem, name) == pytest.approx(1 / vector, abs=2), name  # some send before the first
    alone = dsgt.Settings(methods=("sgd",), **SMALL | {"nodes": 5, "budget": "1MB"} | given)
    assert alone.rounds(problem, "sgd") == pytest.approx(1e6 / (2 * 4 * problem.dim * 4), abs=2)


@pytest.mark.parametrize("name", ["dsgt", "gt-svrg", "gt-saga", "gt-hsgd", "gt-sarah"])
def test_no_method_spends_more_gradients_than_another(name: str):
    settings = dsgt.Settings(methods=(name,), budget="4000gradients", **SMALL)
    problem = settings.problem(0)
    last = Job(settings, name, 0.01, 0)()[-1]
    spent = last["epochs"] * problem.samples
    longer = dsgt.Settings(methods=(name,), budget=f"{last['round'] + 1}rounds", **SMALL)
    assert spent <= 4000 * (1 + 1e-9) < Job(longer, name, 0.01, 0)()[-1]["epochs"] * problem.samples


def test_a_seed_whose_first_round_is_too_slow_is_refused_before_any_run(monkeypatch):
    """Every seed has its own stragglers."""
    monkeypatch.setattr(Job, "__call__", lambda *_: pytest.fail("ran"))
    given = SMALL | {"seeds": 20, "stragglers": "exponential", "latency": 0.0, "compute": 1e-4}
    settings = dsgt.Settings(methods=("dsgt",), **given)
    slow = [settings.network("dsgt", settings.problem(0), seed) for seed in range(20)]
    firsts = [next(Budget(1e9, "s")._used(dsgt.DSGT(), settings.problem(0), lambda n=n: n)) for n in slow]
    between = (sorted(firsts)[-1] + firsts[0]) / 2
    assert firsts[0] < between < max(firsts), "the first seed is not the slowest"
    with pytest.raises(ValueError, match="but one round of DSGT takes"):
        dsgt.compare(methods=["dsgt"], budget=f"{between}s", workers=1, **given)


@pytest.mark.parametrize("unit", ["MB", "s"])
@pytest.mark.parametrize("name", [*ALGORITHMS, *COMPOSITIONS])
def test_a_run_uses_all_of_its_budget_that_whole_rounds_can_use(name: str, unit: str):
    """Against runs: what it used after its last round is within the budget, and one round more would not be."""
    if unit == "s" and {"resolvent", "conjugate", "inverse"} & set(method(name).asks.wants):
        pytest.skip("what a solver needs is known when it has solved: a budget counts an equation as one gradient")
    graph = {"relay-sgd": "path", "rps": "complete"}.get(name, "ring")
    key, text = {"MB": ("megabytes", "0.9MB"), "s": ("virtual_seconds", "0.06s")}[unit]
    small = SMALL | {"graph": graph, "weight_decay": 0.01}  # without which a dual method has no problem
    settings = dsgt.Settings(methods=(name,), budget=text, **small)
    last = Job(settings, name, 0.01, 0)()[-1]
    longer = dsgt.Settings(methods=(name,), budget=f"{last['round'] + 1}rounds", **small)
    assert 0 < last[key] <= Budget.of(text).amount * (1 + 1e-9) < Job(longer, name, 0.01, 0)()[-1][key]


def test_a_method_that_sends_half_runs_twice_as_long():
    settings = dsgt.Settings(budget="1MB", **SMALL)
    long, short = (settings.rounds(settings.problem(0), m) for m in ("atc-dpsgd", "dsgt"))
    assert (long, short) == (32, 16)  # 12 messages of 650 float32 a mixing are 31,200 bytes


def test_a_budget_below_a_round_and_one_that_is_never_used_are_refused_before_any_run(monkeypatch):
    monkeypatch.setattr(Job, "__call__", lambda *_: pytest.fail("ran"))
    with pytest.raises(ValueError, match=r"the budget is 0\.01 MB, but one round of DSGT takes 0.0624"):
        dsgt.compare(methods=["dsgt"], budget="10kB", workers=1, **SMALL)
    with pytest.raises(ValueError, match="1 MB, but DSGT uses none of it"):
        dsgt.compare(methods=["dsgt"], budget="1MB", workers=1, **SMALL | {"nodes": 1, "graph": "complete"})


def test_the_command_takes_a_budget_and_draws_against_it(tmp_path):
    words = ["compare", "dsgt", "sgd", "--budget", "0.5MB", "--nodes", "4", "--graph", "ring", "--seeds", "1"]
    done = CliRunner().invoke(app, [*words, "--lr", "0.1", "--workers", "1", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "0.5 MB" in done.output
    page = (tmp_path / "report.html").read_text()
    assert 'value="megabytes" checked' in page
    assert "<li>0.5 MB</li>" in page
    assert "<dt>epochs</dt>" not in page


def test_what_is_used_is_counted_round_by_round():
    settings = dsgt.Settings(budget="1s", **SMALL)
    problem = settings.problem(0)
    used = Budget.of("1s")._used(settings.algorithm("dsgt"), problem, lambda: settings.network("dsgt", problem))
    first = list(itertools.islice(used, 5))
    assert first == sorted(first)
    assert first[0] > 0
