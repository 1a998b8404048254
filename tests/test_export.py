"""A model taken out of a checkpoint is the model that was trained, or is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import dsgt
from dsgt import checkpoint, data, problems
from dsgt.checkpoint import part as part_file
from dsgt.cli import app
from dsgt.layout import Layout
from dsgt.networks import in_threads
from dsgt.problems.named import built_in
from dsgt.topologies import metropolis
from support.cases import F64

W = metropolis(nx.cycle_graph(4))


def ran(problem: problems.Problem, folder: Path, rounds: int = 30) -> Tensor:
    """The mean model, (m,)."""
    return dsgt.run(dsgt.DSGT(), problem, W, rounds=rounds, lr=0.1, checkpoint_dir=folder).x.mean(dim=0)


def digits(**options: Any) -> problems.Logistic:
    train, test = data.digits(dtype=F64)
    shards = data.partition.equal(train, 4)
    return problems.Logistic(train, shards, data.WithReplacement(batch=64), test=test, **options)


def right(model: nn.Module, problem: problems.Logistic) -> Tensor:
    """The share of test samples that the model classifies correctly."""
    assert problem.test is not None
    z = model(problem.test.features)
    guess = (z[:, 0] > 0).long() if z.shape[1] == 1 else z.argmax(dim=1)
    return (guess == problem.test.targets).double().mean()


@pytest.mark.parametrize("intercept", [True, False])
def test_a_logistic_run_exported_into_a_linear_layer_is_as_accurate_as_the_run(tmp_path: Path, intercept: bool):
    problem = digits(intercept=intercept)
    x = ran(problem, tmp_path / "run")
    model = nn.Linear(64, 10, bias=intercept).double()
    model.load_state_dict(checkpoint.export(tmp_path / "run", tmp_path / "m.pt", model))
    assert right(model, problem) == problem.accuracy(x) > 0.8
    scores = x.view(10, -1)
    assert torch.equal(model.weight, scores[:, :64])
    if intercept:
        assert torch.equal(model.bias, scores[:, 64])


def test_two_classes_are_one_score(tmp_path: Path):
    train, _ = data.digits(dtype=F64)
    samples = data.Samples(train.features, (train.targets > 4).long())
    problem = problems.Logistic(samples, data.partition.equal(samples, 4), data.WithReplacement(batch=64), test=samples)
    x = ran(problem, tmp_path / "run", 300)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 1)).double()  # a layer of a model has its name before the others
    model.load_state_dict(checkpoint.export(tmp_path / "run", tmp_path / "m.safetensors", model))
    assert right(model, problem) == problem.accuracy(x) > 0.7


def test_another_model_is_refused_with_what_was_saved_and_what_was_given(tmp_path: Path):
    ran(digits(), tmp_path / "run", 2)
    words = (
        r"run holds weight \(10, 64\), bias \(10,\), but the model that was given has weight \(64, 10\), bias \(64,\)"
    )
    with pytest.raises(checkpoint.DifferentError, match=words):
        checkpoint.export(tmp_path / "run", tmp_path / "m.pt", nn.Linear(10, 64))
    with pytest.raises(checkpoint.DifferentError, match=r"has weight \(10, 65\); give the model that was trained"):
        checkpoint.export(tmp_path / "run", tmp_path / "m.pt", nn.Linear(65, 10, bias=False))
    assert not (tmp_path / "m.pt").exists()


def test_parameters_are_found_by_name_not_by_order(tmp_path: Path):
    """Two layers of one shape."""

    class Two(nn.Module):
        def __init__(self, names: str) -> None:
            super().__init__()
            for i, name in enumerate(names):
                layer = nn.Linear(64, 64, bias=False)
                layer.weight.data.fill_((1 + i) / 100)
                setattr(self, name, layer)
            self.last = nn.Linear(64, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.a(x) + self.b(x))

    train, _ = data.digits(dtype=F64)
    shards, sampling = data.partition.equal(train, 4), data.WithReplacement(batch=8)
    ran(problems.Model(Two("ab"), train, shards, sampling, strategy="loop"), tmp_path / "run", 2)
    found = checkpoint.export(tmp_path / "run", tmp_path / "m.pt", Two("ba"))
    assert found["a.weight"].mean() < 0.015 < found["b.weight"].mean()


def test_buffers_and_frozen_parameters_come_from_the_model(tmp_path: Path):
    module = nn.Sequential(nn.Linear(64, 4), nn.BatchNorm1d(4).eval(), nn.Linear(4, 10))
    module[0].bias.requires_grad_(False)
    train, _ = data.digits()
    shards, sampling = data.partition.equal(train, 4), data.WithReplacement(batch=8)
    ran(problems.Model(module, train, shards, sampling, strategy="loop"), tmp_path / "run", 2)
    with pytest.raises(ValueError, match=r"but not 0\.bias, 1\.running_mean, .*: give the model that has them"):
        checkpoint.export(tmp_path / "run", tmp_path / "m.pt")
    found = checkpoint.export(tmp_path / "run", tmp_path / "m.pt", module)
    assert found.keys() == module.state_dict().keys()
    assert torch.equal(found["0.bias"], module[0].bias)
    assert not torch.equal(found["0.weight"], module[0].weight)


def test_a_checkpoint_without_names_and_shapes_is_refused_with_what_to_do(tmp_path: Path):
    ran(digits(), tmp_path / "run", 2)
    (path,) = (tmp_path / "run").glob("round-000000002-*")
    old = part_file.read(path)
    extra = {key: value for key, value in old.extra.items() if key != "layout"}
    part_file.write(path, part_file.Part(old.k, old.node, old.nodes, old.settings, extra, old.tensors))
    with pytest.raises(checkpoint.DifferentError, match=r"saved before names and shapes were kept.*one round more"):
        checkpoint.export(tmp_path / "run", tmp_path / "m.pt", nn.Linear(64, 10))
    dsgt.run(dsgt.DSGT(), digits(), W, rounds=3, lr=0.1, checkpoint_dir=tmp_path / "run", resume=True)
    assert checkpoint.export(tmp_path / "run", tmp_path / "m.pt")["weight"].shape == (10, 64)


def test_what_training_saved_must_be_the_model_that_is_given(tmp_path: Path):
    def node(net: Any) -> nn.Module:
        model = nn.Linear(3, 2)
        opt = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), net, lr=0.1)
        model(torch.ones(1, 3)).sum().backward()
        opt.step()
        checkpoint.Training(tmp_path / "run", model, opt).save()
        return model

    one, other = in_threads([[0.5, 0.5], [0.5, 0.5]], node)
    found = checkpoint.export(tmp_path / "run", tmp_path / "m.pt", nn.Linear(3, 2).double())
    assert found["weight"].dtype == F64
    # the mean of two float32 numbers, rounded once
    assert torch.allclose(found["weight"], (one.weight.double() + other.weight.double()) / 2, atol=1e-7)
    with pytest.raises(
        checkpoint.DifferentError, match=r"holds bias \(2,\), weight \(2, 3\), but .* has weight \(2, 3\);"
    ):
        checkpoint.export(tmp_path / "run", tmp_path / "m.pt", nn.Linear(3, 2, bias=False))


def test_a_problem_of_ones_own_is_one_vector():
    class Mine(problems.LeastSquares):
        layout = problems.Problem.layout

    samples, shards = data.synthetic.least_squares([5, 5], 3, dtype=F64)
    (place,) = Layout.from_json(Mine(samples, shards, data.Full()).layout().as_json()).places
    x = torch.arange(float(place.shape[0]))
    assert (place.name, place.of(x).tolist()) == ("x", x.tolist())


TRAIN = ["train", "dsgt", "--nodes", "4", "--graph", "ring", "--epochs", "1", "--evaluations", "2"]
BUILD = "import torch\ndef build(): return torch.nn.Linear(64, 10)\nmade = build()\nnumber = 3\ndict_ = dict\n"


def dsgt_command(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    return done.exit_code, " ".join(done.output.split())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    code, said = dsgt_command(*TRAIN, "--checkpoint-dir", folder / "run", "--out", folder / "out")
    assert code == 0, said
    return folder / "run"


@pytest.mark.parametrize("model", [None, "build", "made"])
def test_the_command_writes_the_mean_model(trained: Path, tmp_path: Path, model: str | None):
    (tmp_path / "script.py").write_text(BUILD)
    flags = [] if model is None else ["--model", f"{tmp_path / 'script.py'}:{model}"]
    code, said = dsgt_command("export", trained, tmp_path / "m.pt", *flags)
    assert code == 0, said
    assert "m.pt: weight (10, 64), bias (10,)." in said
    assert f"after round {checkpoint.latest(trained)} " in said
    mean = checkpoint.models(trained)[1].double().mean(dim=0).float().view(10, 65)
    assert torch.equal(torch.load(tmp_path / "m.pt")["weight"], mean[:, :64])


def test_a_model_may_be_named_as_for_train(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "myexport.py").write_text("import torch\ndef net(classes): return torch.nn.Linear(64, classes)\n")
    monkeypatch.chdir(tmp_path)
    code, said = dsgt_command("export", trained, "m.pt", "--model", "myexport:net:classes=10")
    assert code == 0, said
    assert "m.pt: weight (10, 64), bias (10,)." in said


@pytest.mark.parametrize(
    "model", ["resnet20:norm=batch,width=2", "lenet", "mlp:hidden=5,layers=2", "transformer:patch=2"]
)
def test_a_built_in_model_is_made_for_the_samples_that_it_was_trained_on(tmp_path: Path, model: str):
    train = ["--model", model, "--nodes", "2", "--graph", "path", "--budget", "2rounds", "--batch", "64"]
    train += ["--eval-samples", "8", "--evaluations", "1", "--partition", "equal"]
    code, said = dsgt_command("train", "dsgt", *train, "--checkpoint-dir", tmp_path / "run", "--out", tmp_path / "out")
    assert code == 0, said
    code, said = dsgt_command("export", tmp_path / "run", tmp_path / "m.pt", "--model", model)
    assert code == 0, said
    shape = (64,) if model.startswith("mlp") else (1, 8, 8)
    made = built_in(model, shape, 10, 1)
    made.load_state_dict(torch.load(tmp_path / "m.pt"))
    mean = checkpoint.models(tmp_path / "run")[1].double().mean(dim=0).float()
    assert torch.equal(nn.utils.parameters_to_vector(made.parameters()).sort().values, mean.sort().values)


def test_what_the_models_file_imports_may_stand_beside_it(trained: Path, tmp_path: Path):
    (tmp_path / "beside_the_script.py").write_text(BUILD)
    (tmp_path / "script.py").write_text("from beside_the_script import build\n")
    code, said = dsgt_command("export", trained, tmp_path / "m.pt", "--model", f"{tmp_path / 'script.py'}:build")
    assert code == 0, said


@pytest.mark.parametrize(
    ("file", "model", "words"),
    [
        ("m.bin", None, "error: m.bin ends in '.bin', but a model is written to .safetensors or .pt"),
        ("m.pt", "script.py", "--model is 'script.py'; expected FILE.py:NAME, MODULE:NAME, or lenet, mlp, resnet20,"),
        ("m.pt", "logistic", "--model is 'logistic'; expected FILE.py:NAME, MODULE:NAME, or lenet"),
        ("m.pt", "mlp:hiden=3", "no argument of mlp called 'hiden'; did you mean 'hidden'"),
        ("m.pt", "mlp", "error: the run did not train mlp: its parameters have other shapes; give the model as there"),
        ("m.pt", "script:number", "the model 'script:number' gives an int; expected Module"),
        ("m.pt", "absent.py:build", "--model absent.py:build gives no module: FileNotFoundError"),
        ("m.pt", "script.py:built", "--model script.py:built gives no module: KeyError: 'built'"),
        ("m.pt", "script.py:number", "--model script.py:number gives no module: TypeError: 'int' object is not"),
        ("m.pt", "script.py:dict_", "--model script.py:dict_ gives a dict; expected a torch.nn.Module"),
    ],
)
def test_what_the_command_cannot_do_is_said_in_a_line(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, model: str | None, words: str
):
    (tmp_path / "script.py").write_text(BUILD)
    monkeypatch.chdir(tmp_path)
    code, said = dsgt_command("export", trained, file, *([] if model is None else ["--model", model]))
    assert code == 2
    assert words in said
    assert not (tmp_path / file).exists()


def test_a_folder_without_checkpoints_is_named(tmp_path: Path):
    code, said = dsgt_command("export", tmp_path / "absent", tmp_path / "m.pt")
    assert code == 2
    assert "absent holds no checkpoint of which every part is whole" in said
