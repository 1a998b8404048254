"""dsgt compare, small."""

from __future__ import annotations

import json
import math

import pytest
from typer.testing import CliRunner

import dsgt
from dsgt.cli import app
from dsgt.comparison import weights_for
from dsgt.topologies import path, random_graph

SMALL = {"nodes": 4, "graph": "ring", "epochs": 1.0, "lrs": (0.05, 0.1), "seeds": 2}


def test_every_method_gets_the_same_runs_and_its_own_best_learning_rate():
    told = []
    found = dsgt.compare(
        dsgt.Settings(("dsgt", "sgd"), **SMALL), workers=1, progress=lambda *done: told.append(done[:2])
    )
    assert told == [(k, 8) for k in range(1, 9)]
    for method in ("dsgt", "sgd"):
        losses = {lr: sum(found.final(method, lr, "loss")) for lr in SMALL["lrs"]}
        assert found.best_lr(method) == min(losses, key=losses.get)
    assert [line["method"] for line in found.table()] == ["dsgt", "sgd"]


def test_the_same_numbers_come_out_of_one_worker_and_of_two():
    def rows(workers: int) -> list[dict]:
        found = dsgt.compare(dsgt.Settings(("dsgt",), **SMALL), workers=workers)
        return [{key: value for key, value in row.items() if key != "seconds"} for row in found.rows]

    assert rows(1) == rows(2)


def test_a_run_that_diverges_is_kept_as_diverged_and_never_chosen():
    settings = dsgt.Settings(("dsgt",), **SMALL | {"lrs": (0.1, 1e38), "seeds": 1, "epochs": 4.0})
    found = dsgt.compare(settings, workers=1)
    assert found.final("dsgt", 1e38, "loss") == [math.inf]
    assert found.best_lr("dsgt") == 0.1


def test_a_method_gets_weights_that_it_may_use():
    assert weights_for("d2", "fdla", path(3))[1] == "metropolis"  # FDLA on a path of three has lambda_n = -1/2
    assert weights_for("dsgt", "fdla", path(3))[1] == "fdla"
    assert weights_for("sgd", "fdla", path(3))[1] == "all"
    assert weights_for("sgp", "fdla", random_graph(8, seed=0))[1] == "push"


def test_the_command_prints_a_table_and_writes_numbers_and_pictures(tmp_path):
    arguments = ["compare", "dsgt", "sgp", "--nodes", "4", "--epochs", "1", "--seeds", "1", "--lr", "0.1"]
    done = CliRunner().invoke(app, [*arguments, "--workers", "1", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "dsgt" in done.output
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert {row["method"] for row in rows} == {"dsgt", "sgp"}
    assert json.loads((tmp_path / "settings.json").read_text())["nodes"] == 4
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "comparison.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dsgtt"], "did you mean 'dsgt'"),
        (["dsgt", "--partition", "foo"], "expected equal, dirichlet:ALPHA or labels:COUNT"),
        (["dsgt", "--nodes", "0"], "n is 0"),
        (["dsgt", "--nodes", "100000", "--graph", "ring", "--weights", "metropolis"], "cannot be shared among"),
        (["dsgt", "--lr", "-1"], "finite numbers above 0"),
        (["dsgt", "--epochs", "-1"], "epochs is -1"),
        (["dsgt", "--batch", "3"], "global batch is 3"),
        (["dsgt", "--graph", "rng"], "did you mean 'ring'"),
        (["dsgt", "--weights", "fdl"], "did you mean 'fdla'"),
    ],
)
def test_bad_arguments_are_refused_before_any_run(arguments: list[str], message: str, tmp_path):
    done = CliRunner().invoke(app, ["compare", *arguments, "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert not list(tmp_path.iterdir())


def test_methods_are_listed_with_their_needs():
    done = CliRunner().invoke(app, ["methods"])
    assert done.exit_code == 0
    assert all(name in done.output for name in dsgt.ALGORITHMS)
