"""The report in a real browser: skipped where there is none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

import dsgt
from dsgt.comparison import Comparison
from dsgt.report import index, page, summary
from dsgt.report.page import fields
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
TITLES = ["DSGT", "D-PSGD", "D²", "centralized SGD"]
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
    path.write_text(page(comparison(FINALS, apart=4)), encoding="utf-8")
    return path


def test_losses_that_differ_little_have_numbers_beside_them(browser: Browser, tmp_path: Path):
    path = tmp_path / "near.html"
    found = comparison({"dsgt": {0.1: [2.3210, 2.3214]}, "dpsgd": {0.1: [2.3240, 2.3242]}})
    for row in found.rows:
        row["loss"] = 2.32 + 0.002 * row["loss"] / 2.3
        row["accuracy"] = 0.1 + 0.0001 * row["loss"]
    path.write_text(page(found), encoding="utf-8")
    browser.open(path)
    seen = "[...document.querySelectorAll('#plot-{} .ytick text')].map(t => t.textContent)"
    assert len(browser.run(seen.format("loss"))) > 2
    assert len(set(browser.run(seen.format("accuracy")))) == len(browser.run(seen.format("accuracy"))) > 1


def background(browser: Browser) -> list[int]:
    return browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")


def test_it_loads_without_a_complaint_fetches_nothing_and_draws_every_figure(browser: Browser, report: Path):
    browser.open(report)
    assert browser.run(f"{PLOTS}.map(id => document.querySelectorAll(`#${{id}} .scatterlayer .trace`).length > 0)") == (
        [True] * 5
    )
    assert browser.run(NAMES.format("plot-loss")) == TITLES
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
    assert browser.run(seen) == [True] * 4  # results, costs, its card, weights
    browser.run("document.querySelector('[data-toggle=\"1\"]').focus()")
    browser.press(" ")
    assert browser.run("document.querySelector('[data-toggle=\"1\"]').ariaPressed") == "false"
    assert browser.run(f"{PLOTS}.map(id => document.getElementById(id).data.some(t => t.name === 'D-PSGD'))") == (
        [False] * 5
    )
    assert browser.run(seen) == [False] * 4
    for number in (0, 2, 3, 1):  # with nobody left there is nothing to draw, and no error either
        browser.run(f"document.querySelector('[data-toggle=\"{number}\"]').click()")
    assert browser.run(NAMES.format("plot-loss")) == ["D-PSGD"]
    assert browser.complaints() == []


def test_the_nodes_distances_are_shown_on_the_graph_and_moved_by_the_keyboard(browser: Browser, report: Path):
    browser.open(report)
    fills = "[...document.querySelectorAll('[data-drawing]:not([data-off]) circle')].map(c => c.style.fill)"
    said, value = "document.getElementById('apart-said').textContent", "document.getElementById('apart-time').value"
    browser.run("document.getElementById('apart-time').focus()")
    browser.strike("Home", 36)
    assert browser.run(said) == "after round 0: node 3 is farthest, 4"
    first = browser.run(fills)
    assert len(set(first)) == 4
    assert first[3].startswith("color-mix(in srgb, var(--apart)")
    browser.strike("ArrowRight", 39)
    assert browser.run(value) == "1"
    assert browser.run(said) == "after round 10: node 3 is farthest, 2"
    assert browser.run(fills) != first
    browser.strike("End", 35)
    assert browser.run(said) == "after round 40: node 3 is farthest, 0.25"
    assert browser.run("document.querySelector('[data-node=\"1\"] title').textContent").endswith(
        "; 0.13 from the mean model"
    )
    # D² ran with other weights, which are then the ones that are drawn; centralized SGD has nothing to show
    shown = "document.querySelector('[data-drawing]:not([data-off])').dataset.rule"
    assert browser.run(shown) == "metropolis"
    names = "[...document.getElementById('apart-method').options].map(o => o.textContent)"
    assert browser.run(names) == ["DSGT", "D-PSGD", "D²"]
    choose = "const m = document.getElementById('apart-method'); m.value = '2'; m.dispatchEvent(new Event('change'))"
    browser.run(f"{{ {choose} }}")
    assert browser.run(shown) == "lazy-metropolis"
    assert browser.run(said) == "after round 20: node 3 is farthest, 1"  # where its first seed diverged
    assert browser.complaints() == []


@pytest.mark.parametrize("dark", [False, True])
def test_text_and_lines_stand_out_from_what_is_behind_them(browser: Browser, report: Path, dark: bool):
    """As WCAG 2.2 counts: 4.5 for text, 3 for what is drawn."""
    browser.open(report, dark=dark)
    rgb = "(n) => {{ const i = document.createElement('i'); document.body.append(i); i.style.color = `var(--${{n}})`; "
    rgb += "const c = getComputedStyle(i).color.match(/[\\d.]+/g).map(Number); i.remove(); return c }}"
    names = ["card", "paper", "wash", "ink", "soft", "accent", "negative", "c-ink", *(f"c-{k}" for k in range(6))]
    found = browser.run(f"{names}.map({rgb.replace('{{', '{').replace('}}', '}')})")
    colours = dict(zip(names, found, strict=True))

    def light(name: str) -> float:
        parts = [c / 255 for c in colours[name][:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(a: str, b: str) -> float:
        low, high = sorted((light(a), light(b)))
        return (high + 0.05) / (low + 0.05)

    for behind in ("card", "paper"):
        assert min(contrast(name, behind) for name in ("ink", "soft", "accent", "negative")) >= 4.5
    assert contrast("ink", "wash") >= 4.5
    assert min(contrast(name, "card") for name in names if name.startswith("c-")) >= 3


def test_every_switch_is_reached_by_the_tab_key_and_has_a_name(browser: Browser, report: Path):
    browser.open(report)
    wanted = (
        "[...document.querySelectorAll('button, select, input, summary, a[href]')].filter(e => e.checkVisibility())"
    )
    groups = f"new Set({wanted}.map(e => e.type === 'radio' ? e.name : e)).size"
    reached: set[int] = set()
    for _ in range(80):
        browser.strike("Tab", 9)
        reached.add(browser.run(f"{wanted}.indexOf(document.activeElement)"))
        if len(reached - {-1}) == browser.run(groups):
            break
    assert len(reached - {-1}) == browser.run(groups)
    nameless = f"{wanted}.filter(e => !(e.ariaLabel || e.labels?.length || e.textContent.trim())).length"
    assert browser.run(nameless) == 0


def test_twenty_methods_with_five_seeds_make_a_small_page_that_is_drawn_whole(browser: Browser, tmp_path: Path):
    names = list(dsgt.ALGORITHMS)[:20]
    found = comparison({name: {0.1: [0.3] * 5, 0.2: [0.4] * 5} for name in names}, apart=4)
    path = tmp_path / "many.html"
    path.write_text(page(found), encoding="utf-8")
    assert path.stat().st_size - len(get_plotlyjs().encode()) < 200_000
    browser.open(path)
    assert len(browser.run(NAMES.format("plot-loss"))) == 20
    assert browser.run("document.querySelectorAll('details.card[open]').length") == 0  # closed: there are many
    assert not browser.run(WIDER)
    assert browser.complaints() == []


def test_an_index_has_every_comparison_and_any_two_side_by_side(browser: Browser, tmp_path: Path):
    losses = {"ring": 0.3, "star": 0.5, "path": 0.4}
    for name, loss in losses.items():
        (tmp_path / name).mkdir()
        found = comparison({"dsgt": {0.1: [loss] * 3}, "dpsgd": {0.1: [2 * loss] * 3}}, graph=name)
        summary.write(summary.summary(found, fields(found.settings)), tmp_path / name)
    browser.open(index([tmp_path], tmp_path / "index.html"))
    links = browser.run("[...document.querySelectorAll('tbody a')].map(a => [a.textContent, a.getAttribute('href')])")
    assert links == [[name, f"{name}/report.html"] for name in ("path", "ring", "star")]
    text = "document.getElementById('{}').textContent"
    assert browser.run(text.format("differ")) == "They differ in graph path and ring."
    browser.run("{ const s = document.getElementById('right'); s.value = '2'; s.dispatchEvent(new Event('change')) }")
    assert browser.run(text.format("differ")) == "They differ in graph path and star."
    assert browser.run(text.format("right-name")) == "star"
    assert browser.run(text.format("right-table")).startswith("methodlrtraining loss")
    assert "0.5" in browser.run(text.format("right-table"))
    scale = "['left-plot', 'right-plot'].map(id => document.getElementById(id)._fullLayout.yaxis.range)"
    one, two = browser.run(scale)
    assert one == two
    choose = "{ const e = document.getElementById('%s'); e.value = '%s'; e.dispatchEvent(new Event('change')) }"
    browser.run(choose % ("figure", "consensus"))
    browser.run(choose % ("against", "megabytes"))
    assert browser.run("document.querySelector('#left-plot .xtitle').textContent") == "megabytes sent"
    assert browser.run("document.getElementById('right-plot').data[0].y.at(-1)") == 0.41
    assert not browser.run(WIDER)
    assert browser.complaints() == []
    assert browser.requests() == []


def two(folder: Path, left: dict, right: dict, **given) -> Path:
    """An index over two comparisons."""
    for name, finals in (("a", left), ("b", right)):
        (folder / name).mkdir()
        found = comparison(finals, **given)
        for row in found.rows:
            row["consensus"] *= row["round"] > 0
        summary.write(summary.summary(found, fields(found.settings)), folder / name)
    return index([folder], folder / "index.html")


CHOOSE = "{ const e = document.getElementById('%s'); e.value = '%s'; e.dispatchEvent(new Event('change')) }"
LOOKS = "[...document.querySelectorAll('{} tbody tr')].map(r => [r.querySelector('th').textContent.trim(), "
LOOKS += "r.querySelector('svg').style.color, r.querySelector('line').getAttribute('stroke-dasharray') ?? 'none'])"


def test_side_by_side_a_logarithm_leaves_out_what_is_zero(browser: Browser, tmp_path: Path):
    browser.open(two(tmp_path, {"dsgt": {0.1: [0.3]}}, {"dsgt": {0.1: [0.5]}}))
    browser.run(CHOOSE % ("figure", "consensus"))
    assert browser.run("document.getElementById('left-plot')._fullLayout.yaxis.type") == "log"
    assert browser.run("document.getElementById('left-plot').data[0].y") == [None, 0.11, 0.21, 0.31, 0.41]
    assert browser.complaints() == []


def test_side_by_side_methods_look_as_in_their_reports_and_alike_on_both_sides(browser: Browser, tmp_path: Path):
    names = ["dsgt", "dpsgd", "d2", "extra", "gnsd", "aug-dgm", "k-gt", "sgd"]
    left = {name: {0.1: [0.3]} for name in names}
    right = {name: {0.1: [0.3]} for name in ["exact-diffusion", "sgd", "gnsd", "d2"]}
    browser.open(two(tmp_path, left, right))
    lefts, rights = (browser.run(LOOKS.format(f"#{side}-table")) for side in ("left", "right"))
    report = tmp_path / "report.html"
    report.write_text(page(comparison(left)), encoding="utf-8")
    lines = "document.getElementById('{}').data.map(t => t.line.dash)"
    keys = [
        "none" if d == "solid" else d.replace("px", "").replace(",", " ")
        for d in browser.run(lines.format("left-plot"))
    ]
    assert [dash for _, _, dash in lefts] == keys, "a key has the dashes of its line"
    assert len({(hue, dash) for _, hue, dash in lefts}) == len(names)
    looks = {name: look for name, *look in lefts}
    assert {name: look for name, *look in rights if name in looks} == {
        n: looks[n] for n in ("centralized SGD", "GNSD", "D²")
    }
    assert len({(hue, dash) for _, hue, dash in lefts + rights}) == len(names) + 1, "one more has a look of its own"
    browser.open(report)
    assert browser.run(LOOKS.format("section:nth-of-type(2) table")) == lefts


def test_keys_of_twenty_methods_have_the_dashes_of_their_lines_and_room_for_them(browser: Browser, tmp_path: Path):
    path = tmp_path / "many.html"
    path.write_text(page(comparison({name: {0.1: [0.3]} for name in list(dsgt.ALGORITHMS)[:20]})), encoding="utf-8")
    browser.open(path)
    look = "getComputedStyle(l).stroke, getComputedStyle(l).strokeDasharray"
    keys = {tuple(key) for key in browser.run(f"[...document.querySelectorAll('.chip line')].map(l => [{look}])")}
    assert len(keys) == 20
    width = browser.run("document.querySelector('.chip svg').getBoundingClientRect().width")
    assert width >= 1.5 * (9 + 4 + 3 + 4)  # dots and dashes are seen to repeat
    shown = browser.run("document.getElementById('plot-loss').data.map(t => t.line.dash)")
    assert {d.replace("px", "").replace(",", ", ") for d in shown} - {"solid"} == {
        dash.replace("px", "") for _, dash in keys
    } - {"none"}


@pytest.mark.parametrize("width", [1280, 390])
def test_what_one_jumps_to_is_below_the_bar(browser: Browser, tmp_path: Path, width: int):
    path = tmp_path / "many.html"
    path.write_text(page(comparison({name: {0.1: [0.3]} for name in list(dsgt.ALGORITHMS)[:20]})), encoding="utf-8")
    browser.open(path, width=width)
    browser.run("location.hash = '#network-title'")
    place = "document.{}.getBoundingClientRect().{}"
    browser.wait(f"{place.format('getElementById(`network-title`)', 'top')} < 500")
    top = browser.run(place.format("getElementById('network-title')", "top"))
    assert top >= browser.run(place.format("querySelector('.bar')", "bottom")) + 8


def test_a_verdict_of_an_index_is_read_on_a_phone_without_scrolling(browser: Browser, tmp_path: Path):
    path = two(tmp_path, {"dsgt": {0.1: [0.3]}, "momentum-tracking": {0.1: [0.2]}}, {"dsgt": {0.1: [0.5]}})
    data = "long_name_of_a_partition_" * 3
    path.write_text(path.read_text().replace('<td class="word">', f'<td class="word">{data} '), encoding="utf-8")
    browser.open(path, width=390, height=844)
    box = "(() => {{ const b = document.querySelector('{}').getBoundingClientRect(); return [b.left, b.right] }})()"
    scroller, sentence = (browser.run(box.format(one)) for one in (".scroll", ".sentence div"))
    assert browser.run("{ const s = document.querySelector('.scroll'); s.scrollWidth > s.clientWidth + 100 }")
    assert scroller[0] <= sentence[0] < sentence[1] <= scroller[1]
    browser.run("document.querySelector('.scroll').scrollLeft = 200")
    assert browser.run(box.format(".sentence div")) == pytest.approx(sentence, abs=1)


def test_where_nobody_was_measured_twice_there_are_sentences_and_no_empty_figures(browser: Browser, tmp_path: Path):
    finals = {"dsgt": {9.0: [math.inf], 90.0: [math.inf]}, "dpsgd": {9.0: [math.inf], 90.0: [math.inf]}}
    found = comparison(finals, apart=4)
    rows = [row for row in found.rows if row["round"] == 0 or "diverged" in row]
    found = Comparison(
        found.settings, [row | {"consensus": 0.0, **{f"apart_{i}": 0.0 for i in range(4)}} for row in rows]
    )
    path = tmp_path / "gone.html"
    path.write_text(page(found), encoding="utf-8")
    browser.open(path)
    text = browser.run("document.querySelector('main').innerText")
    assert "Every method diverged before it was measured a second time, so there are no lines to draw." in text
    assert "At every learning rate that was tried every method had runs that diverged" in text
    assert "Infinity" not in text
    assert browser.run("document.querySelectorAll('.plot').length") == 0
    assert browser.complaints() == []
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    summary.write(summary.summary(found, fields(found.settings)), tmp_path / "a")
    other = comparison({"dsgt": {0.1: [0.3]}})
    summary.write(summary.summary(other, fields(other.settings)), tmp_path / "b")
    browser.open(index([tmp_path], tmp_path / "index.html"))
    ids = ["left-plot", "left-bare", "right-plot", "right-bare"]
    assert browser.run(f"{ids}.map(id => document.getElementById(id).checkVisibility())") == [False, True, True, False]
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
