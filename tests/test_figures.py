"""Figures and tables for papers: as wide as asked for, readable by everybody, and with their numbers beside them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image
from typer.testing import CliRunner

import dsgt
from dsgt.algorithms import ALGORITHMS, COMPOSITIONS
from dsgt.algorithms.named import method, title
from dsgt.cli import app
from dsgt.commands.options import inches
from dsgt.comparison.figure import figure, looks
from dsgt.paper_figure import COLOURS, STYLE, scale
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


def drawn(figure_: Figure) -> Figure:
    FigureCanvasAgg(figure_).draw()
    return figure_


@pytest.mark.parametrize("wide", [3.5, 7.0])
@pytest.mark.parametrize("count", [2, 8, 20])
def test_panels_keep_their_height_however_many_methods_there_are(count: int, wide: float):
    lines = comparison({name: {0.1: [0.3]} for name in list(ALGORITHMS)[:count]}).lines
    whole = drawn(figure(lines, width=wide))
    assert min(axes.get_window_extent().height for axes in whole.axes) > 0.9 * whole.dpi
    _inside(whole)


def _inside(whole: Figure) -> None:
    (legend,) = whole.legends
    box, bottom = legend.get_window_extent(), max(axes.get_window_extent().y1 for axes in whole.axes)
    assert box.x0 >= 0
    assert box.x1 <= whole.bbox.x1
    assert bottom <= box.y0 < box.y1 <= whole.bbox.y1


def test_long_names_of_ones_own_stay_within_the_figure_with_what_tells_them_apart(monkeypatch):
    class CautiouslyDampedGradientTrackingWithPeriodicRestarts(dsgt.DSGT):
        pass

    monkeypatch.setitem(dsgt.ALGORITHMS, "long", CautiouslyDampedGradientTrackingWithPeriodicRestarts)
    lines = comparison({"long": {0.1: [0.3]}, "dsgt": {0.1: [0.4]}}).lines
    variants = [replace(line, title=f"{line.title} (damping={d})") for line in lines[:1] for d in (0.25, 0.5)]
    whole = drawn(figure([*variants, lines[1]], width=3.5))
    _inside(whole)
    labels = [text.get_text().replace("\n", "") for text in whole.legends[0].get_texts()]
    assert [label.partition("damping=")[2].partition(")")[0] for label in labels] == ["0.25", "0.5", ""]


def test_variants_of_ones_own_class_are_titled_by_what_was_typed(tmp_path: Path, monkeypatch):
    (tmp_path / "plain.py").write_text(
        "import dsgt\n\n\nclass Mine(dsgt.DSGT):\n    def __init__(self, damping=0.1):\n        self.damping = 0.1\n"
    )
    monkeypatch.chdir(tmp_path)
    found = comparison({f"plain:Mine:damping={d}": {0.1: [0.3]} for d in (0.25, 0.5)} | {"dsgt": {0.1: [0.3]}})
    assert [line.title for line in found.lines] == ["Mine (damping=0.25)", "Mine (damping=0.5)", "DSGT"]


def test_of_two_equal_curves_both_are_seen():
    found = looks(comparison({name: {0.1: [0.3]} for name in ("dsgt", "d2", "extra")}).lines)
    assert [look["lw"] for look in found] == [2.0, 1.5, 1.0]
    rows = comparison({name: {0.1: [0.3]} for name in ("dsgt", "d2")})
    many = [row | {"round": k} for row in rows.rows if row["round"] == 0 for k in range(43)]
    first, second = figure(dsgt.comparison.Comparison(rows.settings, many).lines).axes[0].lines
    assert first.get_markevery() == (0, 6)
    assert second.get_markevery() == (3, 6)


@pytest.mark.parametrize(("low", "high"), [(28.0, 29.4), (0.02, 0.9), (0.3, 0.31), (1e-3, 0.5), (90.0, 160.0)])
def test_a_logarithmic_axis_has_more_than_two_numbers(low: float, high: float):
    with rc_context(STYLE):
        whole = Figure()
        axes = whole.subplots()
        axes.plot([0, 1], [low, high])
        scale(axes, log=True)
        drawn(whole)
    shown = [t.get_text() for t in axes.get_yticklabels(which="both") if t.get_text()]
    seen = [float(t) for t in shown if axes.get_ylim()[0] <= float(t) <= axes.get_ylim()[1]]
    assert axes.get_yscale() == "log"
    assert len(set(seen)) > 2
    assert all(f"{v:g}" in shown for v in seen)


def test_where_everything_diverged_the_figure_says_so():
    panel = figure(comparison({"dsgt": {0.1: [math.inf]}}).lines).axes[0]
    assert [text.get_text() for text in panel.texts] == ["every run diverged"]
    assert not len(panel.get_xticks())


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
    assert "    DSGT & metropolis & 0.1 & 0.310 $\\pm$ 0.014 &" in text
    assert "weights" not in next(line for line in text.splitlines() if "caption" in line), "a column says them"
    assert text.startswith("% \\usepackage{booktabs,graphicx}")
    assert r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%" in text
    assert "    D$^2$ & lazy-metropolis & 0.1 &" in text
    assert text.count("{") == text.count("}")
    widths = {line.count("&") for line in text.splitlines() if line.endswith("\\\\")}
    assert widths == {len(table(comparison(FINALS).lines))}


def test_what_latex_would_read_as_its_own_is_escaped():
    lines = comparison({"dsgt": {0.1: [0.3]}}).lines
    text = latex(lines, [Column("a_b", "", ["50 % & $x$ \\ {y}"], frozenset({0}))], "#1 ~ ^")
    assert r"DSGT & \textbf{50 \% \& \$x\$ \textbackslash{} \{y\}} \\" in text
    assert r"Method & a\_b \\" in text
    assert r"\caption{\#1 \textasciitilde{} \textasciicircum{}; bold: whom the seeds do not tell from the best}" in text


def test_the_table_for_a_paper_is_as_wide_as_the_page_and_says_what_its_signs_mean():
    lines = comparison({"dsgt": {0.1: [0.3]}}).lines
    text = latex(lines, [Column("loss", "", ["0.30 ± 0.02"], frozenset())], "two nodes")
    assert text.count("{table*}") == 2
    assert r"\caption{two nodes; mean $\pm$ standard deviation over the seeds}" in text
    assert r"\caption{two nodes}" in latex(lines, [Column("loss", "", ["0.30"], frozenset())], "two nodes")


@pytest.mark.parametrize("methods", [2, 6])
def test_a_figure_for_a_narrow_column_leaves_room_on_its_page(methods: int):
    names = ("dsgt", "dpsgd", "d2", "extra", "sgd", "momentum-tracking")[:methods]
    drawn = comparison({name: {0.1: [0.3]} for name in names}).plot(width=3.5)
    assert len(drawn.axes) == 3
    assert drawn.get_figheight() < 7.5


@pytest.mark.parametrize("width", ["3.5in", 0, -1, math.inf, math.nan])
def test_a_width_that_is_none_is_refused(width: object):
    with pytest.raises(ValueError, match=r"the width of a figure is .*; give it in inches, as in 3\.5"):
        comparison(FINALS).plot(width=width)


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
