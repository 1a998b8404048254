"""Augmentation, statistics, schedules, momentum, weight decay and how much is measured, by flags of the commands, by
settings and by ``dsgt.fit``: the same run whoever asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from typer.testing import CliRunner

import dsgt
from dsgt import data, metrics, oracles, problems, schedules
from dsgt.cli import app
from dsgt.comparison.job import Job
from dsgt.comparison.measured import measurable
from dsgt.problems.named import named_problem
from dsgt.randomness import seeded

MODULE = """
import torch
from torch import nn


def net(width=4):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 10)
    )


def shaken(features, generator, amount=0.1):
    return features + amount * torch.randn(features.shape, generator=generator)


def rude(features, generator):
    return features + torch.randn(features.shape)


number = 3
"""
GIVEN: dict[str, Any] = {
    "model": "mine:net", "augment": "mine:shaken:amount=0.2", "statistics": "averaged", "weight_decay": 0.01,
    "momentum": 0.8, "schedule": "cosine:warmup=0.1", "nodes": 3, "partition": "equal", "graph": "ring", "batch": 60,
    "budget": "18rounds", "evaluations": 3, "eval_samples": 100, "node_accuracy": False,
}  # fmt: skip


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "mine", raising=False)
    __import__("dsgt.factories").factories._lookup.cache_clear()
    named_problem.cache_clear()
    return tmp_path


def flags(given: dict[str, Any]) -> list[str]:
    words = []
    for key, value in given.items():
        name = key.replace("_", "-")
        words += [f"--{'' if value else 'no-'}{name}"] if isinstance(value, bool) else [f"--{name}", str(value)]
    return words


def by_hand(lr: float, seed: int) -> dsgt.Result[Any]:
    """The same with objects, and nothing of the settings."""
    import mine

    train, test = data.digits()
    with seeded(seed):
        net = mine.net()
    problem = problems.Model(
        net,
        train,
        data.partition.equal(train, 3, seed=seed),
        data.WithReplacement(batch=60),
        test=test,
        l2=0.01,
        augment=lambda x, g: mine.shaken(x, g, 0.2),
        statistics="averaged",
    ).measured_on(100)
    rounds = 18
    W = dsgt.topologies.metropolis(dsgt.topologies.ring(3))
    return dsgt.run(
        dsgt.DSGT(), problem, W, rounds=rounds, lr=schedules.cosine(lr, rounds, warmup=0.1), seed=seed,
        oracle=oracles.Momentum(0.8), every=max(1, rounds // 3),
        metrics={"loss": metrics.loss, "accuracy": metrics.accuracy},
    )  # fmt: skip


def test_train_takes_all_of_it_by_flags_and_tells_what_measuring_took(mine: Path):
    done = CliRunner().invoke(app, ["train", "dsgt", "--lr", "0.2", "--seed", "1", *flags(GIVEN), "--out", "out"])
    assert done.exit_code == 0, done.output
    assert "Measuring took" in done.output
    assert "% of the time" in done.output
    rows = [json.loads(line) for line in (mine / "out" / "rows.jsonl").read_text().splitlines()]
    expected = by_hand(0.2, 1).rows
    assert [row["loss"] for row in rows] == pytest.approx([row["loss"] for row in expected], rel=1e-5)
    assert [row["accuracy"] for row in rows] == [row["accuracy"] for row in expected]
    assert not [key for key in rows[0] if key.startswith("node_")]
    assert rows[-1]["loss"] < rows[0]["loss"]


def test_one_worker_and_two_give_the_same_bits_and_the_key_is_all_of_it(mine: Path):
    given = {**GIVEN, "methods": ["dsgt", "dpsgd"], "lrs": [0.2], "seeds": 2}
    one, two = (dsgt.compare(dsgt.Settings.of(given), workers=n, folder=mine / str(n)) for n in (1, 2))
    assert one.rows == two.rows
    job = Job(dsgt.Settings.of(given), "dsgt", 0.2, 1)
    resumed = job(checkpoints=None)
    assert resumed == [row for row in one.rows if row["method"] == "dsgt" and row["seed"] == 1]
    keys = {json.dumps(job.key, sort_keys=True)}
    for change in ({"momentum": 0.0}, {"schedule": "linear"}, {"augment": "mine:shaken"}, {"weight_decay": 0.0},
                   {"statistics": "own"}, {"eval_samples": 99}, {"node_accuracy": True}):  # fmt: skip
        keys.add(json.dumps(Job(dsgt.Settings.of(given | change), "dsgt", 0.2, 1).key, sort_keys=True))
    (mine / "mine.py").write_text(MODULE.replace("0.1", "0.3"))  # another augmentation
    __import__("dsgt.comparison.settings").comparison.settings._problem_text.cache_clear()
    keys.add(json.dumps(Job(dsgt.Settings.of(given), "dsgt", 0.2, 1).key, sort_keys=True))
    assert len(keys) == 9


def test_settings_say_themselves_again(mine: Path):
    settings = dsgt.Settings.of(GIVEN | {"methods": ["dsgt"], "lrs": [0.2]})
    words = settings.command().split()
    assert "--no-node-accuracy" in words
    assert words[words.index("--schedule") + 1] == "cosine:warmup=0.1"
    import tomllib

    assert dsgt.Settings.of(tomllib.loads(settings.toml())) == settings


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"augment": "mine:rude"}, "different samples for the same seed"),
        ({"augment": "mine:number"}, "the augmentation 'mine:number' is a int; expected a function"),
        ({"augment": "mine:gone"}, "the augmentation 'mine:gone' cannot be imported: mine has no 'gone'"),
        ({"augment": "flop"}, "there is no augmentation called 'flop'; did you mean 'flip'"),
        ({"augment": "crop:pading=1"}, "unexpected keyword argument 'pading'"),
        ({"augment": "flip", "model": "logistic"}, "logistic regression takes samples as they are"),
        ({"schedule": "cosin"}, "there is no schedule called 'cosin'; did you mean 'cosine'"),
        ({"momentum": 1.0}, "momentum is 1.0: input should be less than 1"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0: input should be greater than or equal to 0"),
        ({"statistics": "mine"}, "statistics is 'mine': input should be 'own' or 'averaged'"),
        ({"eval_samples": 0}, "eval_samples is 0: input should be greater than or equal to 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
@pytest.mark.parametrize("command", ["train", "compare"])
def test_what_cannot_be_is_told_in_a_sentence_before_any_run(
    mine: Path, command: str, change: dict[str, Any], sentence: str
):
    given = {key: value for key, value in GIVEN.items() if key != "augment"} | change
    done = CliRunner().invoke(app, [command, "dsgt", *flags(given), "--out", "out"])
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.output.replace("│", " ").split())
    assert not (mine / "out" / "rows.jsonl").exists() or not (mine / "out" / "rows.jsonl").read_text()


def test_measuring_on_some_samples_is_measuring_a_problem_of_these():
    train, test = data.digits()
    problem = problems.Logistic(
        train, data.partition.equal(train, 3), data.WithReplacement(batch=30), test=test, l2=0.1
    )
    some, x = problem.measured_on(50), torch.randn(problem.dim, generator=torch.Generator().manual_seed(0))
    held = some.held
    assert len(held) == len(some.test) == 50
    places = [(train.features == row).all(1).nonzero()[0, 0].item() for row in held.features]
    assert len(set(places)) > 45  # without replacement; some digits are alike
    scores = torch.cat([held.features, torch.ones(50, 1)], dim=1) @ x.view(10, -1).T
    expected = float(cross_entropy(scores, held.targets)) + 0.05 * float(x.square().sum())
    assert float(some.loss(x)) == pytest.approx(expected, rel=1e-4)
    assert torch.equal(some.held.features, problem.measured_on(50).held.features)
    assert torch.equal(some.oracle(1)(x.expand(3, -1).clone(), 2), problem.oracle(1)(x.expand(3, -1).clone(), 2))
    assert some[0].loss(x) == problem[0].loss(x)  # what a node knows is not changed
    assert problem.measured_on(10**6).loss(x) == pytest.approx(float(problem.loss(x)), rel=1e-5)
    assert some.identity()["measured on"] != problem.identity().get("measured on")
    with pytest.raises(ValueError, match="give at least 1"):
        problem.measured_on(0)


def test_fit_takes_a_name_and_gives_the_mean_model_with_averaged_statistics():
    train, test = data.digits(images=True)
    found = dsgt.fit(
        "resnet20:norm=batch,width=2", train, test, nodes=2, epochs=0.1, batch=32, momentum=0.5, weight_decay=0.0,
        schedule="step", augment="crop:padding=1", eval_samples=60, node_accuracy=False, lr=0.1,
    )  # fmt: skip
    assert not found.model.training
    assert int(found.model[1].num_batches_tracked) == 4
    kept = problems.Model(
        nn.Linear(64, 10), (train.features.flatten(1), train.targets), data.partition.equal(train, 2), data.Full(),
        test=(test.features.flatten(1), test.targets),
    ).measured_on(60)  # fmt: skip
    with torch.no_grad():
        outputs = found.model(kept.held.features.view(-1, 1, 8, 8))
        right = found.model(kept.test.features.view(-1, 1, 8, 8)).argmax(1) == kept.test.targets
    assert float(cross_entropy(outputs, kept.held.targets)) == pytest.approx(found.rows[-1]["loss"], rel=1e-4)
    assert float(right.double().mean()) == pytest.approx(found.rows[-1]["accuracy"])
    assert "node_accuracy_min" not in found.rows[-1]
    assert found.spent.training > 0
    assert 0 < found.spent.share < 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lr": lambda k: 0.1, "schedule": "cosine"}, "lr is a function of the round and schedule 'cosine'; give one"),
        ({"model": "logistic"}, "model is 'logistic'; expected one of lenet, mlp"),
        ({"model": "resnet"}, "there is no model called 'resnet'; did you mean 'resnet20'"),
        ({"augment": "flop"}, "there is no augmentation called 'flop'"),
        ({"momentum": 1.5}, "beta"),
    ],
)
def test_fit_refuses_what_cannot_be(options: dict[str, Any], sentence: str):
    train, test = data.digits(images=True)
    with pytest.raises(ValueError, match=sentence):
        dsgt.fit(**({"model": "mlp", "train": train, "test": test, "nodes": 2} | options))


def test_what_is_measured_of_nodes_can_be_left_out():
    problem = named_problem("digits", "logistic", nodes=2, partition="equal", batch=8, seed=0)
    assert set(measurable(problem)) - set(measurable(problem, nodes=False)) == {
        "node_accuracy_mean",
        "node_accuracy_min",
    }
