"""How learning rates are chosen: one rule for all methods, other seeds than those reported, and never at an edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest

import dsgt
from dsgt.comparison.tuning import beyond, wanted


def played(loss: Callable[[float, int], float], **given: Any) -> dict[tuple[float, int], float]:
    """All runs that a method is asked for whose final loss is this function of the learning rate and the seed."""
    settings = dsgt.Settings(**{"lrs": (0.1, 0.2, 0.4), "seeds": 5, "tuning_seeds": 2} | given)
    ends: dict[tuple[float, int], float] = {}
    while some := wanted(settings, ends):
        assert not set(some) & ends.keys(), "nothing is asked for twice"
        ends |= {which: loss(*which) for which in some}
    return ends


def lrs(ends: dict[tuple[float, int], float], tuning: bool) -> list[float]:
    return sorted({lr for lr, seed in ends if (seed >= 10_000) == tuning})


def test_learning_rates_are_chosen_on_other_seeds_than_those_reported():
    ends = played(lambda lr, seed: abs(lr - (0.2 if seed >= 10_000 else 0.1)))
    assert lrs(ends, tuning=True) == [0.1, 0.2, 0.4]
    assert lrs(ends, tuning=False) == [0.2]
    assert sorted(seed for _, seed in ends if seed < 10_000) == [0, 1, 2, 3, 4]
    assert len(ends) == 3 * 2 + 5


@pytest.mark.parametrize(
    ("best", "tried"), [(1.6, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]), (0.05, [0.025, 0.05, 0.1, 0.2, 0.4])]
)
def test_the_grid_grows_until_the_best_is_inside_it(best: float, tried: list[float]):
    ends = played(lambda lr, seed: abs(math.log(lr / best)))
    assert lrs(ends, tuning=True) == tried
    assert lrs(ends, tuning=False) == [best]


def test_the_grid_grows_no_further_than_its_limit():
    ends = played(lambda lr, seed: -lr, grow=3)
    assert lrs(ends, tuning=True) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    assert lrs(ends, tuning=False) == [3.2]
    assert lrs(played(lambda lr, seed: -lr, grow=0), tuning=True) == [0.1, 0.2, 0.4]


def test_where_all_diverge_smaller_ones_are_tried():
    ends = played(lambda lr, seed: math.inf if lr > 0.03 else abs(math.log(lr / 0.0125)))
    assert lrs(ends, tuning=True)[0] == 0.00625
    assert lrs(ends, tuning=False) == [0.0125]
    assert lrs(played(lambda lr, seed: math.inf), tuning=False) == []


def test_a_learning_rate_at_which_a_reported_run_diverges_gives_way_to_the_next_best():
    ends = played(lambda lr, seed: math.inf if (lr, seed) == (0.2, 3) else abs(lr - 0.2))
    assert lrs(ends, tuning=False) == [0.1, 0.2]
    assert lrs(ends, tuning=True) == [0.05, 0.1, 0.2, 0.4], "which is not left at the edge of the grid"


def test_the_grid_grows_below_where_reported_runs_diverge_too():
    def loss(lr: float, seed: int) -> float:
        return math.inf if lr > 0.03 and seed == 4 else abs(math.log(lr / 0.19))

    ends = played(loss)
    assert lrs(ends, tuning=False)[0] == 0.025
    assert lrs(ends, tuning=True)[0] == 0.0125, "the one that is left is inside the grid"
    assert lrs(played(loss, grow=2), tuning=True)[0] == 0.025, "at its edge, which stops a verdict"
    nowhere = played(lambda lr, seed: math.inf if seed < 5 else abs(lr - 0.2), grow=1)
    assert lrs(nowhere, tuning=True) == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert lrs(nowhere, tuning=False)[0] == 0.05


def test_a_single_learning_rate_is_used_as_it_is():
    assert played(lambda lr, seed: 1.0, lrs=(0.3,)).keys() == {(0.3, seed) for seed in range(5)}


def test_a_step_beyond_is_as_wide_as_the_last_on_that_side():
    assert beyond([0.001, 0.005, 0.1, 0.2], 0.2) == 0.4
    assert beyond([0.001, 0.005, 0.1, 0.2], 0.001) == 0.0002
    assert beyond([0.001, 0.005, 0.1, 0.2], 0.1) is None


def test_a_comparison_reports_only_the_seeds_that_did_not_choose():
    found = dsgt.compare(methods=["dsgt", "sgd"], nodes=4, graph="ring", epochs=0.5, seeds=2, grow=1, workers=1)
    for line in found.lines:
        assert len(line.losses) == 2
        assert all(len(runs) == 2 for runs in line.grid.values())
        assert line.lr == min(line.grid, key=lambda lr: fmean(rows[-1]["loss"] for rows in line.grid[lr].values()))
        ends = [row["loss"] for row in found.rows if row["method"] == line.method and "tuning" not in row]
        assert line.losses == [ends[len(ends) // 2 - 1], ends[-1]]
    reported = {(row["method"], row["seed"]) for row in found.rows if "tuning" not in row}
    assert reported == {(m, seed) for m in ("dsgt", "sgd") for seed in (0, 1)}
