"""A comparison that was interrupted does not repeat what it has finished."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsgt
from dsgt import checkpoint, comparison

SMALL = dsgt.Settings(("dsgt", "sgd"), nodes=4, graph="ring", epochs=0.5, lrs=(0.1, 1e38), seeds=1)


def rows(found: dsgt.Comparison) -> list[dict[str, float]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in found.rows]


def test_finished_runs_are_not_repeated(tmp_path: Path, monkeypatch):
    expected = dsgt.compare(SMALL, workers=1)
    told = []

    def stop(done: int, total: int, job: comparison.Job) -> None:
        told.append(done)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dsgt.compare(SMALL, workers=1, folder=tmp_path, progress=stop)
    with (tmp_path / "finished.jsonl").open("a") as file:
        file.write('{"method": "sgd", "lr"')  # what a crash leaves
    told.clear()
    with pytest.warns(checkpoint.CheckpointWarning, match="line 4 of .* is not whole"):
        found = dsgt.compare(
            SMALL, workers=1, folder=tmp_path, resume=True, progress=lambda done, *_: told.append(done)
        )
    assert told == [3, 4]
    assert rows(found) == rows(expected)
    assert rows(dsgt.compare(SMALL, workers=1, folder=tmp_path, resume=True)) == rows(expected)


def test_another_comparison_is_refused_by_name(tmp_path: Path):
    dsgt.compare(SMALL, workers=1, folder=tmp_path)
    other = dsgt.Settings(("dsgt", "sgd"), nodes=5, graph="ring", epochs=0.5, lrs=(0.1, 1e38), seeds=1)
    with pytest.raises(checkpoint.DifferentError, match="nodes = 4, but here it is 5"):
        dsgt.compare(other, workers=1, folder=tmp_path, resume=True)
    (tmp_path / "finished.jsonl").write_text("")
    with pytest.raises(checkpoint.DifferentError, match="does not begin with the settings"):
        dsgt.compare(SMALL, workers=1, folder=tmp_path, resume=True)
