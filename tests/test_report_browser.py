"""The report in a real browser: skipped where there is none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsgt.report import page
from support.browser import BROWSER, Browser
from support.invented_comparison import comparison
from test_report import HOSTILE, hostile

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no browser: install chromium, or name one in the environment variable DSGT_BROWSER"
)

FINALS = {
    "dsgt": {0.05: [0.4, 0.42], 0.1: [0.3, 0.32], 5.0: [math.inf, math.inf]},
    "dpsgd": {0.05: [0.5, 0.52], 0.1: [0.4, 0.45], 5.0: [3.0, math.inf]},
    "d2": {0.05: [math.inf, 0.4], 0.1: [math.inf, math.inf], 5.0: [math.inf, math.inf]},
    "sgd": {0.05: [0.4, 0.42], 0.1: [0.29, 0.31], 5.0: [0.9, 0.8]},
}
PLOTS = "['plot-loss', 'plot-accuracy', 'plot-node_accuracy_min', 'plot-consensus', 'plot-grid']"
NAMES = "[...new Set(document.getElementById('{}').data.map(t => t.name).filter(Boolean))]"
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert BROWSER is not None
    browser = Browser(BROWSER)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(comparison(FINALS)), encoding="utf-8")
    return path


def background(browser: Browser) -> list[int]:
    return browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")


def test_it_loads_without_a_complaint_fetches_nothing_and_draws_every_figure(browser: Browser, report: Path):
    browser.open(report)
    assert browser.run(f"{PLOTS}.map(id => document.querySelectorAll(`#${{id}} .scatterlayer .trace`).length > 0)") == (
        [True] * 5
    )
    assert browser.run(NAMES.format("plot-loss")) == list(FINALS)
    # two networks of four nodes: D² may not use a ring's Metropolis weights, whose smallest eigenvalue is -1/3
    assert browser.run("document.querySelectorAll('.drawing circle').length") == 2 * 4
    assert browser.complaints() == []
    assert browser.requests() == []


def test_the_axis_and_the_logarithm_can_be_switched_and_the_command_copied(browser: Browser, report: Path):
    browser.open(report)
    last, title = "document.getElementById('plot-loss').data.at(-1).x.at(-1)", "#plot-loss .xtitle"
    assert browser.run(last) == 4
    for key, value, name in (("round", 40, "rounds"), ("virtual_seconds", 5.7143, "virtual seconds")):
        browser.run(f"document.querySelector('input[value={key}]').click()")
        assert browser.run(last) == value
        assert browser.run(f"document.querySelector('{title}').textContent") == name
    scale = "document.getElementById('plot-loss')._fullLayout.yaxis.type"
    assert browser.run(scale) == "log"
    browser.run("document.getElementById('log').focus()")
    browser.press(" ")
    assert browser.run(scale) == "linear"
    copy = "document.querySelector('[data-copy=command]')"
    browser.run(f"{copy}.click()")  # a browser that may not copy selects
    browser.wait(f"['Copied', 'Selected'].includes({copy}.textContent)")
    assert browser.complaints() == []


def test_a_method_that_is_switched_off_is_gone_everywhere_until_it_is_switched_on(browser: Browser, report: Path):
    browser.open(report)
    seen = "[...document.querySelectorAll('[data-method=\"1\"]')].map(e => e.checkVisibility())"
    assert browser.run(seen) == [True, True, True]  # results, costs, weights
    browser.run("document.querySelector('[data-toggle=\"1\"]').focus()")
    browser.press(" ")
    assert browser.run("document.querySelector('[data-toggle=\"1\"]').ariaPressed") == "false"
    assert browser.run(f"{PLOTS}.map(id => document.getElementById(id).data.some(t => t.name === 'dpsgd'))") == (
        [False] * 5
    )
    assert browser.run(seen) == [False, False, False]
    for number in (0, 2, 3, 1):  # with nobody left there is nothing to draw, and no error either
        browser.run(f"document.querySelector('[data-toggle=\"{number}\"]').click()")
    assert browser.run(NAMES.format("plot-loss")) == ["dpsgd"]
    assert browser.complaints() == []


def test_it_fits_a_phone(browser: Browser, report: Path):
    browser.open(report, width=360, height=740)
    assert browser.run("document.documentElement.clientWidth") == 360
    assert not browser.run(WIDER)
    assert browser.run("document.querySelector('#plot-loss .main-svg').clientWidth") <= 336


def test_it_is_dark_when_the_system_is_and_when_the_button_says_so(browser: Browser, report: Path):
    ink = "getComputedStyle(document.querySelector('#plot-loss .xtitle')).fill.match(/\\d+/g).map(Number)"
    browser.open(report)
    assert min(background(browser)) > 200
    assert max(browser.run(ink)) < 100
    browser.run("document.getElementById('theme').click()")
    assert max(background(browser)) < 60
    assert min(browser.run(ink)) > 200
    browser.open(report, dark=True)
    assert max(background(browser)) < 60
    browser.run("document.getElementById('theme').click()")
    assert min(background(browser)) > 200
    assert browser.complaints() == []


def test_it_is_printed_in_light_with_figures_of_the_width_of_the_sheet(browser: Browser, report: Path):
    browser.open(report, dark=True)
    width, theme = "document.getElementById('plot-grid')._fullLayout.width", "document.documentElement.dataset.theme"
    browser.run(f"addEventListener('beforeprint', () => {{ window.printed = [{width}, {theme}] }})")
    assert browser.pdf().startswith(b"%PDF")
    printed = browser.run("window.printed")
    assert printed[0] <= 680
    assert printed[1] == "light"
    assert max(background(browser)) < 60  # afterwards it is as it was
    assert browser.run(width) > 680


def test_names_that_try_to_be_code_are_only_names(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "hostile.html"
    path.write_text(page(hostile(monkeypatch)), encoding="utf-8")
    browser.open(path, width=360)
    assert browser.run("typeof window.hacked") == "undefined"
    assert browser.run("document.querySelectorAll('img, main script, svg[onload]').length") == 0
    assert browser.run("[...document.querySelectorAll('.chip')].map(c => c.textContent)") == HOSTILE
    assert browser.run("document.querySelectorAll('.plot a, .plot script, .plot image').length") == 0
    assert not browser.run(WIDER)
    assert browser.complaints() == []
    assert browser.requests() == []


def test_a_script_that_is_not_the_pages_own_does_not_run(browser: Browser, report: Path, tmp_path: Path):
    path = tmp_path / "changed.html"
    text = report.read_text(encoding="utf-8")
    path.write_text(text.replace("<main>", "<main><script>window.hacked = 1</script>"), encoding="utf-8")
    browser.open(path)
    assert browser.run("typeof window.hacked") == "undefined"


@pytest.mark.parametrize(
    "given",
    [
        {"finals": {"dsgt": {0.1: [0.3]}}, "without": ("accuracy", "node_accuracy_min", "consensus")},
        {"finals": {"dsgt": {9.0: [math.inf, math.inf]}}},
        {"finals": {"dsgt": {0.1: [0.3]}, "sgd": {0.1: [0.3]}}, "nodes": 300, "partition": "equal", "batch": 600},
    ],
    ids=["loss only", "all diverged", "many nodes"],
)
def test_a_page_with_little_to_show_draws_what_there_is(browser: Browser, tmp_path: Path, given: dict):
    path = tmp_path / "little.html"
    path.write_text(page(comparison(given.pop("finals"), **given)), encoding="utf-8")
    browser.open(path)
    assert browser.run("[...document.querySelectorAll('.plot')].every(p => p.querySelector('.main-svg'))")
    assert browser.complaints() == []
