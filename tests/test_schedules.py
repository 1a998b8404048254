"""Learning rates that change: their values by hand, and words that name them."""

from __future__ import annotations

import math

import pytest

from dsgt import schedules
from dsgt.factories import Factory
from dsgt.run import as_schedule


def test_cosine_and_linear_go_from_lr_towards_their_end():
    cosine, linear = schedules.cosine(0.4, 100), schedules.linear(0.4, 100, end=0.1)
    assert cosine(0) == linear(0) == 0.4
    assert cosine(50) == pytest.approx(0.2)
    assert cosine(25) == pytest.approx(0.4 * (1 + math.sqrt(0.5)) / 2)
    assert linear(50) == pytest.approx(0.4 * 0.55)
    assert 0 < cosine(99) < 1e-3
    assert cosine(100) == cosine(99)  # who looks at the end of a run
    assert schedules.cosine(0.4, 100, end=0.5)(50) == pytest.approx(0.3)


def test_steps_come_after_their_shares_of_the_run():
    rate = schedules.step(1.0, 200, at=(0.5, 0.75), by=0.1)
    assert [rate(k) for k in (0, 99, 100, 149, 150, 199)] == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    assert schedules.step(1.0, 200, warmup=0.1)(100) == pytest.approx(0.1)  # not later for the warm-up


def test_a_warm_up_grows_linearly_and_is_never_zero():
    for make in (schedules.constant, schedules.cosine, schedules.step):
        rate = make(0.5, 40, warmup=0.1)
        assert [rate(k) for k in range(5)] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])


@pytest.mark.parametrize(
    "text", ["constant", "cosine:warmup=0.1,end=0.01", "linear", "step:at=0.3/0.6,by=0.5", "step:at=0.5"]
)
def test_every_round_of_a_named_schedule_is_a_learning_rate(text: str):
    rate = as_schedule(schedules.named_schedule(text)(0.3, 20))
    assert all(0 < rate(k) <= 0.3 for k in range(21))
    assert rate(19) <= rate(5)
    if text.startswith("step:at=0.3"):
        assert rate(12) == pytest.approx(0.3 * 0.25)


def test_a_schedule_of_ones_own_is_told_which_share_of_the_run_is_done():
    own = Factory("thirds", "schedule", lambda share, by: by ** int(3 * share), {"by": "0.5"})
    rate = as_schedule(schedules.named_schedule(own)(0.8, 9))
    assert [rate(k) for k in (0, 2, 3, 5, 6, 8, 9)] == pytest.approx([0.8, 0.8, 0.4, 0.4, 0.2, 0.2, 0.2])


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_schedule_of_ones_own_gives_numbers_above_0_all_along_the_run(value: float):
    own = Factory("late", "schedule", lambda share: value if share > 0.9 else 1.0, {})
    with pytest.raises(ValueError, match=r"where 0\.901 of the run is done; expected a factor of the learning rate"):
        schedules.named_schedule(own)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cosin", "no schedule called 'cosin'; did you mean 'cosine'"),
        ("cosine:warm=0.1", "no argument of the schedule cosine called 'warm'; did you mean 'warmup'"),
        ("cosine:warmup=x", "warmup is 'x' in 'cosine:warmup=x'; expected a number"),
        ("cosine:warmup=5", "warmup is 5.0; it is a share"),
        ("linear:end=-1", "end is -1.0; it is a share"),
        ("step:at=0.5/2", "each between 0 and 1"),
        ("step:at=half", "expected shares of the run as in 0.5/0.75"),
        ("step:by=0", "by is 0.0"),
        ("step:0.5", "'0.5' in 'step:0.5' is not key=value"),
    ],
)
def test_a_schedule_that_is_none_is_told_in_a_sentence(text: str, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        schedules.named_schedule(text)
