"""The tables of methods in README and docs, from the code. ``python tests/support/tables.py`` writes them anew.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end of table -->``,
and tests/test_tables.py fails when one is stale.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dsgt
from dsgt.core import Algorithm, Pending, parameters
from dsgt.networks import Dense
from dsgt.theory.stability import has_polynomial

ROOT = Path(__file__).parent.parent.parent
FILES = ("README.md", "docs/methods.md", "docs/choosing.md")
FIRST = ("dpsgd", "dsgt", "d2", "exact-diffusion", "momentum-tracking", "k-gt", "sgp", "push-pull", "median")
"""What README shows: the best known of each kind."""
BAR = r"\|"
"""In a table a bare one would begin a column."""
LOWEST = (-0.3, -0.6, -0.9)
"""Smallest eigenvalues of W for which the largest stable step is shown."""


def title(method: Algorithm[Any]) -> str:
    """The first words of its text, up to the first : ; or full stop."""
    return re.split(r"[:;.]\s", text(method) + " ")[0]


def equation(method: Algorithm[Any]) -> str:
    """The first indented lines of its text."""
    found = re.search(r"\n\n((?:    .+\n)+)", text(method))
    assert found is not None, f"{type(method).__name__} has no equation in its docstring"
    return "; ".join(" ".join(line.split()).rstrip(",") for line in found[1].splitlines())


def text(method: Algorithm[Any]) -> str:
    return sys.modules[type(method).__module__].__doc__ or ""


def sent(method: Algorithm[Any]) -> str:
    """How many vectors, and how many of them travel while the next gradient is computed."""
    state = method.init(torch.zeros(1, 1), Dense([[1.0]]).at(0))
    free = sum(isinstance(f, Pending | tuple) for f in state)
    return f"{method.sends:g}" + (f", {free} free" if free else "")


def name_and_parameters(name: str, method: Algorithm[Any]) -> str:
    given = ", ".join(f"{f.name}={f.default}" for f in parameters(method) if f.default is not None)
    return f"`{name}`" + (f", {given}" if given else "")


def methods(names: Iterable[str] = dsgt.ALGORITHMS) -> str:
    lines = [
        "| method | name and parameters | update | sends | exact on different data | W |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        method = dsgt.ALGORITHMS[name]()
        exact = "yes" if method.exact else "no, O(lr)"
        update = equation(method).replace("|", BAR)
        cells = (title(method), name_and_parameters(name, method), f"`{update}`", sent(method), exact)
        lines.append(f"| {' | '.join(cells)} | {method.needs} |")
    return "\n".join(lines)


def others() -> str:
    """The names of all that README does not show."""
    names = [name for name in dsgt.ALGORITHMS | dsgt.algorithms.COMPOSITIONS if name not in FIRST]
    return ", ".join(f"`{name}`" for name in names)


def stability() -> str:
    lines = ["| method | " + " | ".join(f"λ = −{-low:g}" for low in LOWEST) + " |", "|---|" + "---|" * len(LOWEST)]
    for kind in dsgt.ALGORITHMS.values():
        lines += [f"| {title(kind())} | " + " | ".join(_window(kind(), low) for low in LOWEST) + " |"]
    return "\n".join(lines)


def _window(method: Algorithm[Any], low: float) -> str:
    if not has_polynomial(method):
        return "measured"
    W = np.array([[1 + low, 1 - low], [1 - low, 1 + low]]) / 2
    found = dsgt.theory.window(method, W)
    # four digits: no limit lies so near to half of the last one that rounding decides
    return f"{found.low:.4g} ... {found.high:.4g}" if found.low > 0 else f"{found.high:.4g}"


TABLES: dict[str, Callable[[], str]] = {
    "methods": methods,
    "first": lambda: methods(FIRST),
    "others": others,
    "stability": stability,
}


def renewed(page: str) -> str:
    """The same page with every table as the code has it now."""
    return re.sub(
        r"<!-- table: (\w+) -->\n.*?<!-- end of table -->",
        lambda found: f"<!-- table: {found[1]} -->\n{TABLES[found[1]]()}\n<!-- end of table -->",
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    for file in FILES:
        (ROOT / file).write_text(renewed((ROOT / file).read_text()))
