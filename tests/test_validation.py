"""Learning rates chosen on samples that the runs which choose them did not learn from."""

from __future__ import annotations

import pytest
import torch

import dsgt
from dsgt.comparison.fields import SEEDS_LIMIT
from dsgt.comparison.job import Job
from dsgt.data.samples import Samples
from dsgt.data.shards import Shards
from dsgt.data.validation import hold_out

SMALL = {"nodes": 3, "graph": "ring", "epochs": 0.5, "lrs": (0.1, 0.2), "grow": 0, "seeds": 1, "tuning_seeds": 1}
"""A comparison that takes a moment."""
TUNING = SEEDS_LIMIT


def settings(**given: object) -> dsgt.Settings:
    return dsgt.Settings.of({"methods": ("dsgt",), **SMALL, **given})


def test_every_node_keeps_and_holds_out_its_own_samples():
    data = Samples(torch.arange(24.0)[:, None], torch.arange(24), groups=torch.arange(24) % 5)
    shards = Shards.of([range(0, 10), range(10, 22), [22], [23]])
    train, kept, validation = hold_out(data, shards, 0.25, seed=3)
    assert kept.sizes.tolist() == [8, 9, 1, 1]  # round(2.5) and 3; one sample is kept where there is but one
    assert sorted([*train.targets.tolist(), *validation.targets.tolist()]) == list(range(24))
    for i, whole in enumerate(shards):
        assert set(train.targets[kept[i]].tolist()) <= set(whole.tolist())
    for part in (train, validation):
        assert torch.equal(part.features[:, 0].long(), part.targets)
        assert torch.equal(part.groups, part.targets % 5)
    again, other = (hold_out(data, shards, 0.25, seed).validation.targets.tolist() for seed in (3, 4))
    assert validation.targets.tolist() == again != other


@pytest.mark.parametrize("model", ["logistic", "lenet"])
def test_runs_that_choose_learn_from_some_and_are_measured_on_the_others_and_reported_ones_on_all(model: str):
    some = settings(model=model, validation=0.2)
    whole = settings(model=model)
    choosing, before = some.problem(TUNING), whole.problem(TUNING)
    assert choosing.samples == sum(int(size) - round(0.2 * int(size)) for size in before.shards.sizes)
    assert len(choosing.held) == before.samples - choosing.samples
    x = choosing.start(0)
    held = choosing.held
    assert torch.isclose(choosing.loss(x), choosing._losses(x[None], held)[0] / len(held))
    assert some.problem(0).samples == whole.problem(0).samples == before.samples
    fewer = settings(model=model, validation=0.2, eval_samples=7).problem(TUNING)
    rows = {tuple(row) for row in held.features.flatten(1).tolist()}
    assert {tuple(row) for row in fewer.held.features.flatten(1).tolist()} <= rows
    assert len(fewer.held) == 7


def test_the_learning_rate_is_the_one_with_the_lowest_loss_there_and_the_page_says_so():
    found = dsgt.compare(settings(validation=0.2), workers=1)
    losses = {lr: runs[TUNING][-1]["loss"] for lr, runs in found.of("dsgt").grid.items()}
    assert found.best_lr("dsgt") == min(losses, key=losses.get)
    plain = dsgt.compare(settings(), workers=1)
    assert losses != {lr: runs[TUNING][-1]["loss"] for lr, runs in plain.of("dsgt").grid.items()}
    assert "on 20% of every node's samples" in found.selection
    assert "lowest final training loss" in plain.selection


def test_only_runs_that_choose_are_other_ones():
    some, whole = settings(validation=0.2), settings()
    assert Job(some, "dsgt", 0.1, 0).key == Job(whole, "dsgt", 0.1, 0).key
    assert Job(some, "dsgt", 0.1, 0)() == Job(whole, "dsgt", 0.1, 0)()  # they learn from all
    assert Job(some, "dsgt", 0.1, TUNING).key != Job(whole, "dsgt", 0.1, TUNING).key


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"validation": 1.0}, "validation is 1.0"),
        ({"validation": 0.1, "lrs": (0.1,)}, "a single learning rate is used as it is; give several"),
        ({"validation": 1e-6}, "less than one sample of every node"),
        ({"validation": 0.1, "problem": "object"}, "only data that are given by themselves can be held out"),
    ],
)
def test_what_cannot_be_held_out_is_refused_before_any_run(given: dict[str, object], words: str):
    if "problem" in given:
        samples = Samples(torch.randn(12, 4), torch.arange(12) % 2)
        shards = dsgt.data.partition.equal(samples, 3)
        problem = dsgt.problems.Logistic(samples, shards, dsgt.data.WithReplacement(batch=6))
        given = given | {"problem": problem}
        asked = {"methods": ("dsgt",), "epochs": 0.5, "lrs": (0.1, 0.2), "seeds": 1, **given}
    else:
        asked = {"methods": ("dsgt",), **SMALL, **given}
    with pytest.raises(ValueError, match=words):
        dsgt.compare(**asked, workers=1)
