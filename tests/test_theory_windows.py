"""Every method has a window of stable learning rates, computed or measured, and a line in a plan."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import dsgt
from dsgt import data, theory, topologies
from dsgt.algorithms import COMPOSITIONS
from dsgt.cli import app
from dsgt.core import Algorithm
from dsgt.networks import Dense
from dsgt.problems import LeastSquares
from dsgt.theory.fits import HIGHEST
from dsgt.theory.plan import Plan, plan
from dsgt.theory.stability import has_polynomial
from support.cases import CASES, F64, graph


def largest(algorithm: Algorithm[Any], W: Any, lr: float, rounds: int) -> float:
    """How far the models are from 0 in the last hundred rounds on f_i(x) = |x - a_i|^2 / 2, |a_i| <= 1 and their mean
    is not 0."""
    a = torch.linspace(-0.5, 1, len(W), dtype=F64)[:, None]
    network, most = Dense(W), 0.0
    state = algorithm.init(torch.zeros_like(a), network.at(0))
    for k in range(rounds):
        state = algorithm.update(state, state.x - a, network.at(k), lr)
        size = float(state.x.abs().max())
        if not size < 1e9:
            return math.inf
        most = max(most, size) if k >= rounds - 100 else 0.0
    return most


@pytest.mark.parametrize("name", [name for name in dsgt.ALGORITHMS if not has_polynomial(dsgt.ALGORITHMS[name])])
def test_a_measured_window_ends_where_runs_begin_to_grow(name: str):
    """Within a tenth: near the edge growth is slow, and 400 rounds see it late. Who rescales its steps never grows."""
    case = CASES[name]
    W = case.weights(graph(6))
    found = theory.window(case.algorithm, W)
    assert "measured on 6" in found.how
    assert found.high > 0
    assert largest(case.algorithm, W, 0.9 * found.high, 3000) < 3 * HIGHEST
    if found.high < HIGHEST:
        assert largest(case.algorithm, W, 1.1 * found.high, 3000) > 10


def planned() -> Plan:
    samples, shards = data.synthetic.least_squares([8, 9, 10, 11, 12], 3, dtype=F64)
    problem = LeastSquares(samples, shards, data.WithReplacement(0.5))
    return plan(problem, topologies.metropolis(topologies.ring(5)), 100)


def test_every_method_has_a_line_in_a_plan_and_a_learning_rate_where_it_may_be_used():
    lines = {fit.method: fit for fit in planned().methods()}
    assert list(lines) == list(dsgt.ALGORITHMS | COMPOSITIONS)
    for name, fit in lines.items():
        assert "it fails" not in fit.verdict, (name, fit)
        assert (fit.lr > 0) == (not fit.verdict.startswith("no: ")), (name, fit)
    assert lines["gtadam"].lr == math.inf
    assert "rescales its steps" in lines["gtadam"].verdict
    assert "its steps are implicit" in lines["dsba"].verdict
    assert (lines["esdacd"].lr, lines["esdacd"].how) == (1.0, "as published, for every problem")
    assert lines["fedavg"].how.startswith("measured")  # on what it makes of the ring
    assert "about" not in lines["fedavg"].verdict  # the distance is known for the ring's own W only
    assert "about" in lines["dpsgd"].verdict


def test_a_method_that_cannot_be_made_without_parameters_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch):
    class Demanding(dsgt.DSGT):
        def __init__(self, wish: str) -> None:
            self.wish = wish

    monkeypatch.setitem(dsgt.ALGORITHMS, "demanding", Demanding)
    lines = {fit.method: fit for fit in planned().methods()}
    assert "missing 1 required positional argument: 'wish'" in lines["demanding"].verdict
    assert lines["dsgt"].verdict == "good"
    assert "wish" in theory.usable(topologies.metropolis(topologies.ring(5)))["demanding"]


def test_where_links_have_a_direction_a_plan_tells_which_methods_need_less():
    told = CliRunner().invoke(app, ["plan", "--nodes", "6", "--graph", "directed-random"], env={"COLUMNS": "200"})
    text = " ".join(told.output.split())
    assert told.exit_code == 0, text
    assert "no rule gives it a doubly stochastic W" in text
    lines: dict[str, str] = {}
    name = ""
    for line in told.output.splitlines():
        if line.count("│") == 5:
            cells = [cell.strip() for cell in line.split("│")]
            name = cells[1] or name  # a narrow terminal folds a row
            lines[name] = " ".join([lines.get(name, ""), *cells[2:]])
    lines = {name: " ".join(line.split()) for name, line in lines.items()}
    assert set(lines) == set(dsgt.ALGORITHMS | COMPOSITIONS)
    assert "no: needs doubly stochastic" in lines["dsgt"]
    assert "no: needs W = 1/n everywhere" in lines["sgd"]
    assert "biased" in lines["sgp"]
    assert "good" in lines["push-diging"]


def test_a_directed_graph_with_a_doubly_stochastic_w_has_a_whole_plan(tmp_path: Path):
    asked = ["plan", "--nodes", "5", "--graph", "directed-ring", "--rounds", "50"]
    told = CliRunner().invoke(app, [*asked, "--picture", str(tmp_path / "plan.png")])
    assert told.exit_code == 0, told.output
    assert "The learning rate" in told.output
