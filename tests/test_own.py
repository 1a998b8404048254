"""Your own method, model, data and problem, by ``module:name`` and as objects, wherever a built-in name may stand."""

from __future__ import annotations

import inspect
import json
import math
import os
import runpy
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import dsgt
from dsgt import factories, metrics, networks, topologies
from dsgt.cli import app
from dsgt.comparison import Job
from dsgt.comparison.settings import _problem_text
from dsgt.problems import named
from dsgt.report import page
from dsgt.source import source
from support.launch import HANGING, TESTS, environment, launch

CODE = """
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

import dsgt
from dsgt.core import parameter


@dataclass(frozen=True)
class Slow(dsgt.DPSGD):
    share: float = parameter(0.5, "of the learning rate", least=0)

    def update(self, s, g, mix, lr):
        return super().update(s, g, mix, self.share * lr)


quick = Slow(share=1.0)


class Silent(dsgt.Algorithm):
    def init(self, x, mix): ...
    def update(self, s, g, mix, lr): ...


def small(width=4, seed=None):
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))


class Written(dsgt.DPSGD):
    def update(self, s, g, mix, lr):
        s.x.sub_(lr * g)
        return s


class Counts(dsgt.DPSGD):
    def __init__(self):
        self.k = 0

    def update(self, s, g, mix, lr):
        self.k += 1
        return super().update(s, g, mix, lr / self.k)


class Old(dsgt.DPSGD):
    def init(self, x, g, mix, lr): ...


class Flat(dsgt.DPSGD):
    def update(self, s, g, mix, lr):
        return s._replace(x=s.x.mean(dim=0))


class Bare(dsgt.DPSGD):
    def init(self, x, mix):
        return x


class Wide(dsgt.DSGT):
    def update(self, s, g, mix, lr):
        return super().update(s, g.double(), mix, lr)


class Grown(dsgt.DSGT):
    def update(self, s, g, mix, lr):
        new = super().update(s, g, mix, lr)
        return new._replace(g=new.g[:, :2])


class Cast(dsgt.DSGT):
    def update(self, s, g, mix, lr):
        new = super().update(s, g, mix, lr)
        return new._replace(g=new.g.double())


class Halves(dsgt.DSGT):
    def update(self, s, g, mix, lr):
        g.mul_(0.5)
        return super().update(s, g, mix, lr)


class Absent(dsgt.DSGT):
    def update(self, s, g, mix, lr):
        return super().update(s, g * float("nan"), mix, lr)


class Number(dsgt.DPSGD):
    def init(self, x, mix):
        return NumberState(x, 0)


class NumberState(NamedTuple):
    x: torch.Tensor
    k: int


@dataclass(frozen=True)
class rocket(dsgt.DSGT):
    beta: float = 0.5


def not_finite():
    module = nn.Linear(3, 2)
    nn.init.constant_(module.bias, float("nan"))
    return module


class Logarithm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return (self.layer(x) - 1e9).log()


def ends():
    raise SystemExit(3)


def halved(features, generator):
    return features[:, :2]


def lists():
    return ([[1.0], [2.0]], [0, 1]), None


def single():
    (x, y), test = load()
    return (x, 0 * y), test


def columns():
    (x, y), test = load()
    return (x, y[:, None]), None


def real_classes():
    (x, y), test = load()
    return (x, y.float()), None


def labels(kind):
    (x, y), (u, v) = load()
    kind = getattr(torch, kind)
    return (x, y.to(kind)), (u.numpy(), v.to(kind).numpy())


def half_real(node):
    (x, y), test = load()
    return (x, y.float() if node == 3 else y), test


def narrow():
    return nn.Linear(2, 2)


def wide64():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def convolution():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 10))


def lazy():
    return nn.LazyLinear(2)


def frozen():
    return nn.Linear(3, 2).requires_grad_(False)


def arrays():
    (x, y), (u, v) = load()
    return (x.numpy(), y.numpy()), [u.numpy(), v.numpy()]


def alike(node):
    return (torch.ones(5, 3), torch.arange(5) % 2), None


def pair():
    return torch.zeros(8, 3), torch.zeros(8)


def nothing():
    return None


def deep(depth):
    return nn.Linear(3, depth)


def broken():
    raise RuntimeError("no such disk")


def load(samples=40):
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(samples + 20, 3, generator=draw)
    labels = (features.sum(dim=1) > 0).long()
    return (features[20:], labels[20:]), (features[:20], labels[:20])


def site(node, nodes):
    (features, labels), test = load()
    mine = slice(node * 40 // nodes, (node + 1) * 40 // nodes)
    return (features[mine], labels[mine]), test


def values():
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(40, 3, generator=draw)
    return (features, features.sum(dim=1)), None


def line():
    return nn.Linear(3, 1)


loaded = []


def uneven(node, nodes):
    # 4, 8, 12, ... samples; the last node alone knows of the third class
    loaded.append(node)
    draw = torch.Generator().manual_seed(node)
    features = torch.randn(4 * (node + 1), 3, generator=draw, dtype=torch.float64)
    labels = torch.arange(len(features)) % (3 if node == nodes - 1 else 2)
    return (features, labels), (features[:3], labels[:3])


def lacking(node, nodes):
    train, test = uneven(node, nodes)
    if node == 2:
        raise OSError("the disk of this site is gone")
    return train, test


def untested(node, nodes):
    train, test = uneven(node, nodes)
    return train, None if node == 1 else test


def three():
    return 1, 2, 3


def words():
    return ("a", "b"), None


def by_turns(targets, nodes, first=0):
    return [list(range((first + node) % nodes, len(targets), nodes)) for node in range(nodes)]


def drawn(targets, nodes, seed):
    return torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed)).view(nodes, -1)


fixed = [list(range(30)), *([30 + k] for k in range(9)), [39]]
owners = torch.arange(40) % 4


def twice(nodes):
    return [[0, 1], [1, 2], [3], [4]]


def beyond(nodes):
    return [[0], [1], [2], range(3, 41)]


def hollow(nodes):
    return [range(38), [38], [39], []]


def masks(targets):
    return [torch.arange(len(targets)) % 4 == node for node in range(4)]


def shares(nodes):
    return [[0], [1], [2], [0.25]]


def lacking_some(targets, nodes):
    return torch.arange(len(targets) - nodes).view(nodes, -1)


def unsteady(targets, nodes):
    import numpy as np

    return np.random.default_rng().permutation(len(targets)).reshape(nodes, -1)


def chords(nodes, jump=1):
    import networkx as nx

    return nx.circulant_graph(nodes, [1, 1 + jump])


def short(nodes):
    import networkx as nx

    return nx.path_graph(nodes - 1)


def lettered():
    import networkx as nx

    return nx.Graph(["ab", "bc", "cd"])


def islands(nodes):
    import networkx as nx

    return nx.empty_graph(nodes)


times = []


def unsteady_graph(nodes):
    import networkx as nx

    times.append(nodes)
    return nx.path_graph(nodes) if len(times) % 2 else nx.cycle_graph(nodes)


def halving(share, power=1):
    return 0.5 ** (power * share)


def to_zero(share):
    return max(0.0, 1 - 2 * share)


def a_word(share):
    return "half"


def by_round():
    return 1.0
"""
LOADED = ["dsgt", "--data", "mine:load", "--batch", "8"]
FLAGS = ["--nodes", "4", "--graph", "ring", "--epochs", "1", "--batch", "8", "--lr", "0.1", "--seeds", "1"]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a module ``mine`` that is not on Python's path."""
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "falls.py").write_text("1 / 0\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    for name in ("mine", "falls", "leaves"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield tmp_path
    sys.modules.pop("mine", None)
    factories._lookup.cache_clear()
    named.named_problem.cache_clear()
    topologies.usable.known.clear()


def command(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, " ".join(done.output.split())


def test_own_method_model_and_data_stand_where_built_in_names_may(mine: Path):
    words = ["mine:Slow", "mine:Slow:share=0.25", "mine:quick", "dpsgd", "--model", "mine:small:width=5", *FLAGS]
    code, says = command("compare", *words, "--data", "mine:load:samples=48", "--workers", "1", "--out", "out")
    assert code == 0, says
    rows = [json.loads(line) for line in Path("out/rows.jsonl").read_text().splitlines()]
    ends = {row["method"]: row for row in rows}
    assert list(ends) == ["mine:Slow", "mine:Slow:share=0.25", "mine:quick", "dpsgd"]
    assert ends["mine:quick"]["loss"] == ends["dpsgd"]["loss"]
    assert len({row["loss"] for row in ends.values()}) == 3
    assert "accuracy" in ends["dpsgd"]
    assert "…" not in says, "a long name is folded; no number is cut"
    html = Path("out/report.html").read_text()
    assert "dsgt compare mine:Slow mine:Slow:share=0.25 mine:quick dpsgd --data mine:load:samples=48" in html
    code, says = command("compare", "--config", "out/settings.toml", "--workers", "1", "--out", "out")
    assert code == 0, says
    assert "16" not in says.split("runs done")[0].split()[-3:]  # nothing is run again


def test_train_takes_them_too(mine: Path):
    words = ["--model", "mine:small", "--data", "mine:load", "--nodes", "4", "--graph", "ring", "--batch", "8"]
    code, says = command("train", "mine:Slow", *words, "--epochs", "1", "--out", "out")
    assert code == 0, says
    assert json.loads(Path("out/settings.json").read_text())["method"] == "mine:Slow"


OWN = ["--data", "mine:load", "--batch", "8", "--partition", "mine:by_turns", "--graph", "mine:chords"]
OWN += ["--schedule", "mine:halving:power=2"]


@pytest.mark.parametrize("verb", ["compare", "train"])
def test_own_shards_graph_and_schedule_stand_where_built_in_names_may(mine: Path, verb: str):
    words = ["--nodes", "5", "--epochs", "1", "--lr", "0.1"]
    words += ["--seeds", "1", "--workers", "1"] if verb == "compare" else []
    code, says = command(verb, "dsgt", *OWN, *words, "--out", "out")
    assert code == 0, says
    assert "mine:by_turns" in says
    settings = dsgt.Settings(**{key.removeprefix("--"): v for key, v in zip(OWN[::2], OWN[1::2], strict=True)}, nodes=5)
    problem = settings.problem(0)
    assert [part.tolist() for part in problem.shards] == [list(range(node, 40, 5)) for node in range(5)]
    W, _ = settings.weights_for("dsgt")
    expected = topologies.metropolis(topologies.complete(5))
    assert np.array_equal(W.at(0).toarray() if hasattr(W.at(0), "toarray") else W.at(0), expected)
    assert settings.rate(0.8, 10)(5) == pytest.approx(0.4)
    rounds = settings.rounds(problem, "dsgt") // 20
    run = dsgt.run(
        dsgt.DSGT(), problem, expected, rounds=rounds, lr=lambda k: 0.1 * 0.25 ** (k / rounds), every=rounds,
    )  # fmt: skip
    rows = [json.loads(line) for line in Path("out/rows.jsonl").read_text().splitlines()]
    assert rows[-1]["loss"] == pytest.approx(run.rows[-1]["loss"], rel=1e-6)  # float32


def test_shards_of_ones_own_are_drawn_with_the_seed_of_the_run(mine: Path):
    settings = dsgt.Settings(data="mine:load", partition="mine:drawn", nodes=4, graph="ring", batch=8)
    first, second = (settings.problem(seed).shards.order for seed in (0, 1))
    assert not torch.equal(first, second)
    assert torch.equal(settings.problem(0).shards.order, first)


def test_a_run_is_done_again_when_the_text_of_ones_own_shards_graph_or_schedule_changes(mine: Path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be taken for that of the next text

    def key(setting: str, word: str, old: str = "", new: str = "") -> dict[str, object]:
        """As another process would know it that finds this text."""
        assert old in CODE
        (mine / "mine.py").write_text(CODE.replace(old, new) if old else CODE)
        sys.modules.pop("mine", None)
        for cache in (factories._lookup, named.named_problem, _problem_text):
            cache.cache_clear()
        topologies.usable.known.clear()
        given = {"nodes": 5, "batch": 8, "lrs": (0.1,), "graph": "ring", "partition": "equal"} | {setting: word}
        return Job(dsgt.Settings(**given), "dsgt", 0.1, 0).key

    for setting, word, old, new in (
        ("partition", "mine:by_turns", "(first + node) % nodes", "(first + node + 1) % nodes"),
        ("graph", "mine:chords", "[1, 1 + jump]", "[1]"),
        ("schedule", "mine:halving", "0.5 ** (power", "0.4 ** (power"),
    ):
        assert key(setting, word) == key(setting, word), setting
        assert key(setting, word) != key(setting, word, old, new), setting
    words = "graph", "mine:chords", "[1, 1 + jump]"
    assert key(*words, "[1]") == key(*words, "[jump]"), "the weights say all of a graph"


def test_a_model_of_ones_own_starts_from_the_seed_and_leaves_the_global_numbers_alone(mine: Path):
    settings = dsgt.Settings(model="mine:small", data="mine:load", nodes=4, graph="ring", batch=8)
    before = torch.get_rng_state()
    first, second = (settings.problem(seed).start(seed) for seed in (0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(first, second)
    assert torch.equal(settings.problem(0).start(0), first)


def test_arrays_are_as_good_as_tensors(mine: Path):
    given = {"nodes": 4, "graph": "ring", "batch": 8}
    one, two = (dsgt.Settings(data=f"mine:{name}", **given).problem(0) for name in ("load", "arrays"))
    assert torch.equal(one.data.features, two.data.features)
    assert torch.equal(one.test.targets, two.test.targets)


@pytest.mark.parametrize("model", ["logistic", "mine:small"])
@pytest.mark.parametrize("kind", ["uint8", "int32", "bool"])
def test_labels_of_any_whole_type_are_classes(mine: Path, kind: str, model: str):
    given = {"nodes": 4, "graph": "ring", "batch": 8, "model": model}
    one, two = (dsgt.Settings(data=f"mine:{d}", **given).problem(0) for d in ("load", f"labels:kind={kind}"))
    x = torch.zeros(4, one.dim)
    assert torch.equal(one.oracle(0)(x, 0), two.oracle(0)(x, 0))
    assert torch.equal(one.accuracy(x), two.accuracy(x))
    assert two.test.targets.dtype == torch.int64


def test_a_name_has_no_emoji_codes(mine: Path):
    code, says = command("train", "mine:rocket:beta=0.3", "--data", "mine:load", *FLAGS[:-2], "--out", "out")
    assert code == 0, says
    assert "mine:rocket:beta=0.3, metropolis weights" in says
    assert "\N{ROCKET}" not in says


def test_nodes_with_the_same_samples_each_hold_them(mine: Path):
    problem = dsgt.Settings(data="mine:alike", nodes=4, graph="ring", batch=8).problem(0)
    assert (len(problem.data), problem.shards.sizes.tolist()) == (20, [5] * 4)


def test_the_digits_are_images_to_a_model_that_takes_nothing_else(mine: Path):
    shapes = {m: dsgt.Settings(model=f"mine:{m}").problem(0).data.features.shape[1:] for m in ("convolution", "wide64")}
    assert shapes == {"convolution": (1, 8, 8), "wide64": (64,)}


def test_data_that_takes_a_node_is_asked_node_by_node(mine: Path):
    settings = dsgt.Settings(data="mine:site", nodes=4, graph="ring", batch=8)
    problem = settings.problem(0)
    assert problem.shards.sizes.tolist() == [10] * 4
    assert len(problem.test) == 20, "the same test set at every node counts once"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere:Method"], "the method 'nowhere:Method' cannot be imported: there is no module 'nowhere', neither"),
        (["falls:Method"], "the method 'falls:Method' cannot be imported: ZeroDivisionError: division by zero"),
        (["mine:Slwo"], "the method 'mine:Slwo' cannot be imported: mine has no 'Slwo'; did you mean 'Slow'?"),
        (["mine:small"], "the method 'mine:small' gives a Sequential; expected Algorithm"),
        (["mine:Silent"], "the method 'mine:Silent' does not say what it sends"),
        (["mine:Slow:share"], "'share' in 'mine:Slow:share' is not key=value"),
        (["mine:Slow:share=1,share=2"], "share is given twice"),
        (["mine:Slow:share=-1"], "the method 'mine:Slow:share=-1' failed: share of Slow is -1"),
        (["mine:Slow:pace=1"], "cannot be called: got an unexpected keyword argument 'pace'; mine:Slow takes share"),
        (["mine:Slow:shar=1"], "did you mean 'share'? mine:Slow takes share"),
        (["mine:quick:share=1"], "the method 'mine:quick:share=1' is an object and takes no arguments"),
        (["dsgt", "--model", "mine:nothing"], "the model 'mine:nothing' gives a NoneType; expected Module"),
        (["dsgt", "--model", "mine:deep"], "'mine:deep' cannot be called: missing a required argument: 'depth'"),
        (["dsgt", "--model", "mine:broken"], "the model 'mine:broken' failed: RuntimeError: no such disk"),
        (["mine.py:Slow"], "a module is named without its ending: mine:Slow"),
        (["mine:Old"], "the method 'mine:Old' failed in init: TypeError: Old.init() missing 2 required"),
        (["mine:Bare"], "the method 'mine:Bare' gives a Tensor in init; expected init(self, x, mix) and update("),
        (["mine:Flat"], "'mine:Flat' gives in update is torch.float64 (5,), but the models are torch.float64 (4, 5)"),
        (["mine:Counts"], "'mine:Counts' changes its own attributes in init or update, but one object serves"),
        (["mine:Written"], "update of the method 'mine:Written' writes into its arguments (s.x), which are used again"),
        (["mine:Halves"], "update of the method 'mine:Halves' writes into its arguments (g), which are used again"),
        (["mine:Absent"], "the method 'mine:Absent' gives an x that is not finite (NaN or infinite) in update"),
        (["mine:Wide"], "in update is torch.float64 (4, 5), but the models are torch.float32 (4, 5)"),
        (["mine:Cast"], "'mine:Cast' makes g of the state torch.float64 (4, 5), but it was torch.float32 (4, 5)"),
        (["mine:Grown"], "'mine:Grown' makes g of the state torch.float64 (4, 2), but it was torch.float64 (4, 5)"),
        (["mine:Number"], "the state that the method 'mine:Number' gives in init holds k (int); a state is made of"),
        (["leaves:Method"], "the method 'leaves:Method' cannot be imported: SystemExit: 3; put what a script does"),
        (["dsgt", "--model", "mine:ends"], "the model 'mine:ends' failed: SystemExit: 3"),
        (["dsgt", "--model", "mine:not_finite", "--data", "mine:load", "--batch", "8"],
         "the model 'mine:not_finite' cannot be trained on these samples: bias of Linear holds numbers that are not"),
        (["dsgt", "--model", "mine:Logarithm", "--data", "mine:load", "--batch", "8"],
         "'mine:Logarithm' cannot be trained on these samples: the outputs of Logarithm are not finite (NaN)"),
        (["dsgt", "--model", "mine:small", "--data", "mine:load", "--batch", "8", "--augment", "flip"],
         "the augmentation 'flip' cannot take a batch of shape (2, 3) and a generator: ValueError: flip is for images"),
        (["dsgt", "--model", "mine:small", "--data", "mine:load", "--batch", "8", "--augment", "mine:halved"],
         "the augmentation 'halved' makes a batch of shape (2, 3) one of (2, 2), which the module or the loss cannot"),
        (["dsgt", "--data", "mine:lists"], "the features are a list; give a tensor or a numpy array"),
        (["dsgt", "--data", "mine:single", "--batch", "8"], "all training samples have the label 0, and nothing can"),
        (["dsgt", "--data", "mine:columns", "--batch", "8"], "but the targets have the shape (40, 1); give one whole"),
        (["dsgt", "--data", "mine:real_classes", "--model", "mine:small", "--partition", "equal", "--batch", "8"],
         "the outputs are (2, 2) and the targets torch.float32 (2,), but the squared error of real targets needs"),
        (["dsgt", "--data", "mine:lacking"], "node 2: the data 'mine:lacking' failed: OSError: the disk"),
        (["dsgt", "--data", "mine:untested"], "node 1 has no test samples, but others have; give all some, or none"),
        (["dsgt", "--data", "mine:half_real"], "node 3 has real targets, but node 0 has classes (whole numbers); give"),
        (["dsgt", "--config", "nowhere.toml"], "there is no file of settings nowhere.toml; give the path of a TOML"),
        (["dsgt", "--model", "mine:narrow", "--data", "mine:load", "--batch", "8"],
         "the model 'mine:narrow' cannot be trained on these samples: the module or the loss cannot take samples of"),
        (["dsgt", "--model", "mine:lazy", "--data", "mine:load", "--batch", "8"],
         "the model 'mine:lazy' cannot be trained on these samples: LazyLinear has lazy layers, whose parameters have"),
        (["dsgt", "--model", "mine:frozen", "--data", "mine:load", "--batch", "8"],
         "the model 'mine:frozen' cannot be trained on these samples: Linear has no parameter that requires"),
        (["dsgt", "--data", "mine:pair"], "the data 'mine:pair' gives one pair of tensors; expected (train, test)"),
        (["dsgt", "--data", "mine:values", "--model", "mine:line"],
         "partition is 'dirichlet:0.3', which spreads classes unevenly, but the targets are real numbers; give equal"),
        (["dsgt", "--data", "mine:three"], "the data 'mine:three' gives 3 things; expected (train, test)"),
        (["dsgt", "--data", "mine:words"], "the training data of 'mine:words' cannot be used"),
        (["dsgt", "--data", "mine:nothing"], "the data 'mine:nothing' gives a NoneType; expected tuple"),
        (["dsgt", "--data", "mine:load", "--model", "lenet"], "lenet needs square images"),
        ([*LOADED, "--partition", "mine:by_turn"], "the partition 'mine:by_turn' cannot be imported: mine has no"),
        ([*LOADED, "--partition", "equl"], "expected equal, dirichlet:ALPHA, labels:COUNT or groups; or your own, mod"),
        ([*LOADED, "--partition", "mine:by_turns:frist=1"], "did you mean 'first'? mine:by_turns takes first"),
        ([*LOADED, "--partition", "mine:deep"],
         "give arguments as in mine:deep:key=value; by itself it is told targets, nodes, seed, where it has arguments"),
        ([*LOADED, "--partition", "mine:broken"], "the partition 'mine:broken' failed: RuntimeError: no such disk"),
        ([*LOADED, "--partition", "mine:nothing"], "the partition 'mine:nothing' gives a NoneType; expected Shards"),
        ([*LOADED, "--partition", "mine:fixed"], "it gives the samples of 11 nodes, but there are 4; give one list"),
        ([*LOADED, "--partition", "mine:owners"], "it gives the samples of 40 nodes, but there are 4; give one list"),
        ([*LOADED, "--partition", "mine:twice"], "the partition 'mine:twice' cannot be used: sample 1 is in 2 shards"),
        ([*LOADED, "--partition", "mine:beyond"], "'mine:beyond' cannot be used: it shares out 41 samples, but"),
        ([*LOADED, "--partition", "mine:hollow"], "'mine:hollow' cannot be used: every node needs at least one sample"),
        ([*LOADED, "--partition", "mine:lacking_some"], "it shares out 36 samples, but there are 40; leave samples"),
        ([*LOADED, "--partition", "mine:masks"], "the samples of node 0 are torch.bool; give their numbers, as in"),
        ([*LOADED, "--partition", "mine:shares"], "the samples of node 3 are torch.float64; give their numbers"),
        ([*LOADED, "--partition", "mine:unsteady"], "gives other shards whenever it is called; draw them from its"),
        ([*LOADED, "--graph", "mine:nothing"], "the graph 'mine:nothing' gives a NoneType; expected Graph"),
        ([*LOADED, "--graph", "mine:short"], "the graph 'mine:short' has 3 nodes, but 4 were asked for; use 3"),
        ([*LOADED, "--graph", "mine:lettered"], "'mine:lettered' cannot be used: dsgt was given a graph with a node"),
        ([*LOADED, "--graph", "mine:islands"], "was given a graph that is not connected: no path joins node 0 and"),
        ([*LOADED, "--graph", "mine:unsteady_graph"], "has other links whenever it is made; draw them from its"),
        ([*LOADED, "--graph", "mine:chord"], "the graph 'mine:chord' cannot be imported: mine has no 'chord'; did you"),
        ([*LOADED, "--graph", "rng"], "did you mean 'ring'"),
        ([*LOADED, "--schedule", "mine:to_zero"], "'mine:to_zero' gives 0.0 where 0.5 of the run is done; expected a"),
        ([*LOADED, "--schedule", "mine:a_word"], "the schedule 'mine:a_word' gives a str; expected a function of the"),
        ([*LOADED, "--schedule", "mine:by_round"], "the schedule 'mine:by_round' cannot be called: too many"),
        ([*LOADED, "--schedule", "mine:halving:pwr=2"], "did you mean 'power'? mine:halving takes power"),
        ([*LOADED, "--schedule", "mine:owners"], "the schedule 'mine:owners' is a Tensor; expected a function"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["compare", "train"])
def test_what_cannot_be_used_is_named_in_one_sentence_before_any_run(
    mine: Path, monkeypatch: pytest.MonkeyPatch, verb: str, words: list[str], message: str
):
    monkeypatch.setattr("dsgt.comparison.job.run", None)  # a run would fail otherwise
    monkeypatch.setattr("dsgt.commands.train.run", None)
    words = words if "--graph" in words else [*words, "--graph", "ring"]
    code, says = command(verb, *words, "--nodes", "4", "--out", "out")
    assert code == 2, says
    assert message in says
    assert says.count("error:") == 1
    assert not Path("out").exists() or not list(Path("out").iterdir())


def test_real_targets_are_learnt_with_squared_errors_and_have_no_accuracy(mine: Path):
    words = ["--model", "mine:line", "--data", "mine:values", "--partition", "equal", *FLAGS]
    code, says = command("compare", "dsgt", *words, "--workers", "1", "--out", "out")
    assert code == 0, says
    rows = [json.loads(line) for line in Path("out/rows.jsonl").read_text().splitlines()]
    assert "accuracy" not in rows[-1]
    assert rows[-1]["loss"] < rows[0]["loss"]
    code, says = command("compare", "dsgt", "--data", "mine:values", "--partition", "equal", *FLAGS)
    assert code == 2
    assert "logistic tells classes apart, but the targets are torch.float32 of shape (40,)" in says


# Real nodes that load their own part


def on_nodes(act):
    return networks.in_threads(topologies.metropolis(topologies.ring(4)), act)


@pytest.mark.parametrize("model", ["logistic", "mine:wide"])
def test_a_real_node_loads_its_own_part_only_and_gives_the_simulators_numbers(mine: Path, model: str):
    with Path("mine.py").open("a") as file:
        file.write("\n\ndef wide():\n    return nn.Linear(3, 3)\n")
    given = {"batch": 13, "seed": 1, "dtype": torch.float64}
    # not those of each node's model: Python 3.11 lets one thread of a process at a time compute a cached property
    seen = {"loss": metrics.loss, "accuracy": metrics.accuracy, "slope": metrics.gradient_norm}
    options = {"rounds": 6, "every": 3, "lr": 0.1, "seed": 1, "metrics": seen}
    W = topologies.metropolis(topologies.ring(4))
    whole = named.named_problem("mine:uneven", model, nodes=4, partition="own", **given)
    expected = dsgt.run(dsgt.DSGT(), whole, W, **options)
    loaded = sys.modules["mine"].loaded
    loaded.clear()
    found = on_nodes(
        lambda network: dsgt.run(
            dsgt.DSGT(), named.spread_problem("mine:uneven", model, network, **given), network, **options
        )
    )
    assert sorted(loaded) == [0, 1, 2, 3]
    for rows in (one.rows for one in found):
        for a, b in zip(rows, expected.rows, strict=True):
            # double precision; sums over the nodes in another order
            assert list(a.values()) == pytest.approx(list(b.values()), rel=1e-9)


@pytest.mark.parametrize("data", ["uneven", "one_test"])
@pytest.mark.parametrize("count", [1, 6, 25, 10_000])
def test_nodes_that_load_their_parts_measure_on_the_samples_that_the_simulator_draws(mine: Path, data: str, count: int):
    """Of one sample, or six, some nodes have none."""
    with Path("mine.py").open("a") as file:
        file.write("\n\ndef one_test(node, nodes):\n    return uneven(node, nodes)[0], uneven(3, nodes)[0]\n")
    settings = dsgt.Settings(
        data=f"mine:{data}", nodes=4, graph="ring", batch=13, eval_samples=count, dtype="float64", weight_decay=0.1
    )
    whole = settings.problem(0)
    x = torch.randn(whole.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = [float(whole.loss(x)), float(whole.accuracy(x))]

    def measured(network) -> list[float]:
        part = settings.problem_at(0, network)
        return [float(part.loss(x)), float(part.accuracy(x))]

    for found in on_nodes(measured):
        assert found == pytest.approx(expected, rel=1e-12)


def test_a_node_that_cannot_load_its_part_is_named_at_every_node(mine: Path):
    settings = dsgt.Settings(data="mine:lacking", nodes=4, graph="ring", batch=8)

    def said(network) -> str:
        with pytest.raises(ValueError, match="node 2: the data 'mine:lacking' failed: OSError: the disk") as error:
            settings.problem_at(0, network)
        return str(error.value)

    assert len(set(on_nodes(said))) == 1

    def untested(network) -> None:
        with pytest.raises(ValueError, match="node 1 has no test samples, but others have"):
            named.spread_problem("mine:untested", "logistic", network, batch=8, seed=0)

    on_nodes(untested)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("alone", "all training samples have the label 1, and nothing can be learned from one class"),
        ("narrow", r"gives node 0 samples of features \(3,\) and targets \(\), but node 2 of features \(2,\) and"),
        ("half_real", r"node 3 has real targets, but node 0 has classes \(whole numbers\); give the same kind"),
    ],
)
def test_the_parts_of_real_nodes_are_judged_together(mine: Path, data: str, words: str):
    with Path("mine.py").open("a") as file:
        file.write("\n\ndef alone(node):\n    return (torch.randn(6, 3), torch.ones(6).long()), None\n")
        file.write("\n\ndef narrow(node):\n    return (torch.randn(6, 3)[:, node // 2 :], torch.arange(6) % 2), None\n")

    def refused(network) -> None:
        with pytest.raises(ValueError, match=words):
            named.spread_problem(f"mine:{data}", "mine:small", network, batch=8, seed=0)

    on_nodes(refused)


def test_a_checkpoint_knows_the_parts_of_all_nodes(mine: Path):
    def prints(network) -> list[float]:
        return named.spread_problem("mine:uneven", "logistic", network, batch=8, seed=0).identity()["parts"].tolist()

    first, *others = on_nodes(prints)
    assert all(other == first for other in others)
    assert len(set(first)) == 4


def test_data_that_are_loaded_node_by_node_are_not_partitioned_again(mine: Path):
    assert dsgt.Settings(data="mine:site").partition == "own"
    assert dsgt.Settings(data="mine:load").partition == "dirichlet:0.3"
    code, says = command("train", "dsgt", "--data", "mine:site", "--partition", "equal", "--nodes", "4")
    assert code == 2
    assert "the data 'mine:site' are loaded node by node, so partition = equal has no meaning; leave it out" in says


@pytest.mark.slow
def test_train_under_torchrun_loads_parts_and_gives_the_numbers_of_the_simulator(mine: Path, monkeypatch):
    with Path("mine.py").open("a") as file:
        file.write("\n\ndef noted(node, nodes):\n    with open(f'asked-{node}-{nodes}', 'a') as f:\n")
        file.write("        f.write('x')\n")
        file.write("    return site(node, nodes)\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(mine), os.environ.get("PYTHONPATH", "")]))
    flags = ["dsgt", "--data", "mine:noted", "--batch", "8", "--epochs", "2", "--lr", "0.1"]
    done = launch("torch", 2, str(TESTS / "workers" / "train_worker.py"), "train", *flags, "--out", "real")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name: path.read_text() for path in Path().glob("asked-*")} == {"asked-0-2": "x", "asked-1-2": "x"}
    code, says = command("train", *flags, "--dtype", "float64", "--nodes", "2", "--out", "simulated")
    assert code == 0, says
    keys = ("loss", "accuracy", "megabytes")
    texts = [Path(folder, "rows.jsonl").read_text().splitlines() for folder in ("real", "simulated")]
    for a, b in zip(*([json.loads(line) for line in text] for text in texts), strict=True):
        # double precision; sums over the nodes in another order
        assert a.keys() == b.keys()
        assert [a[k] for k in keys if k in a] == pytest.approx([b[k] for k in keys if k in b], rel=1e-10)


# Objects


class Halved(dsgt.DPSGD):
    def update(self, s, g, mix, lr):
        return super().update(s, g, mix, lr / 2)


def quadratic(seed: int) -> dsgt.problems.LeastSquares:
    draw = torch.Generator().manual_seed(seed)
    features = torch.randn(24, 2, generator=draw, dtype=torch.float64)
    data = (features, features.sum(dim=1) + 1)
    return dsgt.problems.LeastSquares(
        data, dsgt.data.partition.equal(dsgt.data.Samples(*data), 4, seed=seed), dsgt.data.WithReplacement(batch=8)
    )


RING = dsgt.topologies.metropolis(dsgt.topologies.ring(4))
SMALL = {"lrs": (0.05, 0.1), "grow": 0, "tuning_seeds": 1, "seeds": 1, "epochs": 2, "workers": 1}


def test_a_loss_that_begins_large_has_not_diverged():
    """Targets of some hundreds, as prices are: a diverged run is far above its own start."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(300, 5, generator=draw)
    prices = 300 + 30 * x[:, :1]
    line = torch.nn.Linear(5, 1)
    found = dsgt.compare(
        methods=["dsgt", "gnsd"], model=line, data=((x[:240], prices[:240]), (x[240:], prices[240:])), nodes=4,
        graph="ring", partition="equal", batch=32, epochs=3, seeds=1, lrs=(0.05, 50.0), grow=0, tuning_seeds=1,
        workers=1,
    )  # fmt: skip
    for name in ("dsgt", "gnsd"):
        assert found.best(name)[0][0]["loss"] > 50_000
        assert found.best_lr(name) == 0.05
        assert found.best(name)[0][-1]["loss"] < 5_000
        gone = found.runs[name, 50.0]
        assert all(rows[-1]["diverged"] for rows in gone.values())


def test_objects_stand_for_names_in_python(tmp_path: Path):
    methods = [dsgt.DSGT(), Halved(), "sgd"]
    found = dsgt.compare(problem=quadratic(0), methods=methods, weights=RING, **SMALL, folder=tmp_path)
    assert list(found.table().index) == ["dsgt", "Halved", "sgd"]
    assert list(found.table().weights) == ["given", "given", "all"]
    assert found.settings.nodes == 4
    html = page(found)
    assert "made from objects in Python" in html
    dsgt.report.save(found, tmp_path)
    assert not (tmp_path / "settings.toml").exists()


def test_a_function_of_the_seed_gives_each_seed_a_problem_of_its_own():
    found = dsgt.compare(problem=quadratic, methods=[dsgt.SGD()], graph="ring", **SMALL | {"seeds": 2})
    starts = [rows[0]["loss"] for rows in found.best("sgd")]
    assert starts == [float(quadratic(seed).loss(quadratic(seed).start(seed))) for seed in (0, 1)]


def test_a_module_and_tensors_are_partitioned_like_named_ones():
    train, test = dsgt.data.digits()
    module = torch.nn.Linear(64, 10)
    given = {"nodes": 4, "graph": "ring", "partition": "dirichlet:0.5"}
    found = dsgt.compare(methods="dsgt", model=module, data=(train, test), **given, **SMALL)
    assert found.best("dsgt")[0][-1]["accuracy"] > 0
    problem, named = found.settings.problem(0), dsgt.Settings(**given).problem(0)
    assert torch.equal(problem.shards.order, named.shards.order)


def test_shards_a_graph_and_a_schedule_are_objects_too(tmp_path: Path):
    train = dsgt.data.digits()[0].chosen(torch.arange(200))
    ring, parts = topologies.ring(4), [range(k, 200, 4) for k in range(4)]
    given = {"methods": "dsgt", "data": (train, None), "nodes": 4, "batch": 16} | SMALL | {"lrs": (0.1,)}
    words = dsgt.compare(**given, partition=lambda targets, nodes: parts, graph="ring")
    own = dsgt.compare(**given, partition=dsgt.data.Shards.of(parts), graph=ring)
    assert own.rows == words.rows
    assert own.settings.partition == own.settings.graph == "given"
    assert {*own.settings.graph_drawn().edges} == {*ring.edges}

    def rows(power: float) -> tuple[int, list]:
        done: set[Job] = set()
        found = dsgt.compare(
            **given, partition=lambda targets, nodes: parts, graph=lambda nodes: ring,
            schedule=partial(scaled, power=power), folder=tmp_path, watch=lambda news: done.add(news.job),
        )  # fmt: skip
        return len(done), found.rows

    assert rows(0.0) == (1, words.rows)
    assert rows(0.0)[0] == 0
    assert rows(1.0)[0] == 1, "what a function was made with counts too"


def scaled(share: float, power: float) -> float:
    return 0.5 ** (power * share)


def test_finished_runs_of_objects_are_known_by_text_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def runs(**given: object) -> int:
        jobs: set[Job] = set()
        settings = {"problem": quadratic(0), "methods": [Halved()], "graph": "ring"} | SMALL | given
        dsgt.compare(**settings, folder=tmp_path, watch=lambda news: jobs.add(news.job))
        return len(jobs)

    assert runs() == 3
    assert runs() == 0
    assert runs(problem=quadratic(1)) == 3
    assert runs(methods=[Halved(), dsgt.DPSGD()]) == 3
    monkeypatch.setattr("dsgt.source._texts", lambda kind: ["another text"])
    assert runs() == 3


class Plain(dsgt.DSGT):
    """As people write classes."""

    def __init__(self, beta: float = 0.5) -> None:
        object.__setattr__(self, "beta", beta)

    def update(self, s, g, mix, lr):
        return super().update(s, g, mix, self.beta * lr)


def test_objects_of_a_plain_class_differ_by_what_they_were_given(tmp_path: Path):
    given = {"problem": quadratic(0), "graph": "ring"} | SMALL | {"lrs": (0.05,), "seeds": 1}
    both = dsgt.compare(methods=[Plain(0.1), Plain(0.9)], **given)
    assert [line.method for line in both.lines] == ["Plain(beta=0.1)", "Plain(beta=0.9)"]
    losses = [line.loss for line in both.lines]
    assert losses[0] != losses[1]
    kept = [dsgt.compare(methods=[Plain(beta)], folder=tmp_path, **given).lines[0].loss for beta in (0.1, 0.9, 0.1)]
    assert kept == [*losses, losses[0]]
    moved = [dsgt.compare(methods=[Plain(beta)], momentum=0.5, **given).lines[0].loss for beta in (0.1, 0.9)]
    assert moved[0] != moved[1], "what asks an oracle is still the method that was given"
    with pytest.raises(ValueError, match="two different methods are called Plain"):
        dsgt.compare(methods=[Plain(torch.full((2,), 1 + v)) for v in (1e-6, 2e-6)], **given)


def test_a_plain_class_by_name_goes_on_in_the_folder_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = inspect.getsource(Plain).replace("dsgt.DSGT", "dsgt.DSGT", 1)
    (tmp_path / "plainly.py").write_text(f"import dsgt\n\n\n{text}")
    monkeypatch.chdir(tmp_path)
    losses = []
    for beta in ("0.1", "0.9"):
        code, says = command("compare", f"plainly:Plain:beta={beta}", *FLAGS, "--workers", "1", "--out", "out")
        assert code == 0, says
        losses.append(json.loads(Path("out/rows.jsonl").read_text().splitlines()[-1])["loss"])
    assert losses[0] != losses[1]
    code, says = command("compare", "plainly:Plain", "plainly:Plain:beta=0.5", *FLAGS, "--workers", "1", "--out", "out")
    assert code == 0, says


def kept_by(value: object):
    def f() -> object:
        return value

    return f


def test_a_function_counts_with_the_values_that_it_kept():
    assert source(kept_by(0.1)) == source(kept_by(0.1)) != source(kept_by(2))
    for a, b in (
        (torch.ones(3), torch.zeros(3)),
        (torch.ones(3, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.bfloat16)),
        (np.ones(3), np.ones(4)),
        ({"a": [1, 2]}, {"a": [1, 3]}),
        (Plain(0.1), Plain(0.2)),
        (kept_by(1), kept_by(2)),
        ({1, 2}, {1, 3}),
        (torch.nn.Dropout(0.1), torch.nn.Dropout(0.2)),
    ):
        assert source(kept_by(a)) != source(kept_by(b)), a
    around: list[object] = []
    around.append(around)
    assert source(kept_by(around)) == source(kept_by(around))
    for thing in (np.random.default_rng(0), torch.Generator(), print, Path("a"), math):
        assert source(kept_by(thing)) == source(kept_by(thing)), "the same in every process: no address"


READS = """
import math

import numpy as np

P = {p}
UNUSED = {unused}


def helps():
    return P


def f(x):
    return [helps() for _ in range(3)] + [math.pi, np.ones(2)]


class Own:
    beta = property(lambda self: P)
"""


@pytest.mark.parametrize("name", ["f", "helps", "Own"])
def test_what_was_typed_into_a_script_counts_with_the_globals_that_it_reads(name: str, tmp_path: Path):
    def text(number: int, **values: int) -> str:
        path = tmp_path / f"{number}.py"
        path.write_text(READS.format(**values))
        return source(runpy.run_path(str(path), run_name="__main__")[name])

    first = text(0, p=1, unused=1)
    assert text(1, p=1, unused=2) == first
    assert text(2, p=2, unused=1) != first


def test_the_text_of_a_module_is_its_file_those_beside_it_and_nothing_of_dsgt(mine: Path):
    (mine / "other.py").write_text("import helps\nclass Own: ...\n")
    (mine / "helps.py").write_text("a = 1\n")
    own = factories.lookup("other:Own", "thing").found
    before = source(own)
    assert before == source(own())
    (mine / "helps.py").write_text("a = 2\n")
    assert source(own) != before
    assert source(dsgt.DSGT()) == ""
    assert source(Halved) != ""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"methods": [1]}, "the method '1' gives an int; expected Algorithm"),
        ({"problem": 3}, "the problem 'int' gives an int; expected Problem"),
        ({"problem": quadratic, "nodes": 5}, "nodes cannot be given beside problem"),
        ({"weights": [[1.0, 2.0]]}, "W has shape"),
        ({"weights": RING, "nodes": 5}, "weights have 4 nodes, but nodes is 5"),
        ({"model": print, "graph": "ring"}, "the model 'print' gives a NoneType; expected Module"),
        ({"data": "digits", "metods": ["dsgt"]}, "no setting called 'metods'; did you mean 'methods'"),
    ],
)
def test_an_object_that_cannot_be_used_is_named(given: dict, message: str):
    with pytest.raises((ValueError, TypeError), match=message.replace("[", r"\[").replace("(", r"\(")):
        dsgt.compare(**given, workers=1, seeds=1, lrs=(0.1,), epochs=0.1)


def test_settings_and_fields_are_not_mixed():
    with pytest.raises(ValueError, match="seeds cannot be given beside settings"):
        dsgt.compare(dsgt.Settings(), seeds=2)


SCRIPT = """
import torch

import dsgt


class Mine(dsgt.DSGT):
    def update(self, s, g, mix, lr):
        return super().update(s, g, mix, 0.5 * lr)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)

    def forward(self, x):
        return self.layer(x) / 2


given = dict(methods=[Mine(), "dsgt"], model=Net, nodes=4, graph="ring", lrs=(0.1,), seeds=2, epochs=0.5)
two = dsgt.compare(**given, workers=2)
assert two.rows == dsgt.compare(**given, workers=1).rows
print(two.table())
"""


@pytest.mark.slow
def test_classes_of_a_script_reach_the_workers_which_give_the_same_numbers(tmp_path: Path):
    (tmp_path / "mine.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=HANGING
    )
    assert done.returncode == 0, done.stderr
    assert "Mine" in done.stdout
