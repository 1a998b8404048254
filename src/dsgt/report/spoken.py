"""Methods by the names that papers give them: what a page says. The terminal keeps those that one types."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from dsgt.comparison.method_runs import MethodRuns
from dsgt.comparison.result import Comparison


class Spoken(Comparison):
    """A comparison whose methods have their titles for names, where titles tell all of them apart."""

    @cached_property
    def lines(self) -> list[MethodRuns]:
        lines = super().lines
        if len({line.title for line in lines}) < len(lines):
            return lines
        return [replace(line, method=line.title) for line in lines]


def spoken(comparison: Comparison) -> Comparison:
    return Spoken(comparison.settings, comparison.rows)
