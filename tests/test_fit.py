"""dsgt.fit: a module and data in, the mean model out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import dsgt
from dsgt import data, problems, topologies

SMALL = {"nodes": 4, "epochs": 1, "batch": 16}


def samples(real: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    features = torch.randn(64, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return features, features.sum(dim=1) if real else (features[:, 0] > 0).long()


def linear(outputs: int = 2) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Linear(3, outputs, dtype=torch.float64)


def test_it_is_a_run_on_the_parts_that_its_words_name():
    train = samples()
    module = linear()
    before = module.weight.clone()
    found = dsgt.fit(module, train, train, **SMALL, partition="dirichlet:0.5", lr=0.2, seed=3)
    shards = data.partition.dirichlet(train[1], 4, alpha=0.5, seed=3)
    problem = problems.Model(linear(), train, shards, data.WithReplacement(batch=16), strategy="loop")
    expected = dsgt.run(dsgt.DSGT(), problem, topologies.metropolis(topologies.ring(4)), rounds=4, lr=0.2, seed=3)
    assert torch.equal(found.x, expected.x)
    assert torch.equal(module.weight, before), "what was given is not changed"
    assert torch.equal(nn.utils.parameters_to_vector(found.model.parameters()), found.x.mean(dim=0))
    assert [row["round"] for row in found.rows] == [0, 4]
    right = (found.model(train[0]).argmax(dim=1) == train[1]).double().mean()
    assert found.rows[-1]["accuracy"] == float(right)


def test_real_targets_are_fitted_with_squared_errors():
    features, targets = samples(real=True)
    found = dsgt.fit(linear(1), (features, targets), **SMALL | {"epochs": 3})
    error = (found.model(features)[:, 0] - targets).square().mean().detach()
    assert found.rows[-1]["loss"] == pytest.approx(float(error), rel=1e-12)  # the same sum in another order
    assert "accuracy" not in found.rows[-1]


def test_a_function_makes_the_module_from_the_seed_and_leaves_the_global_numbers_alone():
    before = torch.get_rng_state()
    a, b, c = (
        dsgt.fit(lambda: nn.Linear(3, 2, dtype=torch.float64), samples(), **SMALL, seed=seed).x for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_a_method_gets_weights_that_it_may_use_and_the_result_says_which():
    assert "lazy-metropolis weights" in repr(dsgt.fit(linear(), samples(), method="d2", **SMALL))
    assert "dsgt, 4 nodes, equal, ring graph, metropolis weights" in repr(dsgt.fit(linear(), samples(), **SMALL))
    assert "all weights" in repr(dsgt.fit(linear(), samples(), method=dsgt.SGD(), **SMALL))


def test_a_matrix_of_weights_stands_for_their_name():
    W = topologies.metropolis(topologies.ring(4))
    given = dsgt.fit(linear(), samples(), **SMALL, weights=W)
    assert torch.equal(given.x, dsgt.fit(linear(), samples(), **SMALL).x)
    assert repr(given).startswith("dsgt, 4 nodes, equal, given weights")


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float64])
def test_data_follow_the_modules_precision_or_the_one_that_is_asked_for(dtype: torch.dtype | None):
    """NumPy's numbers are float64 where nobody says anything."""
    features, targets = samples()
    module = nn.Linear(3, 2)
    found = dsgt.fit(module, (features.numpy(), targets.numpy()), (features, targets), **SMALL, dtype=dtype)
    expected = dtype or torch.float32
    assert found.x.dtype == found.model.weight.dtype == expected
    assert found.model(features.to(expected)).shape == (64, 2)
    assert module.weight.dtype == torch.float32


def test_a_model_by_the_name_of_ones_own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mynets.py").write_text("from torch import nn\n\n\ndef net(width):\n    return nn.Linear(3, width)\n")
    monkeypatch.chdir(tmp_path)
    found = dsgt.fit("mynets:net:width=2", samples(), **SMALL)
    assert torch.equal(found.x, dsgt.fit("mynets:net:width=2", samples(), **SMALL).x)


OWN = """
import networkx as nx


def by_turns(targets, nodes):
    return [range(node, len(targets), nodes) for node in range(nodes)]


def line(nodes):
    return nx.path_graph(nodes)


def slower(share):
    return 1 - share / 2
"""


def test_shards_a_graph_and_a_schedule_may_be_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mywords.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    words = {"partition": "mywords:by_turns", "graph": "mywords:line", "schedule": "mywords:slower"}
    named = dsgt.fit(linear(), samples(), **SMALL, **words)
    shards = data.Shards.of([range(node, 64, 4) for node in range(4)])
    objects = {"partition": shards, "graph": topologies.path(4), "schedule": lambda share: 1 - share / 2}
    given = dsgt.fit(linear(), samples(), **SMALL, **objects)
    built_in = dsgt.fit(linear(), samples(), **SMALL, **objects | {"graph": "path", "schedule": "linear:end=0.5"})
    assert torch.equal(named.x, given.x)
    assert torch.equal(named.x, built_in.x)
    assert repr(named).startswith("dsgt, 4 nodes, mywords:by_turns, mywords:line graph, metropolis weights")
    assert repr(given).startswith("dsgt, 4 nodes, given, given graph, metropolis weights")


def test_a_notebook_shows_its_curves():
    assert dsgt.fit(linear(), samples(), samples(), **SMALL)._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "dsgtt"}, "did you mean 'dsgt'"),
        ({"weights": "fdl"}, "did you mean 'fdla'"),
        ({"graph": "rng"}, "did you mean 'ring'"),
        ({"partition": "foo"}, "expected equal, dirichlet:ALPHA, labels:COUNT or groups"),
        ({"epochs": 0}, "epochs is 0; give how often"),
        ({"weights": torch.eye(3)}, "the weights have 3 nodes, but nodes is 4"),
        ({"weights": torch.tensor([[1.0, 0], [0.5, 0.5]]), "nodes": 2}, "dsgt needs"),
        ({"batch": 0}, "batch is 0; give how many samples"),
        ({"evaluations": 5}, "no argument of dsgt.fit called 'evaluations'"),
        ({"weight_deacy": 0.1}, "did you mean 'weight_decay'"),
        ({"statistics": "mean"}, "statistics is 'mean'; choose own or averaged"),
        ({"model": "nowhere:net"}, "no module 'nowhere'"),
        ({"loss": nn.CrossEntropyLoss(reduction="sum")}, "must be the mean over a batch: give"),
        ({"loss": lambda out, t: nn.functional.cross_entropy(out, t) * len(t)}, "must be the mean over a batch: give"),
        ({"model": 3}, "model is an int; expected an nn.Module"),
        ({"model": lambda: 3}, "the model '<lambda>' gives an int; expected Module"),
        ({"model": nn.Linear}, "the model 'Linear' cannot be called: missing a required argument: 'in_features'"),
        ({"method": 3}, "the method 'given' gives an int; expected Algorithm"),
        ({"dtype": "real"}, "dtype is 'real'; give one of real numbers, as float32"),
        ({"dtype": torch.int64}, r"dtype is torch\.int64; give one of real numbers"),
        ({"lr": "x"}, "lr is 'x'; give a learning rate above 0"),
        ({"lr": 0}, "lr is 0; give a learning rate above 0"),
        ({"seed": 1.5}, r"seed is 1\.5; seeds are whole numbers from 0 on"),
        ({"foo": 1}, r"called 'foo'\. Known: augment, batch"),
        ({"partition": [[0], [1]]}, "it gives the samples of 2 nodes, but there are 4; give one list for each"),
        ({"partition": 3}, "the partition 'given' gives an int; expected Shards or list"),
        ({"graph": topologies.ring(5)}, "the graph 'given' has 5 nodes, but 4 were asked for; use 5"),
        ({"schedule": 0.5}, "the schedule 'given' is a float; expected a function"),
    ],
)
def test_what_cannot_be_used_is_told_before_work_starts(given: dict, message: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dsgt.theory.diverged.loop", None)
    with pytest.raises((ValueError, TypeError), match=message):
        dsgt.fit(**{"model": linear(), "train": samples()} | SMALL | given)


def test_a_class_is_a_method_a_word_a_dtype_and_numpys_numbers_are_numbers():
    given = {"method": dsgt.DSGT, "dtype": "float64", "seed": np.int64(0), "lr": np.float32(0.5)}
    by_word = dsgt.fit(linear(), samples(), **SMALL | given)
    assert by_word.x.dtype == torch.float64
    given = {"method": "dsgt", "dtype": torch.float64, "seed": 0, "lr": 0.5}
    assert torch.equal(by_word.x, dsgt.fit(linear(), samples(), **SMALL | given).x)


def test_an_augmentation_that_loses_samples_is_named():
    with pytest.raises(ValueError, match="the augmentation 'three' makes 3 samples of "):
        dsgt.fit(linear(), samples(), **SMALL | {"augment": three})


def three(features: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return features[:3]
