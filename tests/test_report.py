"""The report: what it says, that it is one valid file, and that nobody's strings get out of their place."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from plotly.offline import get_plotlyjs
from scipy.stats import ttest_rel

import dsgt
from dsgt import topologies
from dsgt.comparison import Comparison, Settings
from dsgt.comparison.notes import notes
from dsgt.comparison.paired import difference
from dsgt.report import page
from dsgt.report.curves import curves
from dsgt.report.rerun import python
from dsgt.report.results import costs, table
from dsgt.report.spoken import spoken
from dsgt.report.verdict import verdict
from dsgt.text import listed, short, with_spread
from support.invented_comparison import comparison, run

PLOTLY = get_plotlyjs()
INF = math.inf


class Elements(HTMLParser):
    """Every start tag of a page with its attributes, and the text of the JSON element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.json = ""
        self.feed(html.replace(PLOTLY, ""))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, text: str) -> None:
        if self.tags and self.tags[-1][1].get("type") == "application/json":
            self.json += text


def never(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def shown(html: str) -> dict[str, Any]:
    return json.loads(Elements(html).json.strip(), parse_constant=never)


def said(finals: dict[str, dict[float, list[float]]], **given: Any) -> tuple[str, str]:
    found = comparison(finals, **given)
    return verdict(found.lines, found.target)


# The verdict


def test_a_difference_that_the_seeds_show_is_called_so_with_its_interval():
    # log ratios 0.40, 0.41, 0.39, 0.40, 0.40, up to rounding: far from zero on their own scale
    high = [0.3 * math.exp(v) for v in (0.40, 0.41, 0.39, 0.40, 0.40)]
    first, _ = said({"dsgt": {0.1: [0.3] * 5}, "dpsgd": {0.1: high}})
    assert first == ("dsgt reached the lowest training loss, 0.3 over 5 seeds: 33 % (32 to 34 %) below dpsgd (0.4476).")


def test_a_difference_that_may_be_chance_is_no_victory():
    first, _ = said({"dsgt": {0.1: [0.20, 0.30, 0.26]}, "extra": {0.1: [0.29, 0.24, 0.28]}})
    assert "dsgt reached the lowest training loss" in first
    assert first.endswith("over 3 seeds: 3 seeds are too few to tell it from extra (0.27).")


def test_losses_that_agree_to_a_hundredth_are_equal_even_if_one_is_always_lower():
    low = [0.20, 0.30, 0.26, 0.24, 0.27]
    first, second = said({"dsgt": {0.1: low}, "extra": {0.1: [1.001 * v for v in low]}, "sgd": {0.1: low}})
    assert first == "dsgt reached a training loss of 0.254 ± 0.037 over 5 seeds, equal to extra (0.2543) within 1 %."
    assert "centralized SGD reached 0.254 ± 0.037, equal within 1 %" in second


def test_more_comparisons_ask_for_more():
    """The same two methods: among six pairs the interval is wider than alone."""
    high = [0.3 * math.exp(v) for v in (0.10, 0.30, 0.20, 0.25, 0.15)]
    two = {"dsgt": {0.1: [0.3] * 5}, "dpsgd": {0.1: high}}
    assert "below dpsgd" in said(two)[0]
    many = two | {name: {0.1: [0.3] * 5} for name in ("d2", "extra", "gnsd", "aug-dgm", "sgd")}
    assert "5 seeds are too few to tell it from dpsgd" in said(many)[0]


def test_one_seed_allows_no_judgement_and_neither_do_two():
    first, second = said({"dsgt": {0.1: [0.2]}, "dpsgd": {0.1: [0.9]}, "sgd": {0.1: [0.1]}})
    assert "with one seed nobody can tell the differences from chance" in first
    assert "spread" not in first + second
    assert "with 2 seeds nobody can tell" in said({"dsgt": {0.1: [0.2, 0.2]}, "dpsgd": {0.1: [0.9, 0.9]}})[0]


def test_there_is_no_verdict_while_a_best_learning_rate_is_at_the_edge_of_the_grid():
    grid = {0.1: [0.4] * 5, 0.2: [0.3] * 5, 0.4: [0.35] * 5}
    up, down = ({0.1: [a] * 5, 0.2: [0.9] * 5, 0.4: [1.0 - a] * 5} for a in (0.95, 0.05))
    assert "No verdict" not in said({"dsgt": grid, "sgd": grid})[0]
    for edge, word in ((up, "0.4, the largest"), (down, "0.1, the smallest")):
        first, second = said({"dsgt": grid, "dpsgd": edge, "sgd": grid})
        assert first.startswith(
            f"No verdict, because the best learning rate lies at the edge of those tried for dpsgd ({word})"
        )
        assert "lower" not in first + second
        assert "No verdict" in said({"dsgt": grid, "sgd": edge})[0]
    assert "reached a training loss" in said({"dsgt": up})[0]  # nothing is compared


def test_weights_that_differ_are_said_where_losses_are_compared():
    finals = {"dsgt": {0.1: [0.3] * 5}, "d2": {0.1: [0.4] * 5}}
    first, _ = said(finals, nodes=3, graph="path", weights="fdla")
    assert "below d2 (0.4, with metropolis weights)" in first
    assert "weights" not in said(finals, nodes=3, graph="path", weights="metropolis")[0]
    headings = [c.heading for c in table(comparison(finals, nodes=3, graph="path", weights="fdla").lines)]
    assert headings[0] == "weights"
    assert "weights" not in [c.heading for c in table(comparison(finals, nodes=3, graph="path").lines)]


def test_what_diverged_is_named():
    finals = {
        "dsgt": {0.1: [0.4] * 3, 0.2: [0.3] * 3, 5.0: [INF, 0.2, 0.2]},
        "d2": {0.1: [0.5] * 3, 0.2: [0.4] * 3, 5.0: [INF] * 3},
        "dpsgd": {0.1: [INF, 0.1, 0.1], 0.2: [INF] * 3, 5.0: [INF] * 3},
    }
    first, second = said(finals)
    assert "dsgt reached the lowest training loss" in first
    assert "dpsgd diverged at every learning rate that was tried, if not with every seed" in second
    assert "with a learning rate of 5 dsgt and d2 diverged" in second


def test_when_everything_diverged_the_verdict_says_only_that():
    first, second = said({"dsgt": {1.0: [INF]}, "dpsgd": {1.0: [INF]}})
    assert first == "dsgt and dpsgd diverged at every learning rate that was tried."
    assert "smaller learning rates" in second


def test_one_method_alone_is_reported_and_not_ranked():
    first, second = said({"dsgt": {0.1: [0.2, 0.2]}}, without=("accuracy", "node_accuracy_min"))
    assert first == "dsgt reached a training loss of 0.2 over 2 seeds with a learning rate of 0.1."
    assert second == "There is no other method to compare with."


def test_a_low_loss_with_a_bad_worst_node_is_not_praised():
    found = comparison({"dpsgd": {0.1: [0.2] * 3}, "dsgt": {0.1: [0.3] * 3}})
    for row in found.rows:
        row["node_accuracy_min"] = 0.4 if row["method"] == "dpsgd" else 0.9
    assert "the test accuracy of the worst node of dpsgd is 40.0 %, below dsgt." in verdict(found.lines)[1]


def accurate(**values: list[float]) -> Comparison:
    """Methods with these test accuracies at their ends, one a seed, and losses in their order."""
    found = comparison({name: {0.1: [0.1 * k] * len(of)} for k, (name, of) in enumerate(values.items(), 1)})
    for row in found.rows:
        row["accuracy"] = values[row["method"]][row["seed"]]
        del row["node_accuracy_min"]
    return found


def test_accuracies_are_ranked_by_a_paired_test_that_knows_how_many_pairs_there_are():
    own = [0.90, 0.93, 0.91, 0.95, 0.92]
    offsets = {"above": [0.011, 0.012, 0.010, 0.009, 0.013], "below": [-0.02, -0.021, -0.019, -0.02, -0.022]}
    noise = [0.01, -0.01, 0.03, -0.002, 0.004]
    others = {"gnsd": offsets["above"], "dpsgd": offsets["below"], "extra": noise}
    values = {"dsgt": own} | {name: [a - d for a, d in zip(own, of, strict=True)] for name, of in others.items()}
    assert {name: ttest_rel(own, of).pvalue * 6 < 0.05 for name, of in values.items() if name != "dsgt"} == {
        "gnsd": True, "dpsgd": True, "extra": False
    }  # fmt: skip
    found = accurate(**values)
    sentence = "The test accuracy of the mean model of dsgt is 92.2 %, above gnsd, below dpsgd and not told from extra"
    assert verdict(found.lines)[1].startswith(sentence)
    column = next(c for c in table(found.lines) if c.heading == "accuracy")
    assert column.cells[0] == "92.2 ± 1.9 %"
    assert column.best == {2, 3}, "extra is not told from dpsgd either, who is above the others"


def test_accuracies_are_compared_as_differences_and_losses_as_ratios():
    """Of small numbers whose differences are all alike the ratios are not."""
    low, high = [0.001, 0.2, 0.4, 0.3], [0.011, 0.211, 0.412, 0.311]
    found = accurate(dsgt=high, dpsgd=low)
    assert next(c for c in table(found.lines) if c.heading == "accuracy").best == {0}
    assert "above dpsgd" in verdict(found.lines)[1]
    assert difference(high, low, 1, shares=False).low > 0 > difference(high, low, 1).low


def test_nothing_is_ranked_with_two_seeds_or_at_the_edge_of_a_grid():
    two = accurate(dsgt=[0.9, 0.9], dpsgd=[0.1, 0.1])
    assert verdict(two.lines)[1] == "The test accuracy of the mean model of dsgt is 90.0 %."
    assert not any(c.best for c in (*table(two.lines), *costs(two.lines, 1.0)))
    grid = {0.1: [0.4] * 5, 0.2: [0.3] * 5, 0.4: [0.35] * 5}
    edge = {0.1: [0.9] * 5, 0.2: [0.8] * 5, 0.4: [0.7] * 5}
    found = comparison({"dsgt": grid, "dpsgd": edge, "sgd": grid})
    assert not any(c.best for c in (*table(found.lines), *costs(found.lines, 1.0)))
    second = verdict(found.lines, 1.0)[1]
    assert not any(word in second for word in ("above", "below", "equal", "times as long"))


def test_who_is_not_told_from_the_best_is_marked_with_it_and_centralized_sgd_never():
    low = [0.20, 0.30, 0.26, 0.24, 0.27]
    close, far = [v * f for v, f in zip(low, (1.1, 0.9, 1.05, 1.0, 1.02), strict=True)], [2 * v for v in low]
    lines = comparison({"dsgt": {0.1: low}, "d2": {0.1: close}, "dpsgd": {0.1: far}, "sgd": {0.1: low}}).lines
    loss = next(c for c in table(lines) if c.heading == "training loss")
    assert loss.best == {0, 1}
    assert {c.heading: c.best for c in costs(lines, 0.85)}["epochs"] == {0, 1}
    assert not next(c for c in table(lines[:2]) if c.heading == "training loss").best, "nobody is told from the best"


def test_of_many_methods_the_verdict_names_a_few():
    rivals = ("dpsgd", "extra", "gnsd", "aug-dgm", "k-gt", "atc-dpsgd", "dsgt-hb", "acc-dngd")
    finals = {"dsgt": {0.1: [0.3] * 5}} | {name: {0.1: [0.3 + 0.1 * k] * 5} for k, name in enumerate(rivals, 1)}
    first, second = said(finals)
    assert first.endswith("below gnsd (0.6); 57 % (57 to 57 %) below aug-dgm (0.7); below 4 others too.")
    assert "above gnsd, aug-dgm, k-gt, atc-dpsgd and 2 others and not told from dpsgd and extra" in second


def test_seeds_that_change_nothing_and_losses_that_hardly_fell_are_noted():
    same = comparison({"dsgt": {0.1: [0.3] * 5}, "d2": {0.1: [0.4] * 5}})
    assert "All seeds gave the same numbers" in notes(same)[-1]
    drawn = comparison({"dsgt": {0.1: [0.3, 0.31]}, "d2": {0.1: [0.4, 0.4]}})
    assert not any("All seeds" in note or "Nobody" in note for note in notes(drawn))
    little = comparison({"dsgt": {0.1: [2.28, 2.29]}, "dpsgd": {0.1: [2.28, 2.281]}})
    assert "Nobody learned much: the lowest loss is 2.28, and all began with 2.3." in " ".join(notes(little))
    assert not any("All seeds" in note for note in notes(comparison({"dsgt": {0.1: [0.3]}, "d2": {0.1: [0.4]}})))


def test_the_verdict_of_a_page_is_two_sentences():
    finals = {"dsgt": {0.1: [0.2, 0.22, 0.2], 5.0: [INF] * 3}, "d2": {0.1: [0.3] * 3, 5.0: [INF] * 3}}
    for sentence in said(finals | {"sgd": {0.1: [0.2] * 3, 5.0: [INF] * 3}}):
        assert sentence.endswith(".")
        assert ". " not in sentence


def test_the_page_speaks_titles_and_its_cards_have_what_one_types():
    finals = {"dsgt": {0.1: [0.3] * 3}, "d2": {0.1: [0.4] * 3}, "sgd": {0.1: [0.3] * 3}}
    html = page(comparison(finals))
    assert "<h1>Comparison of DSGT, D² and centralized SGD</h1>" in html
    assert "DSGT reached the lowest training loss, 0.3 over 3 seeds: 25 % (25 to 25 %) below D² (0.4" in html
    assert "centralized SGD reached 0.3, equal within 1 %" in html
    assert "<strong>D²</strong> <code>d2</code>" in html
    assert html.count("<span>D²</span></button>") == 1
    assert "dsgt reached" in said(finals)[0], "the terminal says what one types"


def test_the_title_of_a_page_names_a_few_of_many_methods():
    html = page(comparison({name: {0.1: [0.3]} for name in list(dsgt.ALGORITHMS)[:20]}))
    heading = re.search("<h1>(.*)</h1>", html)
    assert heading is not None
    assert heading[1].endswith(" and 15 others")
    assert heading[1].count(",") == 4


def test_methods_whose_titles_are_the_same_keep_the_names_that_tell_them_apart(monkeypatch):
    for name in ("one", "two"):
        monkeypatch.setitem(dsgt.ALGORITHMS, name, type("Mine", (dsgt.DSGT,), {}))
    names = [line.method for line in spoken(comparison({"one": {0.1: [0.3]}, "two": {0.1: [0.4]}})).lines]
    assert names == ["one", "two"]


# The table


def test_the_table_holds_the_means_of_the_last_rows_and_marks_the_best():
    lines = comparison({"dsgt": {0.1: [0.2, 0.3]}, "dpsgd": {0.1: [0.5, 0.5]}, "d2": {0.1: [INF, 0.1]}}).lines
    columns = {column.heading: column for column in table(lines)}
    assert columns["training loss"].cells == ["0.250 ± 0.071", "0.5", "diverged"], "of a sample: divided by n - 1"
    assert columns["lr"].cells == ["0.1", "0.1", "–"]
    assert columns["accuracy"].cells[1:] == ["100.0 ± 0.0 %", "–"]
    one = {c.heading: c.cells for c in table(comparison({"dsgt": {0.1: [0.2]}, "d2": {0.1: [0.3]}}).lines)}
    assert one["training loss"] == ["0.2", "0.3"], "one seed has no spread"


def test_what_is_not_measured_has_no_column():
    without = ("accuracy", "node_accuracy_min", "virtual_seconds")
    found = comparison({"dsgt": {0.1: [0.2]}, "dpsgd": {0.1: [0.5]}}, without=without)
    assert [c.heading for c in table(found.lines)] == ["lr", "training loss", "consensus", "MB"]
    assert [panel["key"] for panel in shown(page(found))["curves"]["panels"]] == ["loss", "consensus"]


def test_the_same_other_weights_for_all_are_noted_once():
    found = notes(comparison({"sgp": {0.1: [0.4]}, "push-diging": {0.1: [0.3]}}, nodes=6, graph="directed-random"))
    assert found[0] == "None of these methods may use metropolis weights here, so all ran with push ones."
    assert not [said for said in found[1:] if "weights" in said]


def test_costs_are_those_of_where_the_loss_is_first_at_the_target():
    lines = comparison({"dsgt": {0.1: [0.3, 0.3]}, "dpsgd": {0.1: [1.3, 1.3]}}).lines
    columns = {column.heading: column.cells for column in costs(lines, 1.4)}
    assert columns["rounds"] == ["18", "36"]  # 2.3 to 0.3 in 40 rounds, and to 1.3
    assert {column.heading: column.cells for column in costs(lines, 1.0)}["epochs"] == ["2.6", "never"]


def test_a_target_no_better_than_the_start_is_not_shown_as_an_achievement():
    found = comparison({"dsgt": {0.1: [0.3]}, "dpsgd": {0.1: [5.0]}}, target=5.0)
    assert costs(found.lines, 5.0) == []
    assert "no better than the start" in notes(found)[-1]


def test_other_weights_and_the_edge_of_the_grid_are_noted():
    finals = {"dsgt": {0.1: [0.4], 0.2: [0.3]}, "d2": {0.1: [0.3], 0.2: [0.4]}}
    found = notes(comparison(finals, nodes=3, graph="path", weights="fdla"))
    assert found[0].startswith("d2 may not use fdla weights here, so it ran with metropolis ones")
    assert found[1].startswith("FDLA weights mix fastest")
    assert found[2].endswith("a larger one may be better: dsgt.")
    assert found[3].endswith("a smaller one may be better: d2.")
    assert not any("FDLA" in note for note in notes(comparison(finals, nodes=3, graph="path")))


# The figures


def test_a_curve_has_the_mean_and_the_range_of_the_seeds_and_ends_where_one_diverged():
    lines = comparison({"dsgt": {0.1: [0.3, 0.5]}, "dpsgd": {0.1: [0.3, INF]}}).lines
    whole, cut = curves(lines)["lines"]
    assert whole["y"]["loss"]["mean"][-1] == pytest.approx(0.4)
    assert (whole["y"]["loss"]["low"][-1], whole["y"]["loss"]["high"][-1]) == (0.3, 0.5)
    assert cut["x"]["round"] == [0.0, 10.0, 20.0]


def test_numbers_that_are_not_finite_are_null_and_the_json_is_valid():
    found = comparison({"dsgt": {0.1: [0.3, 0.5], 9.0: [INF, math.nan]}, "d2": {0.1: [INF, INF], 9.0: [INF, INF]}})
    for row in found.rows[:3]:
        row["consensus"] = math.nan
        row["virtual_seconds"] = INF
    data = shown(page(found))
    assert data["grid"][0]["mean"] == [0.4, None]
    assert data["grid"][0]["diverged"] == [0, 2]
    assert data["grid"][0]["best"] == 0
    assert data["grid"][1]["best"] is None
    assert data["curves"]["lines"][0]["y"]["consensus"]["mean"][0] is None


def test_only_what_the_figures_use_is_written_with_few_digits():
    few = {"dsgt": {0.1: [1 / 3]}}
    many = {"dsgt": {0.1: [1 / 3]} | {0.001 * k: [1 / 7] for k in range(1, 60)}}
    assert len(page(comparison(many))) - len(page(comparison(few))) < 6000
    assert shown(page(comparison(few)))["curves"]["lines"][0]["y"]["loss"]["mean"][-1] == 0.33333


def test_numbers_are_written_as_people_do():
    assert [short(v) for v in (0.12345, 12345.6, 1e-9, INF)] == ["0.1235", "12,346", "1e-09", "infinite"]
    assert with_spread(0.18234, 0.00412) == "0.1823 ± 0.0041"
    assert with_spread(2e-7, 1e-8) == "2e-07 ± 1e-08"
    assert listed(["a", "b", "c"]) == "a, b and c"


# Network and data


def test_every_rule_of_weights_is_drawn_and_every_method_has_its_numbers():
    grid = {0.1: [0.3]}
    html = page(comparison({"dsgt": grid, "d2": grid, "sgd": grid}, nodes=3, graph="path", weights="fdla"))
    drawn = [e for e in Elements(html).tags if e[0] == "figure" and "data-drawing" in e[1]]
    assert len(drawn) == 2  # on a path D² may not use FDLA; centralized SGD has no graph
    described = topologies.describe(topologies.metropolis(topologies.path(3)))
    assert f"<td>{described.rho:.4g}</td>" in html


def test_a_network_too_large_to_be_drawn_is_described_and_its_data_are_summarised():
    found = comparison({"dsgt": {0.1: [0.3]}, "sgd": {0.1: [0.3]}}, nodes=1000, partition="equal", batch=1024)
    html = page(found)
    assert "cannot be told apart in a drawing" in html
    assert "1000 nodes, 1000 edges" in html
    assert [h["title"] for h in shown(html)["histograms"]] == ["samples", "labels"]
    assert sum(shown(html)["histograms"][0]["nodes"]) == 1000
    assert len(html) - len(PLOTLY) < 70_000


def test_a_network_file_that_has_gone_does_not_cost_the_report(tmp_path):
    path = tmp_path / "mine.json"
    topologies.write_network(path, topologies.ring(4))
    found = comparison({"dsgt": {0.1: [0.3]}}, graph=str(path))
    path.unlink()
    html = page(found)
    assert "The network cannot be shown" in html
    assert "DSGT reached a training loss" in html


def test_a_directed_network_is_drawn_with_arrows():
    html = page(comparison({"sgp": {0.1: [0.3]}}, graph="directed-ring"))
    assert "4 directed edges; a node hears 1 other." in html
    assert 'marker-end="url(#arrow-0)"' in html
    circles = {(a["cx"], a["cy"]) for tag, a in Elements(html).tags if tag == "circle"}
    arrows = [a for tag, a in Elements(html).tags if tag == "line" and "marker-end" in a]
    assert all((a["x1"], a["y1"]) in circles and (a["x2"], a["y2"]) not in circles for a in arrows)  # seen at the rim


# Running again


def test_the_python_script_compares_with_the_same_settings(monkeypatch):
    settings = Settings(methods=("dsgt", "sgd"), nodes=5, graph="it's.json", lrs=(0.1, 1 / 3), target=0.25)
    compared = []
    monkeypatch.setattr(dsgt, "compare", lambda given: compared.append(given) or comparison({"dsgt": {0.1: [0.3]}}))
    monkeypatch.setattr(dsgt.report, "save", lambda found, folder: None)
    exec(python(settings), {"__name__": "__main__"})
    assert compared == [settings]


def test_the_page_shows_the_command_of_the_settings():
    found = comparison({"dsgt": {0.1: [0.3]}})
    assert f">{found.settings.command()}</code>" in page(found)


# One file, and nobody gets out


def test_the_page_needs_nothing_but_itself():
    html = page(comparison({"dsgt": {0.1: [0.3]}, "sgd": {0.1: [0.3]}}))
    assert html.count(PLOTLY) == 1
    for tag, attributes in Elements(html).tags:
        assert "src" not in attributes, tag
        assert (attributes.get("href") or "data:").startswith("data:"), tag
    rest = html.replace(PLOTLY, "")
    assert not re.search(r"https?://|@import|url\((?!#)", rest)
    policy = next(a["content"] for _, a in Elements(html).tags if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search(r"</script", PLOTLY)


HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "\"><svg onload='window.hacked = 1'>",
    "<!--<script>",
    "{{ 7 * 7 }}",
]


def hostile(monkeypatch: pytest.MonkeyPatch) -> Comparison:
    """A comparison whose methods and network file have names that try everything."""
    for name in HOSTILE:
        monkeypatch.setitem(dsgt.ALGORITHMS, name, type(name, (dsgt.DSGT,), {}))
    found = comparison({name: {0.1: [0.3, 0.4], 9.0: [INF, INF]} for name in HOSTILE}, graph=f"{HOSTILE[0]}.json")
    assert isinstance(found.settings.graph, str)
    return found


def test_strings_stay_where_they_are(monkeypatch):
    html = page(hostile(monkeypatch)).replace(PLOTLY, "")
    tags = Elements(html).tags
    assert [tag for tag, _ in tags].count("script") == 3
    assert not [tag for tag, _ in tags if tag == "img"]
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
    assert [m["name"] for m in shown(html)["methods"]] == HOSTILE
    assert "{{ 7 * 7 }}" in html
    assert ">49<" not in html


def test_a_diverged_run_ends_with_a_row_without_numbers():
    """What the hand-made rows promise about runs that diverge is what the real ones do."""
    settings = Settings(
        methods=("dsgt",), nodes=2, graph="path", weights="metropolis", lrs=(1e38,), seeds=1, epochs=4.0
    )
    real = dsgt.comparison.Job(settings, "dsgt", 1e38, 0)()
    made = run("dsgt", 1e38, 0, INF, 0)
    assert real[-1].keys() == made[-1].keys()
    assert made[0].keys() <= real[0].keys()
