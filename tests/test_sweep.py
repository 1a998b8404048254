"""Sweeps: every combination, each tuned for itself, resumable, and what the figures say is what the runs did."""

from __future__ import annotations

import io
import math
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

import dsgt
from dsgt.cli import app
from dsgt.commands.tables import sweep_table
from dsgt.comparison import Job, Sweep
from dsgt.comparison.sweep import points
from dsgt.comparison.sweep_figure import figure
from support.invented_comparison import comparison

SMALL = {"methods": ["dsgt", "sgd"], "graph": "complete", "epochs": 1.0, "lrs": (0.4,), "seeds": 2, "evaluations": 4}
OVER = {"nodes": [2, 4], "partition": ["dirichlet:0.3", "equal"]}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sweep, Path]:
    folder = tmp_path_factory.mktemp("sweep")
    return dsgt.sweep(OVER, folder=folder, workers=1, **SMALL), folder


def test_every_combination_is_the_comparison_that_one_would_make_by_hand(found: tuple[Sweep, Path]):
    assert [point.at for point in found[0].found] == [
        {"nodes": n, "partition": p} for n in (2, 4) for p in ("dirichlet:0.3", "equal")
    ]
    by_hand = dsgt.compare(**SMALL, nodes=4, partition="equal", workers=1)
    assert list(found[0].found.values())[-1].rows == by_hand.rows


def test_a_sweep_given_again_runs_nothing_and_a_longer_one_only_what_is_new(found: tuple[Sweep, Path], monkeypatch):
    sweep, folder = found
    ran = []
    run = Job.__call__
    monkeypatch.setattr(Job, "__call__", lambda job, *rest: ran.append(job) or run(job, *rest))
    again = dsgt.sweep(OVER, folder=folder, workers=1, **SMALL)
    assert not ran
    assert again.table().equals(sweep.table())
    dsgt.sweep(OVER | {"nodes": [2, 3, 4]}, folder=folder, workers=1, **SMALL)
    assert {job.settings.nodes for job in ran} == {3}


def test_the_table_has_a_line_for_every_point_and_method(found: tuple[Sweep, Path]):
    sweep, _ = found
    table = sweep.table()
    assert len(table) == 4 * 2
    for point, one in sweep.found.items():
        for line in one.lines:
            rows = table[(table["method"] == line.method)]
            for key, value in point.at.items():
                rows = rows[rows[key] == value]
            assert rows["loss"].item() == pytest.approx(line.loss)
            assert rows["spread"].item() == pytest.approx(line.spread, nan_ok=True)
            assert rows["virtual_seconds_to_target"].item() == pytest.approx(
                line.at_target(sweep.target, "virtual_seconds")
            )


def test_the_target_is_one_that_is_reached_everywhere(found: tuple[Sweep, Path]):
    sweep, _ = found
    ends = [run[-1]["loss"] for one in sweep.found.values() for line in one.lines for run in line.runs]
    assert sweep.target == max(ends)


def invented(seconds: dict[int, float]) -> Sweep:
    """DSGT and SGD that reach the target after so many seconds, with so many nodes, the second seed after twice as
    many; DSGT in half as many rounds."""
    found = {}
    for point in points({"nodes": list(seconds)}, {"graph": "complete", "target": 1.0}):
        one = comparison({"dsgt": {0.1: [0.3, 0.3]}, "sgd": {0.1: [0.3, 0.3]}}, nodes=point.settings.nodes, target=1.0)
        for row in one.rows:
            row["virtual_seconds"] *= seconds[point.settings.nodes] * (1 + row["seed"] % 2)
            row["round"] = row["round"] // 2 if row["method"] == "dsgt" else row["round"]
        found[point] = one
    return Sweep(found)


def test_speedup_is_over_the_fewest_nodes_and_rounds_are_over_the_centralized_ones():
    sweep = invented({8: 1.0, 2: 4.0, 4: 2.5})  # in any order
    table = sweep.table().set_index(["method", "nodes"])
    assert [table.loc[("dsgt", n), "speedup"] for n in (2, 4, 8)] == pytest.approx([1.0, 1.6, 4.0])
    assert table.loc[("dsgt", 4), "rounds_over_centralized"] == pytest.approx(0.5)
    assert math.isnan(table.loc[("sgd", 4), "rounds_over_centralized"])
    (panel,) = sweep.plot("speedup").axes
    drawn = {line.get_label(): line for line in panel.lines}
    np.testing.assert_allclose(drawn["ideal"].get_ydata(), [4, 1, 2])


def test_the_printed_table_tells_how_far_the_seeds_lie_apart():
    found = {
        point: comparison({"dsgt": {0.1: [0.3, 0.5]}, "dpsgd": {0.1: [0.3, math.inf]}}, nodes=point.settings.nodes)
        for point in points({"nodes": [2, 4]}, {})
    }
    printed = sweep_table(Sweep(found))
    losses = [cell for column in printed.columns if column.header == "loss" for cell in column.cells]
    assert losses == ["0.40 ±0.14", "", "0.40 ±0.14", ""]


def test_a_method_that_diverges_or_never_arrives_leaves_a_gap():
    found = {}
    for point, end in zip(points({"nodes": [2, 4]}, {"target": 0.5}), (0.3, math.inf), strict=True):
        found[point] = comparison({"dsgt": {0.1: [end, 0.4]}, "sgd": {0.1: [0.3, 0.7]}}, nodes=point.settings.nodes)
        object.__setattr__(found[point].settings, "target", 0.5)
    sweep = Sweep(found)
    table = sweep.table().set_index(["method", "nodes"])
    assert table.loc[("dsgt", 2), "rounds_to_target"] > 0
    assert math.isnan(table.loc[("dsgt", 4), "loss"])
    assert math.isnan(table.loc[("sgd", 2), "rounds_to_target"])  # one of its seeds never does
    assert sweep.plot("loss") is not None


def test_every_metric_has_a_figure_with_a_panel_for_every_other_value_and_its_numbers(
    found: tuple[Sweep, Path], tmp_path: Path
):
    sweep, _ = found
    assert len(sweep.plot("loss").axes) == 2
    assert [axes.get_title() for axes in sweep.plot("loss").axes] == ["partition dirichlet:0.3", "partition equal"]
    sweep.save(tmp_path, figure_width=5)
    for metric in sweep.metrics:
        assert (tmp_path / f"sweep-{metric}.pdf").is_file()
        assert (tmp_path / f"sweep-{metric}.png").is_file()
        numbers = pd.read_csv(tmp_path / f"sweep-{metric}.csv")
        assert (numbers["least"] <= numbers["mean"] + 1e-12).all()
    assert {"speedup", "rounds_over_centralized", "loss", "consensus"} <= set(sweep.metrics)
    line = next(iter(sweep.found.values())).of("dsgt")
    assert pd.read_csv(tmp_path / "sweep-loss.csv")["mean"][0] == pytest.approx(fmean(line.losses))
    with pytest.raises(ValueError, match="no metric of this sweep called 'los'; did you mean 'loss'"):
        sweep.plot("los")


def test_seeds_that_agree_can_be_drawn_and_several_settings_stand_below_each_other():
    three = [0.1, 0.1, 0.1]
    assert fmean(three) > max(three)  # rounding: an error bar below 0 would be refused
    line = comparison({"dsgt": {0.1: three}}).lines[0]
    numbers = [
        {"at": {"nodes": n, "bandwidth": b, "stragglers": s}, "line": line, "loss": three}
        for n in (2, 4) for b in (1e6, 1.25e8) for s in ("none", "exponential")
    ]  # fmt: skip
    drawn = figure(numbers, ["nodes", "bandwidth", "stragglers"], [line], "loss", None, None)
    assert [axes.get_title() for axes in drawn.axes][:2] == [
        "bandwidth 1e+06\nstragglers none",
        "bandwidth 1e+06\nstragglers exponential",
    ]
    assert drawn.axes[0].get_gridspec().get_geometry() == (2, 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sweep", "nodes"], "give a setting and its values"),
        (["--sweep", "nodes="], "give a setting and its values"),
        (["--sweep", "nods=2,3"], "no setting to sweep over called 'nods'; did you mean 'nodes'?"),
        (["--sweep", "seeds=2,3"], "no setting to sweep over called 'seeds'"),
        (["--sweep", "nodes=2,2"], "give a list of different values"),
        (["--sweep", "nodes=2,3", "--sweep", "nodes=4"], "--sweep nodes is given twice"),
        (["--sweep", "nodes=2,3", "--nodes", "4"], "nodes is 4 and is swept over too"),
        (["--sweep", "nodes=2,two"], "nodes is 'two'"),
        (["--sweep", "nodes=2,0"], "nodes is '0'"),
        (["--sweep", "graph=ring,rign"], "graph rign: there is no graph called 'rign'"),
        (["--sweep", "batch=4,64,128", "--sweep", "budget=1rounds,10B"], "no unit of a budget"),
        (["--sweep", "nodes=4,6", "--sweep", "partition=labels:1,labels:99"], "partition labels:99: "),
    ],
)
def test_a_wrong_sweep_is_refused_before_any_run(words: list[str], said: str, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(Job, "__call__", lambda *_: pytest.fail("ran"))
    done = CliRunner().invoke(app, ["compare", "dsgt", *words, "--out", str(tmp_path)])
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())


def test_the_command_sweeps_and_every_point_has_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Sweep, "metrics", ["loss"])  # the other figures are drawn above
    monkeypatch.setattr(dsgt.Comparison, "save", lambda found, folder, **_: folder)
    file = tmp_path / "settings.toml"
    file.write_text('nodes = 9\ngraph = "ring"\nseeds = 1\nlrs = [0.3]\nevaluations = 2\n')
    words = ["compare", "dsgt", "--sweep", "nodes=2,3", "--budget", "3rounds", "--config", str(file), "--workers", "1"]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    for name in ("nodes=2", "nodes=3"):
        assert (tmp_path / "out" / name / "report.html").is_file()
    assert list(pd.read_csv(tmp_path / "out" / "sweep.csv")["nodes"]) == [2, 3]
    assert "dsgt" in done.output
    assert "of the time of the runs" in done.output


def test_the_table_of_a_sweep_over_three_settings_fits_a_narrow_terminal():
    at = points({"bandwidth": [1e6, 1.25e8], "stragglers": ["none", "lognormal:0.8"], "partition": ["equal"]}, {})
    runs = {"dsgt": {25.6: [0.3]}, "momentum-tracking": {0.125: [0.3]}}
    found = Sweep({p: comparison(runs, bandwidth=p.settings.bandwidth) for p in at})
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(sweep_table(found))
    text = console.export_text()
    for whole in ("momentum-tracking", "25.6", "0.125", "lognormal:0.8", "partition equal", "1.25e+08"):
        assert whole in text


@pytest.fixture(scope="module")
def other_weights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sweep, Path]:
    """D² may use Metropolis weights on a ring of five nodes, and not on one of four."""
    at = points({"nodes": [4, 5], "batch": [60]}, {"graph": "ring"})
    runs = {"dsgt": {0.1: [0.4], 0.2: [0.3], 0.4: [0.5]}, "d2": {0.1: [0.4], 0.2: [0.5], 0.4: [0.6]}}
    found = Sweep({p: comparison(runs, nodes=p.settings.nodes) for p in at})
    folder = tmp_path_factory.mktemp("weights")
    assert dsgt.report.save(found, folder, figure_width=3.5) == folder / "index.html"
    return found, folder


def test_a_sweep_says_where_methods_ran_with_other_weights(other_weights: tuple[Sweep, Path]):
    found, folder = other_weights
    said, edge = found.notes
    assert said.startswith(
        "d2 may not use metropolis weights at nodes 4, batch 60, so it ran with lazy-metropolis ones there"
    )
    assert edge.startswith("The best learning rate at any point is the largest or the smallest")
    page = (folder / "index.html").read_text()
    assert "with lazy-metropolis ones there" in page
    assert "so that no verdict holds there" in page
    numbers = pd.read_csv(folder / "sweep-loss.csv")
    assert numbers[numbers["method"] == "d2"]["weights"].tolist() == ["lazy-metropolis", "metropolis"]
    labels = [text.get_text() for text in found.plot("loss").legends[0].get_texts()]
    assert [" ".join(label.split()) for label in labels] == ["DSGT", "D² (lazy-metropolis, metropolis weights)"]


def test_saving_a_sweep_writes_every_report(other_weights: tuple[Sweep, Path]):
    found, folder = other_weights
    for point in found.found:
        assert (folder / point.name / "report.html").is_file()


def test_saving_a_sweep_leaves_no_figure_of_another(other_weights: tuple[Sweep, Path], tmp_path: Path):
    folder = other_weights[0].save(tmp_path)
    assert (folder / "sweep-speedup.pdf").read_bytes().startswith(b"%PDF")
    runs = {"dsgt": {0.1: [0.4]}}
    Sweep({p: comparison(runs, without=("accuracy",)) for p in points({"batch": [60]}, {})}).save(folder)
    assert not list(folder.glob("sweep-speedup.*"))
    assert not list(folder.glob("sweep-accuracy.*"))
    assert (folder / "sweep-loss.pdf").is_file()


def test_only_who_has_numbers_is_in_the_legend_and_every_row_of_panels_has_its_label():
    at = points({"nodes": [2, 4], "batch": [10, 20, 30, 40]}, {"graph": "ring"})
    runs = {"dsgt": {0.1: [0.4]}, "sgd": {0.1: [0.3]}}
    found = Sweep({p: comparison(runs, nodes=p.settings.nodes) for p in at})
    drawn = found.plot("rounds_over_centralized")
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["DSGT"]
    labelled = [bool(axes.get_ylabel()) for axes in drawn.axes]
    assert labelled == [True, False, True, False]


def test_the_table_of_a_sweep_says_who_has_other_weights():
    def headings(sweep: Sweep) -> list[str]:
        return [str(column.header) for column in sweep_table(sweep).columns]

    assert "weights" not in headings(invented({2: 1.0, 4: 1.0}))
    at = points({"nodes": [4, 8]}, {"graph": "ring"})
    other = {p: comparison({"d2": {0.1: [0.3]}}, nodes=p.settings.nodes, graph="ring") for p in at}
    assert "weights" in headings(Sweep(other))
