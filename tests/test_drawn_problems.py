"""Data, models and problems of one's own that are drawn: the same numbers in every process, or refused."""

from __future__ import annotations

import pickle
import random
import sys
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import torch

import dsgt
from dsgt import factories
from dsgt.commands.train_job import prepare
from dsgt.comparison import Job, Settings
from dsgt.comparison.own import alike, sample_of
from dsgt.data import own
from dsgt.networks import Peers, in_threads
from dsgt.problems import named
from dsgt.randomness import all_seeded

CODE = """
import random
import threading

import numpy as np
import torch
from torch import nn

import dsgt


def table(order):
    x, y, order = torch.arange(120.0).view(40, 3) / 120, torch.arange(40) % 2, torch.as_tensor(order)
    return (x[order[:30]], y[order[:30]]), (x[order[30:]], y[order[30:]])


def by_torch():
    return table(torch.randperm(40))


def by_numpy():
    return table(np.random.permutation(40))


def by_python():
    return table(random.sample(range(40), 40))


def by_loading():  # a Dataset draws when it is read
    class Noisy(torch.utils.data.Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, i):
            return torch.rand(3), i % 2

    return Noisy(), None


def by_node(node):
    return table(torch.randperm(40))


def by_thread():
    return table(np.random.default_rng(threading.get_ident()).permutation(40))


def model():
    made = nn.Linear(3, 2)
    made.weight.data = torch.tensor(np.random.randn(2, 3) + random.random(), dtype=torch.float32)
    return made


def by_nobody():
    made = nn.Linear(3, 2)
    made.weight.data = torch.tensor(np.random.default_rng().normal(size=(2, 3)), dtype=torch.float32)
    return made


def problem(seed):
    (x, y), _ = table(np.random.permutation(40))
    shards = dsgt.data.partition.equal(y, 4, seed=seed)
    return dsgt.problems.Logistic((x, y), shards, dsgt.data.WithReplacement(batch=8))
"""
SMALL = {"methods": ["dsgt"], "nodes": 4, "graph": "ring", "batch": 8, "epochs": 1, "lrs": (0.1,), "seeds": 2}


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the module ``drawn``."""
    (tmp_path / "drawn.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "drawn", raising=False)
    yield tmp_path
    sys.modules.pop("drawn", None)
    factories._lookup.cache_clear()
    forget()


def forget() -> None:
    """As another process begins."""
    own.own_data.cache_clear()
    named.named_problem.cache_clear()


@pytest.mark.parametrize("name", ["by_torch", "by_numpy", "by_python", "by_loading", "by_node"])
def test_data_that_are_drawn_without_a_seed_are_the_same_in_every_process(drawn: Path, name: str):
    def load() -> list[torch.Tensor]:
        forget()
        found = own.own_data(factories.lookup(f"drawn:{name}", "data"), 2, torch.float32)
        return [t for s in found[:2] if s is not None for t in (s.features, s.targets)]

    first = load()
    torch.rand(3), np.random.rand(3), random.random()  # other processes have done other things
    assert all(map(torch.equal, first, load()))
    if name == "by_node":
        parts = first[0].view(2, 30, 3)
        assert not torch.equal(*parts), "node 0 and node 1 draw for themselves"
        alone = own.own_part(factories.lookup("drawn:by_node", "data"), 1, 2, torch.float32)
        assert torch.equal(alone[0].features, parts[1]), "as a real node does"


def test_a_persons_own_streams_are_afterwards_where_they_were_before():
    def states() -> tuple[object, ...]:
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()

    before = states()
    with all_seeded(7):
        found = [torch.rand(1).item(), np.random.rand(), random.random()]
        assert states() != before
    assert states() == before
    with all_seeded(7):
        assert found == [torch.rand(1).item(), np.random.rand(), random.random()]
    with all_seeded(8):
        others = [torch.rand(1).item(), np.random.rand(), random.random()]
    assert all(a != b for a, b in zip(found, others, strict=True))


@pytest.mark.parametrize("given", [{"model": "drawn:model"}, {"data": "drawn:by_numpy"}], ids=["model", "data"])
def test_two_processes_of_a_comparison_have_one_problem(drawn: Path, given: dict[str, str]):
    def start() -> torch.Tensor:
        forget()
        settings = Settings.of({"data": "drawn:by_torch", **SMALL, **given})
        return torch.stack([sample_of(settings.problem(seed), seed) for seed in (0, 1)])

    assert torch.equal(start(), start())
    assert not torch.equal(*start()), "every seed has other shards, and its own start"


def test_a_function_of_a_seed_draws_by_that_seed(drawn: Path):
    sys.path.insert(0, str(drawn))
    try:
        from drawn import problem
    finally:
        sys.path.remove(str(drawn))
    rest = {key: SMALL[key] for key in ("methods", "graph", "epochs", "lrs", "seeds")}
    settings = Settings.of({**rest, "problem": problem})
    first, again, other = (settings.problem(seed).data.features for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_model_that_nobody_can_seed_is_refused_in_this_process_and_in_a_worker(drawn: Path):
    settings = Settings.of({"data": "drawn:by_torch", "model": "drawn:by_nobody", **SMALL})
    settings.problem(0)
    settings.problem(0)  # the one that is known
    there = pickle.loads(cloudpickle.dumps(settings))
    forget()
    for one in (settings, there):
        with pytest.raises(ValueError, match="the model 'drawn:by_nobody' give other numbers each time"):
            one.problem(0)


def test_nodes_that_draw_other_data_refuse_each_other(drawn: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dsgt.comparison.settings.named_problem", named.named_problem.__wrapped__)
    monkeypatch.setattr(named, "own_data", own.own_data.__wrapped__)

    def act(name: str, network: Peers) -> str:
        settings = Settings.of({**SMALL, "data": f"drawn:{name}", "nodes": 2, "graph": "complete"})
        try:
            prepare(Job(settings, "dsgt", 0.1, 0), network, drawn / "out")
        except ValueError as error:
            return str(error)
        return "fine"

    W = dsgt.topologies.averaging(2)
    assert in_threads(W, lambda network: act("by_torch", network)) == ["fine"] * 2
    said = in_threads(W, lambda network: act("by_thread", network))
    assert all("nodes 0 and 1 have other samples, or another start of the model" in one for one in said)


def test_rounding_is_no_other_problem_and_another_order_is(drawn: Path):
    settings = Settings.of({**SMALL, "data": "drawn:by_torch"})
    sample = sample_of(settings.problem(0), 0)
    assert alike(sample, sample * (1 + 1e-5))
    assert not alike(sample, sample_of(settings.problem(1), 1))


def test_what_a_script_says_of_dsgt_travels_to_other_processes():
    """A function of a script goes there by value, with the globals that it names."""
    assert pickle.loads(cloudpickle.dumps(dsgt)) is dsgt
    space: dict[str, object] = {"__name__": "__main__"}
    exec("import dsgt\ndef version():\n    return dsgt.__version__\n", space)
    assert pickle.loads(cloudpickle.dumps(space["version"]))() == dsgt.__version__  # type: ignore[operator]
