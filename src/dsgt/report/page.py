"""The page: what was found, put into the template."""

from __future__ import annotations

from typing import Any

from dsgt.comparison.notes import notes
from dsgt.comparison.result import Comparison, versions
from dsgt.comparison.settings import Settings
from dsgt.report.cards import OPEN, card
from dsgt.report.curves import apart, curves, grid
from dsgt.report.holdings import Holdings, histograms, holdings
from dsgt.report.looks import looks
from dsgt.report.network import Network, network
from dsgt.report.parts import asset, policy, scripts, template
from dsgt.report.rerun import python
from dsgt.report.results import costs, table
from dsgt.report.spoken import spoken
from dsgt.report.verdict import RULE, few, verdict
from dsgt.report.work import Times, times
from dsgt.text import short

NAMED = 5
"""Methods in the title; of more than one beyond that, these and how many others."""


def page(comparison: Comparison, *, against: str | None = None) -> str:
    """A comparison as one HTML page that can be read without a network. ``against``: the axis that it shows first."""
    settings = comparison.settings
    lines = comparison.lines
    told = spoken(comparison)
    names = [line.method for line in told.lines]
    held, no_data = _data(settings)
    net, no_network = _network(settings, [line.method for line in lines], held.sizes if held else [])
    work = _times(settings, [line.method for line in lines])
    cards = [card(line.title, settings.algorithm(line.method)) for line in lines]
    looked = looks(line.centralized for line in lines)
    methods = [
        {"name": line.method, "title": name, **look} for line, name, look in zip(lines, names, looked, strict=True)
    ]
    drawn: dict[str, Any] = {
        "methods": methods,
        "curves": curves(lines),
        "grid": grid(lines),
        "apart": apart(lines) if net and net.drawings else [],
        "rules": [mixing.rule for mixing in net.mixing] if net else [],
        "histograms": histograms(held) if held and not held.fits else [],
        "slowest": [one.slowest for one in work.methods] if work else [],
    }
    texts = scripts("report.js")
    return template("page.html").render(
        title=f"Comparison of {few(names, NAMED)}",
        facts=facts(settings),
        settings=settings,
        axis=against or comparison.axis,
        methods=methods,
        cards=cards,
        open_cards=len(cards) <= OPEN,
        verdict=verdict(told.lines, comparison.target),
        rule=RULE,
        columns=table(lines),
        costs=costs(lines, comparison.target),
        target="" if comparison.target is None else short(comparison.target),
        selection=comparison.selection,
        notes=notes(told),
        network=net,
        no_network=no_network,
        work=work,
        held=held,
        no_data=no_data,
        fields=fields(settings),
        versions=versions(),
        command=settings.command(),
        python=python(settings),
        data=drawn,
        bands=any(len(line.runs) > 1 for line in lines),
        any_gone=not all(line.converged for line in lines),
        all_gone=not any(line.converged for line in lines),
        tried=any(loss is not None for one in drawn["grid"] for loss in one["mean"]),
        any_diverged=any(line.diverged_at for line in lines),
        style=asset("style.css"),
        scripts=texts,
        policy=policy(texts),
    )


def facts(settings: Settings) -> list[str]:
    """What was compared, in a few words each."""
    return [
        f"{settings.model} on {settings.data}",
        f"{settings.nodes} nodes",
        f"{settings.graph} graph",
        f"{settings.weights} weights",
        f"{settings.partition} shards",
        str(settings.ends),
        f"batch {settings.batch}",
        *([] if settings.stragglers == "none" else [f"stragglers {settings.stragglers}"]),
        "1 seed" if settings.seeds == 1 else f"{settings.seeds} seeds",
    ]


def fields(settings: Settings) -> dict[str, str]:
    """All settings that count, as text."""
    return {name: _as_text(value) for name, value in settings.said().items()}


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_as_text(item) for item in value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _data(settings: Settings) -> tuple[Holdings | None, str]:
    """Who holds what, or why that cannot be shown: a data set that has gone must not cost the report."""
    try:
        held = holdings(settings)
    except (OSError, ValueError) as error:
        return None, f"The data cannot be shown: {error}"
    return held, "" if held else "This problem is not made of samples."


def _times(settings: Settings, methods: list[str]) -> Times | None:
    try:
        return times(settings, methods)
    except (OSError, ValueError):  # the data, the network or the trace has gone
        return None


def _network(settings: Settings, methods: list[str], sizes: list[int]) -> tuple[Network | None, str]:
    try:
        found = network(settings, methods, sizes)
    except (OSError, ValueError) as error:
        return None, f"The network cannot be shown: {error}"
    if not found.drawings and all(mixing.rule == "all" for mixing in found.mixing):
        return found, "Every method here averages all nodes with all, so there is no graph to draw."
    return found, "" if found.drawings else "So many nodes and edges cannot be told apart in a drawing."
