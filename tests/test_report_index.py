"""Cards of methods, the distances of nodes, and an index over many comparisons."""

from __future__ import annotations

import base64
import json
import math
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dsgt
from dsgt.algorithms import ALGORITHMS, COMPOSITIONS
from dsgt.algorithms.named import method
from dsgt.cli import app
from dsgt.comparison import Job, Point, Settings, Sweep
from dsgt.report import index, page, summary
from dsgt.report.cards import card
from dsgt.report.curves import apart
from dsgt.report.page import fields
from support.invented_comparison import comparison


class Own(dsgt.DSGT):
    """Half of DSGT.

    X' = W (X - lr/2 Y)
    """


def written(folder: Path, loss: float = 0.3, **given: object) -> Path:
    """The summary that ``report.save`` writes beside the page."""
    folder.mkdir(parents=True)
    found = comparison({"dsgt": {0.1: [loss] * 3}, "sgd": {0.1: [loss] * 3}}, **given)
    summary.write(summary.summary(found, fields(found.settings)), folder)
    return folder


def test_a_summary_begins_with_the_axis_of_the_page(tmp_path: Path):
    found = comparison({"dsgt": {0.1: [0.3]}, "choco": {0.1: [0.3]}})
    given = fields(found.settings)
    assert summary.summary(found, given)["axis"] == found.axis == "megabytes", "choco packs what it sends"
    assert summary.summary(found, given, against="virtual_seconds")["axis"] == "virtual_seconds"


@pytest.mark.parametrize("name", [*ALGORITHMS, *COMPOSITIONS])
def test_a_card_says_how_a_method_moves_what_it_guarantees_and_what_it_needs(name: str):
    made = card("title", method(name))
    assert "=" in made.equation
    assert not made.equation.startswith(" ")
    assert 5 < len(made.about) < 200
    assert len(made.guarantee) > 20
    assert dict(made.facts)["needs of W"] == str(method(name).needs)
    assert all(meaning for _, _, meaning in made.parameters)


def test_a_card_says_to_whom_and_how_packed_a_method_sends():
    sends = {name: dict(card("", method(name)).facts)["sends"] for name in ("dsgt", "choco", "sgd")}
    assert sends["dsgt"] == "2 m-vectors a round to each neighbour"
    assert sends["choco"] == f"1 m-vector a round to each neighbour, packed by {method('choco').compress}"
    assert sends["sgd"] == "1 m-vector a round in an all-reduce of all nodes"


def test_cards_show_the_parameters_that_ran_and_your_own_words():
    assert ("beta", "0.5") in [p[:2] for p in card("", method("decentlam:beta=0.5")).parameters]
    own = card("Own", Own())
    assert (own.about, own.equation) == ("Half of DSGT", "X' = W (X - lr/2 Y)")
    assert own.guarantee == ""  # DSGT's would not be its own
    assert card("Bare", type("Bare", (dsgt.DSGT,), {})()).about == ""
    html = page(comparison({"dsgt": {0.1: [0.3]}, "d2": {0.1: [0.3]}}))
    assert "<strong>D²</strong> <code>d2</code>" in html
    assert "X&#39; = W (X - lr Y)" in html


def test_the_distances_of_the_first_reported_seed_are_measured_and_agree_with_the_consensus():
    settings = Settings(methods=("dsgt",), nodes=4, graph="ring", lrs=(0.2, 0.4), seeds=2, budget="4rounds", grow=0)
    rows = {seed: Job(settings, "dsgt", 0.2, seed)() for seed in (0, 1, 10_000)}
    assert not [key for seed in (1, 10_000) for key in rows[seed][0] if key.startswith("apart_")]
    for row in rows[0]:
        square = math.fsum(row[f"apart_{i}"] ** 2 for i in range(4)) / 4
        assert math.sqrt(square) == pytest.approx(row["consensus"], rel=1e-5, abs=1e-12)  # float32
    assert "apart_4" not in rows[0][0]


def test_the_page_gets_the_distances_of_every_method_but_one_model_for_all():
    shown = apart(comparison({"dsgt": {0.1: [0.3, 0.3]}, "sgd": {0.1: [0.3, 0.3]}}, apart=3).lines)
    assert shown[1] is None
    assert shown[0] == {"round": [0, 10, 20, 30, 40], "values": [[v / 2**k for v in (1, 2, 3)] for k in range(5)]}
    assert apart(comparison({"dsgt": {0.1: [0.3]}}).lines) == [None]
    assert 'id="apart-time"' not in page(comparison({"dsgt": {0.1: [0.3]}}))
    assert 'id="apart-time"' in page(comparison({"dsgt": {0.1: [0.3]}}, apart=4))


def test_the_command_finds_comparisons_in_folders_and_in_folders_of_folders(tmp_path: Path):
    written(tmp_path / "runs" / "a", graph="ring")
    written(tmp_path / "runs" / "deep" / "b", loss=0.5, graph="star")
    out = tmp_path / "pages" / "index.html"
    done = CliRunner().invoke(app, ["report", str(tmp_path / "runs"), str(tmp_path / "runs" / "a"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    html = out.read_text()
    assert html.count('<th scope="rowgroup"') == 2  # each once
    assert 'href="../runs/a/report.html"' in html
    assert 'href="../runs/deep/b/report.html"' in html
    assert '<th scope="col" class="word">graph</th>' in html
    assert "The same in all of them: data digits, model logistic, statistics own, dtype float32, nodes 4" in html
    assert "DSGT (0.5)" in html


def test_the_page_of_a_sweep_has_its_figures_and_its_points_in_the_order_of_their_values(tmp_path: Path):
    out = tmp_path / "out"
    found = {}
    for nodes in (16, 4, 8):
        found_here = comparison({"dsgt": {0.1: [0.3] * 2}}, nodes=nodes)
        point = Point({"nodes": nodes}, found_here.settings)
        found[point] = found_here
        (out / point.name).mkdir(parents=True)
        summary.write(summary.summary(found_here, fields(found_here.settings)), out / point.name)
    swept = Sweep(found)
    swept.save(out)
    html = index([out], tmp_path / "index.html").read_text()
    assert re.findall(">(nodes=[0-9]+)</a>", html) == ["nodes=4", "nodes=8", "nodes=16"]
    pictures = re.findall('<img src="data:image/png;base64,([^"]+)" alt="([^"]+)"', html)
    assert len(pictures) == len(swept.metrics)
    assert base64.b64decode(pictures[0][0]) == (out / "sweep-loss.png").read_bytes()
    assert pictures[0][1].startswith("Lines: training loss against nodes, one line per method.")
    assert 'href="out/sweep-loss.csv"' in html
    written(tmp_path / "another")
    assert "<img" not in index([tmp_path], tmp_path / "index.html").read_text(), "not all are of the sweep"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"methods": NaN}', "[" * 100_000])
def test_a_summary_that_is_none_is_named(text: str, tmp_path: Path):
    (tmp_path / "report.json").write_text(text)
    done = CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(tmp_path / "index.html")])
    assert done.exit_code == 2
    assert "report.json is not what dsgt compare writes" in " ".join(done.output.split())
    assert not (tmp_path / "index.html").exists()


def test_folders_without_a_comparison_are_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"there is no comparison in .*nowhere"):
        index([tmp_path / "nowhere"], tmp_path / "index.html")


def test_names_that_try_to_be_code_are_only_names_in_an_index_too(tmp_path: Path):
    folder = written(tmp_path / "<img src=x onerror=alert(1)>")
    about = json.loads((folder / "report.json").read_text())
    about["verdict"] = ["</script><script>window.hacked = 1</script>", ""]
    summary.write(about, folder)
    written(tmp_path / "other")
    html = index([tmp_path], tmp_path / "index.html").read_text()
    assert "<img" not in html.split("<main>")[1].split("</main>")[0]
    assert "window.hacked = 1</script>" not in html
    assert "&lt;/script&gt;&lt;script&gt;window.hacked" in html


def test_the_summary_is_what_the_page_shows(tmp_path: Path):
    about = json.loads((written(tmp_path / "one") / "report.json").read_text())
    assert about["best"] == {"name": "dsgt", "loss": pytest.approx(0.3)}
    assert [m["title"] for m in about["methods"]] == ["DSGT", "centralized SGD"]
    found = comparison({"dsgt": {9.0: [math.inf] * 2}})
    assert summary.summary(found, {})["best"] is None
