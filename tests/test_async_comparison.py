"""Methods with rounds and methods in which nobody waits in one comparison, on one axis: virtual seconds."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dsgt.commands.compare import app
from dsgt.comparison import Job, Settings, compare
from dsgt.comparison.job import together
from dsgt.comparison.method_runs import MethodRuns
from dsgt.comparison.work import in_passes
from dsgt.report.work import times

SMALL: dict[str, Any] = {
    "methods": ("dsgt", "asy-sonata"), "nodes": 4, "graph": "ring", "partition": "equal", "compute": 0.1, "batch": 40,
    "stragglers": "slow:1:5", "budget": "40s", "lrs": (0.1,), "seeds": 2, "evaluations": 4,
}  # fmt: skip


def say(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words], env={"COLUMNS": "400"})
    return done.exit_code, done.output


def test_the_command_puts_both_kinds_on_one_axis_and_shows_who_waited(tmp_path: Path):
    words = "dsgt ad-psgd --stragglers slow:1:5 --seconds 20 --axis virtual-seconds --compute 0.1 --batch 40 --nodes 4"
    more = "--graph ring --partition equal --lr 0.1 --seeds 1 --evaluations 2 --workers 1 --no-node-accuracy"
    code, output = say(*words.split(), *more.split(), "--out", str(tmp_path))
    assert code == 0, output
    page = (tmp_path / "report.html").read_text()
    assert re.search(r'value="virtual_seconds" checked', page)
    assert "AD-PSGD: at work 100% of the time" in page
    worked = re.search(r"DSGT: at work (\d+)% of the time", page)
    assert worked is not None
    assert int(worked[1]) < 50  # three of four wait for the fourth, which takes five times as long
    assert page.count("<g><title>node") == 2 * 4


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--seconds", "5", "--budget", "3MB"], "--seconds 5 and --budget 3MB are given; give one of them"),
     (["--axis", "virtual-second"], "virtual_seconds"),
     (["asy-sonata", "--budget", "3MB"], "give it in virtual seconds, as in 60s")],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_before_any_run(words: list[str], said: str, tmp_path: Path):
    code, output = say(*words, "--out", str(tmp_path / "out"))
    assert code == 2
    assert said in output
    assert not (tmp_path / "out").exists()


def test_every_method_has_the_same_seconds_and_rounds_are_gradients_of_a_node():
    found = compare(Settings(**SMALL), workers=1)
    waits, goes_on = found.of("dsgt").runs[0][-1], found.of("asy-sonata").runs[0][-1]
    assert 35 < waits["virtual_seconds"] <= 40
    assert goes_on["virtual_seconds"] == 40
    assert waits["round"] == 7  # 5 s each and a little for messages, so that the eighth does not fit in
    assert goes_on["round"] == (3 * 40 + 8) // 4
    assert goes_on["epochs"] / waits["epochs"] == pytest.approx(goes_on["round"] / waits["round"], rel=0.05)


def test_the_learning_rates_of_a_seed_go_through_one_pass_and_are_what_they_are_alone():
    settings = Settings(**SMALL | {"methods": ("dsgt", "asy-sonata", "agp"), "lrs": (0.1, 1e6, 0.2)})
    jobs = [Job(settings, m, lr, seed) for m in settings.methods for seed in (0, 1) for lr in settings.lrs]
    passes = in_passes(jobs)
    assert [job for some in passes for job in some] == jobs
    assert [len(some) for some in passes] == [1] * 6 + [3] * 4
    group = passes[6]
    heard: list[tuple[float, int]] = []
    rows = together(group, lambda job, k, total, loss, spent: heard.append((job.lr, k)))
    assert (0.2, 4) in heard
    for job, found in zip(group, rows, strict=True):
        alone = job()
        assert [row["round"] for row in found] == [row["round"] for row in alone]
        assert [row["loss"] for row in found] == pytest.approx([row["loss"] for row in alone], rel=1e-9)
        assert math.isinf(found[-1]["loss"]) == (job.lr == 1e6)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_grid_is_tuned_in_passes_by_one_worker_or_several(workers: int):
    settings = Settings(**SMALL | {"methods": ("asy-sonata",), "lrs": (0.05, 0.1), "grow": 1, "tuning_seeds": 1})
    done: list[int] = []
    found = compare(settings, workers=workers, finished=lambda k, total, job, rows: done.append(k))
    line = found.of("asy-sonata")
    assert set(line.grid) == {0.05, 0.1, 0.2}
    assert len(line.runs) == 2
    assert done == list(range(1, 3 + 2 + 1))


def test_seeds_that_take_other_rounds_are_averaged_at_the_same_times():
    def rows(seed: int, at: list[tuple[int, float, float]]) -> list[dict[str, Any]]:
        return [{"method": "m", "lr": 1.0, "seed": seed, "round": k, "virtual_seconds": t, "loss": v} for k, t, v in at]

    first = rows(0, [(0, 0.0, 4.0), (5, 10.0, 2.0), (10, 20.0, 1.0)])
    second = rows(1, [(0, 0.0, 4.0), (4, 8.0, 3.0), (8, 16.0, 1.0), (9, 19.0, 0.5)])
    line = MethodRuns("m", {1.0: {0: first, 1: second}})
    assert line.curve("virtual_seconds")[0] == [0.0, 10.0, pytest.approx(19.5)]  # the second ends at 19
    assert line.curve("loss")[0] == [4.0, pytest.approx((2.0 + 2.5) / 2), pytest.approx(0.75)]
    assert line.curve("loss")[2] == [4.0, pytest.approx(2.5), 1.0]


def test_strips_show_every_gradient_of_the_beginning_and_mark_the_slow_ones():
    found = times(Settings(**SMALL), ["dsgt", "asy-sonata"])
    assert found is not None
    rounds, events = found.methods
    seconds = float(found.seconds)
    for work in (rounds, events):
        assert [strip.node for strip in work.strips] == [0, 1, 2, 3]
        assert "M" not in work.strips[1].usual  # the slow node
        assert all("M" not in strip.slow for strip in work.strips if strip.node != 1)
        assert work.slowest[0] == pytest.approx(5, rel=0.02)
    assert events.strips[0].usual.count("M") == math.ceil(seconds)  # of 1 s each, one after the other
    assert rounds.strips[0].usual.count("M") == math.ceil(seconds / 5)
    assert events.share == "100%"


def test_nobody_is_shown_where_all_take_the_same_time():
    assert times(Settings(**SMALL | {"stragglers": "none"}), ["dsgt"]) is None
    assert times(Settings(**SMALL | {"stragglers": "none"}), ["asy-sonata"]) is not None
