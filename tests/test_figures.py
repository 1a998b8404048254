"""Figures and tables for papers: as wide as asked for, readable by everybody, and with their numbers beside them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from PIL import Image
from typer.testing import CliRunner

import dsgt
from dsgt.algorithms import ALGORITHMS, COMPOSITIONS
from dsgt.algorithms.named import method, title
from dsgt.cli import app
from dsgt.commands.options import inches
from dsgt.comparison.figure import COLOURS, figure, looks
from dsgt.report.latex import latex
from dsgt.report.results import Column, table
from support.invented_comparison import comparison

FINALS = {
    "dsgt": {0.05: [0.4, 0.42], 0.1: [0.3, 0.32]},
    "d2": {0.05: [0.5, 0.52], 0.1: [0.4, 0.45]},
    "dpsgd": {0.05: [math.inf, 0.4], 0.1: [math.inf, math.inf]},
    "sgd": {0.05: [0.4, 0.42], 0.1: [0.29, 0.31]},
}


class Mine(dsgt.DSGT):
    pass


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    dsgt.report.save(comparison(FINALS), folder, figure_width=3.5)
    return folder


def test_methods_are_called_as_papers_call_them_and_no_two_the_same():
    titles = [title(method(name)) for name in ALGORITHMS | COMPOSITIONS]
    assert len(set(titles)) == len(titles)
    assert max(map(len, titles)) < 30
    assert [title(method(name)) for name in ("dsgt", "d2", "qg-dsgdm", "decentlam:beta=0.5")] == [
        "DSGT", "D²", "QG-DSGDm", "DecentLaM (beta=0.5)",
    ]  # fmt: skip
    assert title(Mine()) == "Mine"


def test_two_methods_of_one_title_keep_their_names_apart(monkeypatch):
    monkeypatch.setitem(dsgt.ALGORITHMS, "mine", Mine)
    monkeypatch.setitem(dsgt.ALGORITHMS, "yours", type("Yours", (dsgt.DSGT,), {"__module__": __name__}))
    found = comparison({"mine": {0.1: [0.3]}, "yours": {0.1: [0.3]}, "dsgt": {0.1: [0.3]}})
    assert [line.title for line in found.lines] == ["mine", "yours", "DSGT"]


@pytest.mark.parametrize(("text", "wide"), [("3.5in", 3.5), ("8.9 cm", 3.504), ("89mm", 3.504), ("252pt", 3.487)])
def test_a_width_is_given_in_the_units_of_journals(text: str, wide: float):
    assert inches(text) == pytest.approx(wide, abs=1e-3)


@pytest.mark.parametrize("text", ["3.5", "0in", "-2cm", "wide", "1e9in", "3,5in"])
def test_another_width_is_refused_before_any_run(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dsgt.comparison.Job, "__call__", lambda *_: pytest.fail("ran"))
    done = CliRunner().invoke(app, ["compare", "--figure-width", text, "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert f"the width of a figure is '{text}'; give 1 to 40 inches" in " ".join(done.output.split())


def test_a_figure_is_as_wide_as_asked_for_in_300_dpi_with_fonts_that_stay_text(saved: Path):
    with Image.open(saved / "comparison.png") as picture:
        assert picture.width == 1050
        assert picture.info["dpi"][0] == pytest.approx(300, abs=0.1)
    fonts = (saved / "comparison.pdf").read_bytes()
    assert b"/Subtype /Type0" in fonts  # Type 42 in PDF's words
    assert b"/Type3" not in fonts
    assert b"/FontFile2" in fonts


def test_whoever_saves_a_plot_gets_the_same_fonts(tmp_path: Path):
    comparison(FINALS).plot(width=4).savefig(tmp_path / "mine.pdf")
    assert b"/Type3" not in (tmp_path / "mine.pdf").read_bytes()


def test_panels_stand_side_by_side_where_they_fit_and_beneath_each_other_where_not():
    lines = comparison(FINALS).lines
    wide, narrow = (figure(lines, width=w) for w in (7.2, 3.5))
    assert len({round(a.get_position().y0, 2) for a in wide.axes}) == 1
    assert len({round(a.get_position().y0, 2) for a in narrow.axes}) == 3
    assert [a.get_xlabel() for a in figure(lines, axis="megabytes").axes] == ["megabytes sent"] * 3


def test_lines_differ_by_more_than_their_colour_and_colours_by_more_than_their_hue():
    names = list(ALGORITHMS)[:20]
    found = looks(comparison({name: {0.1: [0.3]} for name in names}).lines)
    assert len({tuple(map(str, look.values())) for look in found}) == 20
    assert found[0] == {"color": "#4d4d4d", "ls": "--"}  # sgd, the reference
    # the three kinds of colour blindness confuse along lines in linear RGB: Viénot, Brettel and Mollon 1999
    blind = {
        "red": [[0.1121, 0.8853, -0.0005], [0.1127, 0.8897, -0.0001], [0.0045, 0.0, 1.0019]],
        "green": [[0.2920, 0.7054, -0.0003], [0.2934, 0.7089, 0.0], [-0.0210, 0.0256, 1.0]],
    }
    linear = np.array([[((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)] for colour in COLOURS])
    for matrix in blind.values():
        seen = linear @ np.array(matrix).T
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=-1)[~np.eye(len(COLOURS), dtype=bool)]
        assert apart.min() > 0.08


def test_every_panel_has_its_numbers_beside_it(saved: Path):
    found = comparison(FINALS)
    for key in ("loss", "node_accuracy_min", "consensus"):
        numbers = pd.read_csv(saved / f"comparison-{key}.csv")
        assert set(numbers["method"]) == {"dsgt", "d2", "sgd"}
        one = numbers[numbers["method"] == "dsgt"]
        for column, values in zip(("mean", "least", "largest"), found.of("dsgt").curve(key), strict=True):
            np.testing.assert_allclose(one[column], np.array(values, dtype=float))
        assert list(one["epochs"]) == [0, 1, 2, 3, 4]
        assert list(one["megabytes"]) == pytest.approx(found.curve("dsgt", key, "megabytes")[0])


def test_the_table_is_latex(saved: Path):
    text = (saved / "table.tex").read_text()
    assert "    DSGT & metropolis & 0.1 & 0.3100 $\\pm$ 0.0100 &" in text
    assert "    D$^2$ & lazy-metropolis & 0.1 &" in text
    assert text.count("{") == text.count("}")
    widths = {line.count("&") for line in text.splitlines() if line.endswith("\\\\")}
    assert widths == {len(table(comparison(FINALS).lines))}


def test_what_latex_would_read_as_its_own_is_escaped():
    lines = comparison({"dsgt": {0.1: [0.3]}}).lines
    text = latex(lines, [Column("a_b", "", ["50 % & $x$ \\ {y}"], frozenset({0}))], "#1 ~ ^")
    assert r"DSGT & \textbf{50 \% \& \$x\$ \textbackslash{} \{y\}} \\" in text
    assert r"Method & a\_b \\" in text
    assert r"\caption{\#1 \textasciitilde{} \textasciicircum{}}" in text


def test_an_axis_that_is_none_is_refused():
    with pytest.raises(ValueError, match="no axis called 'epoch'; did you mean 'epochs'"):
        comparison(FINALS).plot(against="epoch")


def test_what_is_measured_seldom_is_drawn_from_point_to_point(tmp_path: Path):
    found = comparison(FINALS)
    for row in found.rows:
        if row["round"] % 20:
            row.pop("node_accuracy_min", None)
    panel = next(axes for axes in figure(found.lines).axes if axes.get_ylabel() == "worst node's accuracy")
    line = next(line for line in panel.lines if str(line.get_label()).startswith("DSGT"))
    assert list(line.get_xdata()) == [0, 2, 4]
    assert np.isfinite(line.get_ydata()).all()
    found.save(tmp_path)
    assert set(pd.read_csv(tmp_path / "comparison-node_accuracy_min.csv")["round"]) == {0, 20, 40}
    assert set(pd.read_csv(tmp_path / "comparison-loss.csv")["round"]) == {0, 10, 20, 30, 40}
