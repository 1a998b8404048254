"""The notebooks run from their first cell to their last, and what they show is what a run has shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.notebooks import NOTEBOOKS, executed

nbformat = pytest.importorskip("nbformat", reason="pip install 'dsgt[test]' brings nbformat and nbclient")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_says_what_it_said(path: Path, tmp_path: Path):
    """Its cells check themselves; what they print is the same but for the last digits of numbers."""
    fresh, kept = executed(path, tmp_path), nbformat.read(path, as_version=4)
    for now, then in zip(fresh.cells, kept.cells, strict=True):
        assert kinds(now) == kinds(then)
        assert words(now) == words(then)


def kinds(cell: object) -> list[str]:
    """Of what a cell shows; what it prints comes in as many pieces as the machine is busy."""
    return list(dict.fromkeys(o.output_type for o in cell.get("outputs", [])))  # type: ignore[attr-defined]


def words(cell: object) -> list[str]:
    """What a cell prints, without its numbers."""
    printed = "".join(o["text"] for o in cell.get("outputs", []) if o.output_type == "stream")  # type: ignore[attr-defined]
    return re.sub(r"[-+.\d]*\d[-+.e\d]*", "0", printed).split()


def test_there_are_the_four_that_the_docs_name():
    page = (Path(__file__).parents[1] / "docs" / "index.md").read_text()
    assert sorted(re.findall(r"examples/notebooks/(\w+)\.ipynb", page)) == [path.stem for path in NOTEBOOKS]
    assert len(NOTEBOOKS) == 4
