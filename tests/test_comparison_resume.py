"""A comparison that was interrupted does not repeat what it has finished."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsgt
from dsgt import checkpoint

SMALL = dsgt.Settings(
    methods=("dsgt", "sgd"), nodes=4, graph="ring", epochs=0.5, lrs=(0.1, 1e38), grow=0, tuning_seeds=1, seeds=1
)
TUNING = 10_000
"""The seed by which learning rates are chosen."""


def test_finished_runs_are_not_repeated(tmp_path: Path):
    expected = dsgt.compare(SMALL, workers=1)

    def stop(done: int, *_: object) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dsgt.compare(SMALL, workers=1, folder=tmp_path, finished=stop)
    with (tmp_path / "finished.jsonl").open("a") as file:
        file.write('{"method": "sgd", "lr"')  # what a crash leaves
    run_again = []
    with pytest.warns(checkpoint.CheckpointWarning, match="line 4 of .* is not whole"):
        found = dsgt.compare(SMALL, workers=1, folder=tmp_path, watch=lambda news: run_again.append(news.job))
    again = {(job.method, job.lr, job.seed) for job in run_again}
    assert again == {("sgd", 0.1, TUNING), ("sgd", 1e38, TUNING), ("dsgt", 0.1, 0), ("sgd", 0.1, 0)}
    assert repr(found.rows) == repr(expected.rows)  # to the last bit, and NaN is NaN
    assert repr(dsgt.compare(SMALL, workers=1, folder=tmp_path).rows) == repr(expected.rows)


def test_runs_are_known_by_all_that_determines_them(tmp_path: Path, monkeypatch):
    def runs(settings: dsgt.Settings, **options: bool) -> int:
        jobs = set()
        dsgt.compare(settings, workers=1, folder=tmp_path, watch=lambda news: jobs.add(news.job), **options)
        return len(jobs)

    assert runs(SMALL) == 6
    assert runs(SMALL) == 0
    assert runs(SMALL.model_copy(update={"methods": ("dsgt",), "target": 1.0})) == 0
    assert runs(SMALL.model_copy(update={"seeds": 2})) == 2  # the second seeds only
    assert runs(SMALL.model_copy(update={"graph": "complete"})) == 3  # sgd averages over all anyway
    assert runs(SMALL, resume=False) == 6
    monkeypatch.setattr("dsgt.comparison.job._code", lambda: "another text of the package")
    assert runs(SMALL) == 6


def test_a_folder_of_something_else_is_refused(tmp_path: Path):
    (tmp_path / "finished.jsonl").write_text("")
    with pytest.raises(checkpoint.DifferentError, match="does not begin with the settings"):
        dsgt.compare(SMALL, workers=1, folder=tmp_path)


def test_a_run_that_was_cut_off_goes_on_from_its_checkpoint(tmp_path: Path):
    settings = SMALL.model_copy(update={"lrs": (0.1,), "evaluations": 6, "tests": 2, "methods": ("dsgt",)})
    expected = dsgt.compare(settings, workers=1)
    assert [row["round"] for row in expected.rows if "accuracy" in row] == [0, 3, 6]
    assert [row["round"] for row in expected.rows if "loss" in row] == [0, 1, 2, 3, 4, 5, 6]
    rounds = []

    def cut(news: dsgt.comparison.News) -> None:
        rounds.append(news.round)
        if news.round >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dsgt.compare(settings, workers=1, folder=tmp_path, checkpoint_every=1, watch=cut)
    assert list((tmp_path / "unfinished").iterdir())
    found = dsgt.compare(settings, workers=1, folder=tmp_path, checkpoint_every=1)
    assert repr(found.rows) == repr(expected.rows)
    assert not list((tmp_path / "unfinished").iterdir())
    with pytest.raises(ValueError, match="give a folder"):
        dsgt.compare(settings, checkpoint_every=1)
