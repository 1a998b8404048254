"""How far something is, in a notebook: shown below the cell, and nowhere else."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import dsgt
from dsgt import notebook


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a kernel was asked to display, one after the other, in one place."""
    found: list[Any] = []

    def display(thing: Any, display_id: bool) -> Any:
        assert display_id, "it is written over later"
        assert not found, "one place"
        found.append(thing)
        return SimpleNamespace(update=found.append)

    shell = SimpleNamespace(kernel=object())
    kernel = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", kernel)  # type: ignore[arg-type]
    monkeypatch.setattr(notebook, "SECONDS", 0.0)
    return found


def test_a_comparison_tells_how_many_runs_are_done_and_where_the_present_one_is(shown: list[Any]):
    given = {"nodes": 3, "graph": "ring", "epochs": 0.5, "lrs": (0.1, 0.2), "grow": 0, "seeds": 1, "tuning_seeds": 1}
    dsgt.compare(methods=["dsgt"], workers=1, evaluations=2, **given)
    said = [repr(thing) for thing in shown]
    assert said[0].startswith("0 of 3 runs done; dsgt, lr 0.1, tuning seed 0, round 0 of 6, loss 2.3")
    assert said[-1] == "3 of 3 runs done"
    assert shown[-1]._repr_html_() == '<progress value="3" max="3"></progress> 3 of 3 runs done'


def test_a_fit_tells_every_row(shown: list[Any]):
    x = torch.randn(40, 3)
    found = dsgt.fit(torch.nn.Linear(3, 2), (x, (x[:, 0] > 0).long()), nodes=4, epochs=2)
    assert len(shown) == len(found.rows)
    assert repr(shown[-1]) in repr(found)


def test_who_asks_to_be_told_is_told_and_nothing_is_shown(shown: list[Any]):
    rows: list[Any] = []
    x = torch.randn(40, 3)
    dsgt.fit(torch.nn.Linear(3, 2), (x, (x[:, 0] > 0).long()), nodes=4, epochs=1, watch=rows.append)
    assert rows
    assert not shown


@pytest.mark.parametrize("shell", [None, SimpleNamespace()])
def test_a_script_and_a_prompt_say_nothing(shell: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    assert notebook.progress() is None
    monkeypatch.delitem(sys.modules, "IPython")
    assert notebook.progress() is None
