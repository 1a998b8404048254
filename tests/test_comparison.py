"""dsgt compare, small."""

from __future__ import annotations

import io
import json
import math
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import dsgt
from dsgt.cli import app
from dsgt.commands.tables import results_table
from dsgt.problems import named
from dsgt.report import page
from dsgt.topologies import fdla, lift, ring, write_network
from dsgt.topologies.matrix import to_dense
from support.invented_comparison import comparison
from support.launch import HANGING, environment

SMALL = {"nodes": 4, "graph": "ring", "epochs": 1.0, "lrs": (0.05, 0.1), "grow": 0, "tuning_seeds": 1, "seeds": 2}


def test_every_method_gets_the_same_runs_and_its_own_best_learning_rate():
    told, seen = [], []
    found = dsgt.compare(
        dsgt.Settings(methods=("dsgt", "sgd"), **SMALL),
        workers=1,
        watch=seen.append,
        finished=lambda *done: told.append(done[:2]),
    )
    assert told == [(k, 8) for k in range(1, 9)]
    assert len({news.job for news in seen if news.round == news.rounds}) == 8
    for method in ("dsgt", "sgd"):
        losses = {lr: runs[10_000][-1]["loss"] for lr, runs in found.of(method).grid.items()}
        assert found.best_lr(method) == min(losses, key=losses.get)
    assert list(found.table().index) == ["dsgt", "sgd"]


@pytest.mark.slow
def test_the_same_numbers_come_out_of_one_worker_and_of_two():
    settings = dsgt.Settings(methods=("dsgt",), **SMALL)
    seen = []
    two = dsgt.compare(settings, workers=2, watch=seen.append)
    assert dsgt.compare(settings, workers=1).rows == two.rows
    assert {news.job.seed for news in seen} == {0, 1, 10_000}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["script", "notebook"])
def test_the_documented_block_works_pasted_into_a_script_or_a_notebook(how: str, tmp_path: Path):
    """Without a guard: a worker does not run the script again. A notebook's cells are in no file at all."""
    page = (Path(__file__).parents[1] / "docs" / "comparing.md").read_text().split("## From Python")[1]
    block = page.split("```python\n")[1].split("```")[0].replace("epochs=5", "epochs=0.2, grow=1")
    (tmp_path / "mine.py").write_text(block)
    cell = f"exec(compile({block!r}, '<cell 1>', 'exec'), {{'__name__': '__main__'}})"
    words = ["mine.py"] if how == "script" else ["-c", cell]
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=HANGING
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "mine" / "report.html").is_file()


def test_a_comparison_in_this_process_leaves_torch_its_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        dsgt.compare(dsgt.Settings(methods=("sgd",), **SMALL | {"seeds": 1, "lrs": (0.1,)}), workers=1)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_the_problem_of_a_seed_is_built_once(monkeypatch):
    """For the check, for all runs of the seed and for the page; in every process."""
    built = []
    problem = named.Logistic
    monkeypatch.setattr(named, "Logistic", lambda *given, **options: built.append(1) or problem(*given, **options))
    named.named_problem.cache_clear()
    page(dsgt.compare(dsgt.Settings(methods=("dsgt", "sgd"), **SMALL | {"seeds": 1, "lrs": (0.1,)}), workers=1))
    assert len(built) == 1


def test_a_run_that_diverges_is_kept_as_diverged_and_never_chosen():
    settings = dsgt.Settings(methods=("dsgt",), **SMALL | {"lrs": (0.1, 1e38), "seeds": 1, "epochs": 4.0})
    found = dsgt.compare(settings, workers=1)
    assert found.final("dsgt", 1e38, "loss") == [math.inf]
    assert found.best_lr("dsgt") == 0.1
    assert found.table().diverged["dsgt"] == 1
    assert not found.diverged("dsgt")


def test_a_method_that_diverges_everywhere_leaves_the_others_their_table_and_figure(tmp_path):
    rows = [{"method": m, "lr": 0.1, "seed": 0, "round": 0, "epochs": 0.0, "loss": 2.0} for m in ("dsgt", "d2")]
    rows += [{"method": "dsgt", "lr": 0.1, "seed": 0, "round": 9, "epochs": 1.0, "loss": 1.0}]
    rows += [{"method": "d2", "lr": 0.1, "seed": 0, "round": 5, "loss": math.inf, "diverged": True}]
    found = dsgt.Comparison(dsgt.Settings(methods=("dsgt", "d2"), nodes=4, graph="ring", lrs=(0.1,), seeds=1), rows)
    assert found.diverged("d2")
    assert found.target == 1.0
    assert found.to_target("dsgt", "round") == 9
    assert math.isnan(found.to_target("d2", "round"))
    found.save(tmp_path)
    last = (tmp_path / "rows.jsonl").read_text().splitlines()[-1]
    assert json.loads(last, parse_constant=pytest.fail)["loss"] is None


def test_the_cost_of_a_target_is_where_each_seed_first_reaches_it_between_two_measurements():
    def rows(seed: int, losses: list[float]) -> list[dict]:
        label = {"method": "dsgt", "lr": 0.1, "seed": seed}
        return [label | {"round": 10 * k, "loss": loss} for k, loss in enumerate(losses)]

    def cost(target: float | None) -> float:
        settings = dsgt.Settings(methods=("dsgt",), lrs=(0.1,), seeds=2, target=target)
        return dsgt.Comparison(settings, rows(0, [4, 2, 1, 3]) + rows(1, [4, 3, 2, 1])).to_target("dsgt", "round")

    assert cost(2.0) == (10 + 20) / 2
    assert cost(2.5) == (7.5 + 15) / 2
    assert cost(4.0) == 0
    assert math.isnan(cost(0.5))
    assert cost(None) == (5 + 10) / 2  # 3 is the last loss of seed 0; it has fallen from 4 to 2 in ten rounds


def test_what_is_measured_seldom_is_told_where_it_was_measured():
    """Megabytes are in every other row only: nothing is known between a row without them and one with them."""
    rows = [{"method": "dsgt", "lr": 0.1, "seed": 0, "round": k, "loss": 4.0 - k} for k in range(4)]
    rows[2]["megabytes"] = 8.0
    found = dsgt.Comparison(dsgt.Settings(methods=("dsgt",), lrs=(0.1,), seeds=1, target=2.5), rows)
    assert found.to_target("dsgt", "megabytes") == 8.0
    assert found.to_target("dsgt", "round") == 1.5


def test_how_rates_were_chosen_tells_of_a_grid_that_grew_only_where_it_may():
    assert "the grid grew" in comparison({"dsgt": {0.1: [0.3], 0.2: [0.4]}}).selection
    assert "grew" not in comparison({"dsgt": {0.1: [0.3], 0.2: [0.4]}}, grow=0).selection


def test_the_automatic_target_is_the_lowest_loss_that_all_who_learn_reach():
    finals = {"dsgt": [0.2, 0.25], "dpsgd": [0.4, 0.6], "d2": [2.4, 0.1], "sgd": [0.3, math.inf]}
    found = comparison({method: {0.1: ends} for method, ends in finals.items()})  # all start at 2.3
    # D-PSGD's worse seed: D² ended above its start, SGD diverged. Approximately, for floats make the curve.
    assert found.target == pytest.approx(0.6)
    assert not math.isnan(found.to_target("dpsgd", "round"))


def test_what_is_finished_is_spoken_of_only_where_something_of_what_was_asked_is(tmp_path):
    common = ["compare", "sgd", "--nodes", "2", "--graph", "path", "--epochs", "0.2", "--seeds", "1", "--workers", "1"]
    common += ["--out", str(tmp_path)]
    assert CliRunner().invoke(app, [*common, "--lr", "0.1"]).exit_code == 0
    assert (tmp_path / "finished.jsonl").is_file()
    for mistake in (["--lr", "-1"], ["--lr", "0.1", "--partition", "foo"], ["--lr", "0.1", "--data", "mnits"]):
        done = CliRunner().invoke(app, [*common, *mistake])
        assert done.exit_code == 2
        assert "What is finished" not in done.output
    (tmp_path / "table.csv").unlink()
    (tmp_path / "table.csv").mkdir()  # the run is finished, and then cannot be written
    done = CliRunner().invoke(app, [*common, "--lr", "0.1"])
    assert done.exit_code == 2
    assert f"What is finished is in {tmp_path}" in " ".join(done.output.split())


def test_the_page_is_written_beside_what_a_comparison_saves(tmp_path):
    found = comparison({"dsgt": {0.1: [0.3]}})
    assert found.save(tmp_path / "a") == tmp_path / "a"
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert dsgt.report.save(found, tmp_path / "b") == tmp_path / "b" / "report.html"
    assert {path.name for path in (tmp_path / "b").iterdir()} == names | {"report.html", "report.json", "table.tex"}


def test_a_notebook_shows_the_table():
    shown = comparison({"dsgt": {0.1: [0.3]}, "sgd": {0.1: [0.2]}})._repr_html_()
    assert shown.startswith("<table")
    assert "<th>dsgt</th>" in shown


def test_settings_come_from_a_file_and_flags_win(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('methods = ["sgd"]\nnodes = 4\ngraph = "ring"\nepochs = 1\nlrs = [0.1]\nseeds = 1\n')
    done = CliRunner().invoke(app, ["compare", "--config", str(file), "--nodes", "5", "--out", str(tmp_path / "a")])
    assert done.exit_code == 0, done.output
    written = json.loads((tmp_path / "a" / "settings.json").read_text())["settings"]
    assert (written["nodes"], written["methods"], written["seeds"]) == (5, ["sgd"], 1)
    again = dsgt.Settings.of(dsgt.comparison.read_settings(tmp_path / "a" / "settings.toml"))
    assert again == dsgt.Settings(methods=("sgd",), nodes=5, graph="ring", epochs=1, lrs=(0.1,), seeds=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node = 4", "no setting called 'node'; did you mean 'nodes'?"),
        ("nodes = 0.5\nseeds = 0", "nodes is 0.5.*; seeds is 0: input should be greater than or equal to 1"),
        ("lrs = [-1]", "^lrs is -1: input should be greater than 0$"),
        ("lrs = []", "lrs is \\[\\]"),
        ("nodes = ", "is not TOML"),
        ('methods = ["dsgtt"]', "did you mean 'dsgt'"),
    ],
)
def test_a_wrong_file_is_refused_by_name(text: str, message: str, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        dsgt.Settings.of(dsgt.comparison.read_settings(file))


def test_the_command_of_settings_gives_them_back(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("dsgt.commands.compare.compare", lambda settings, **_: seen.append(settings) or 1 / 0)
    settings = dsgt.Settings(
        methods=("d2", "sgd"), model="lenet", graph="a b.json", lrs=(1 / 3, 1e-5), latency=0.0, data_dir="x'y"
    )
    assert settings.command().startswith("dsgt compare d2 sgd ")
    CliRunner().invoke(app, shlex.split(settings.command())[1:])
    assert seen == [settings]


def test_lenet_is_a_model_and_events_are_written(tmp_path):
    arguments = ["compare", "dsgt", "--model", "lenet", "--nodes", "2", "--graph", "ring", "--partition", "equal"]
    arguments += ["--epochs", "0.1", "--seeds", "1", "--lr", "0.1", "--out", str(tmp_path), "--tensorboard"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "lenet on digits" in " ".join(done.output.split())
    assert list((tmp_path / "tensorboard" / "dsgt" / "lr_0.1" / "seed_0").glob("events.*"))


def test_a_method_gets_weights_that_it_may_use():
    path = dsgt.Settings(nodes=3, graph="path", weights="fdla")  # there FDLA has lambda_n = -1/2
    assert path.weights_for("d2")[1] == "metropolis"
    assert path.weights_for("dsgt")[1] == "fdla"
    assert path.weights_for("sgd")[1] == "all"
    assert path.weights_for("sgp")[1] == "fdla"  # the same for all who may use them
    directed = dsgt.Settings(nodes=6, graph="directed-random")
    assert directed.weights_for("sgp")[1] == "push"
    with pytest.raises(ValueError, match="dsgt needs W to be doubly stochastic, which no rule gives"):
        directed.weights_for("dsgt")


def test_a_network_from_a_file_brings_its_weights(tmp_path):
    graph = ring(5)
    W = lift(fdla(graph).W, 0.0)
    write_network(tmp_path / "mine.json", graph, W)
    mine = dsgt.Settings(nodes=5, graph=str(tmp_path / "mine.json"))
    found, name = mine.weights_for("d2")
    assert name == "file"
    assert abs(found.at(0) - W).max() < 1e-15
    with pytest.raises(ValueError, match="has 5 nodes, but 12 were asked for"):
        dsgt.Settings(nodes=12, graph=str(tmp_path / "mine.json")).weights_for("dsgt")


def test_the_command_prints_a_table_and_writes_numbers_and_pictures(tmp_path):
    arguments = ["compare", "dsgt", "sgp", "--nodes", "4", "--epochs", "1", "--seeds", "1", "--lr", "0.1"]
    done = CliRunner().invoke(app, [*arguments, "--workers", "1", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "dsgt" in done.output
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert {row["method"] for row in rows} == {"dsgt", "sgp"}
    assert json.loads((tmp_path / "settings.json").read_text())["settings"]["nodes"] == 4
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "comparison.pdf").read_bytes().startswith(b"%PDF")


def test_one_learning_rate_needs_no_tuple_and_no_workers_are_none():
    assert dsgt.Settings.of({"lrs": 0.1}).lrs == (0.1,)
    with pytest.raises(ValueError, match="workers is 0; give how many processes work at a time"):
        dsgt.compare(methods=["dsgt"], workers=0)


def test_a_narrow_terminal_breaks_a_loss_before_its_spread_and_no_short_name():
    found = comparison({"dsgt": {0.4: [0.796, 0.801]}, "sgd": {0.4: [0.2332330, 0.2332331]}})
    console = Console(width=72, record=True, file=io.StringIO())
    console.print(results_table(found))
    words = console.export_text().split()
    assert {"method", "dsgt", "sgd", "metropolis", "0.233233", "±0.000000"} <= {*words}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dsgtt"], "did you mean 'dsgt'"),
        (["dsgt", "--partition", "foo"], "expected equal, dirichlet:ALPHA, labels:COUNT or groups"),
        (["dsgt", "--partition", "dirichlet:x"], "'x' is no number"),
        (["dsgt", "--nodes", "0"], "nodes is 0: input should be greater than or equal to 1"),
        (
            ["dsgt", "--data", "mnits"],
            "there is no data set called 'mnits'; did you mean 'mnist'? Known: digits, cifar10, cifar100, mnist, "
            "fashion-mnist, femnist; or a folder, a file",
        ),
        (
            ["dsgt", "--model", "gpt"],
            "there is no model called 'gpt'. Known: logistic, lenet, mlp, resnet20, transformer; or your own",
        ),
        (["dsgt", "--data", "cifar10"], "with --data-dir on the command line"),
        (["dsgt", "--data", "cifar10", "--data-dir", "nowhere"], "CIFAR-10 is not in nowhere"),
        (["dsgt", "--config", "nowhere.toml"], "nowhere.toml"),
        (["dsgt", "--bandwidth", "0"], "bandwidth is 0.0: input should be greater than 0"),
        (["dsgt", "--latency", "nan"], "latency is nan"),
        (["dsgt", "--compute", "-1"], "compute is -1.0"),
        (["dsgt", "--target", "0"], "target is 0.0"),
        (["dsgt", "--evaluations", "0"], "evaluations is 0"),
        (["dsgt", "--seeds", "0"], "seeds is 0"),
        (["dsgt", "--nodes", "20000", "--graph", "ring", "--weights", "metropolis"], "cannot be shared among"),
        (["dsgt", "--lr", "-1"], "error: lrs is -1.0: input should be greater than 0"),
        (["dsgt", "--epochs", "-1"], "epochs is -1.0: input should be greater than 0"),
        (["dsgt", "--batch", "3"], "global batch is 3"),
        (["dsgt", "--graph", "rng"], "did you mean 'ring'"),
        (["dsgt", "--weights", "fdl"], "did you mean 'fdla'"),
    ],
)
def test_bad_arguments_are_refused_before_any_run(arguments: list[str], message: str, tmp_path, monkeypatch):
    monkeypatch.delenv("DSGT_DATA", raising=False)
    done = CliRunner().invoke(app, ["compare", *arguments, "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert not list(tmp_path.iterdir())


def test_methods_are_listed_with_their_needs():
    done = CliRunner().invoke(app, ["methods"])
    assert done.exit_code == 0
    assert all(name in done.output for name in dsgt.ALGORITHMS)


def test_methods_with_compressed_messages_are_drawn_against_megabytes():
    finals = {0.1: [1.0]}
    assert comparison({"dsgt": finals, "dpsgd": finals}).axis == "epochs"
    packed = comparison({"dsgt": finals, "beer:compress=top-k:0.05": finals})
    assert packed.axis == "megabytes"
    assert [panel.get_xlabel() for panel in packed.plot().axes] == ["megabytes sent"] * 3
    assert packed.plot(against="epochs").axes[0].get_xlabel() == "epochs"


@pytest.mark.parametrize("graph", ["one-peer", "base-2", "base-3"])
def test_a_cycle_of_weights_by_its_name(graph: str) -> None:
    settings = dsgt.Settings(nodes=4, graph=graph)
    W, rule = settings.weights_for("dsgt")
    assert (rule, len(W.matrices)) == (graph, len(settings.weights_for("atc-dpsgd")[0].matrices))
    assert np.allclose(np.linalg.multi_dot([np.eye(4), *map(to_dense, W.matrices)]), 1 / 4)
    assert max((to_dense(R) > 0).sum(axis=1).max() for R in W.matrices) <= (3 if graph == "base-3" else 2)
    assert settings.weights_for("sgd")[1] == "all"
    assert settings.graph_drawn().number_of_nodes() == 4
    with pytest.raises(ValueError, match="d2 needs a network that does not change"):
        settings.weights_for("d2")


def test_a_comparison_over_one_peer_a_round_sends_one_message_where_a_ring_sends_two() -> None:
    sent = {}
    for graph in ("ring", "one-peer"):
        small = SMALL | {"graph": graph, "seeds": 1, "lrs": (0.05,)}
        found = dsgt.compare(dsgt.Settings(methods=("dsgt",), **small), workers=1)
        (rows,) = found.of("dsgt").grid[0.05].values()
        sent[graph] = rows[-1]["megabytes"]
        assert graph == "ring" or "one-peer" in page(found)
    assert sent["ring"] == 2 * sent["one-peer"]
