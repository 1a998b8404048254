"""A card for every method: its equation, what it guarantees, what it sends and needs, and its parameters."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass
from typing import Any

from dsgt.algorithms.named import is_ours
from dsgt.asynchronous.core import AsyncAlgorithm
from dsgt.compression import Compressed
from dsgt.core import Algorithm, parameters, without_oracle
from dsgt.text import vectors

OPEN = 6
"""With more methods than this the cards are closed until somebody opens one."""


@dataclass(frozen=True)
class Card:
    title: str
    about: str
    """What the first line says beside the name."""
    equation: str
    guarantee: str
    facts: list[tuple[str, str]]
    parameters: list[tuple[str, str, str]]
    """Name, value and meaning."""


def card(title: str, algorithm: Algorithm[Any] | AsyncAlgorithm[Any]) -> Card:
    plain = algorithm if isinstance(algorithm, AsyncAlgorithm) else without_oracle(algorithm)
    text = _text(plain)
    first = re.match(r"(.*?)(?:\.\s|\n\n|\.?$)", text, flags=re.DOTALL)
    equation = _equation(text)
    if plain is not algorithm:
        equation = "\n".join([equation, _equation(sys.modules[type(algorithm.asks).__module__].__doc__ or "")]).strip()
    guarantee = re.search(r"Guarantee: (.*?\.)(?:\s*\n[A-Z][^\n]*, [^\n]*\d{4}|\s*\Z)", text, flags=re.DOTALL)
    when = "at a wake" if isinstance(algorithm, AsyncAlgorithm) else "a round"
    to = "in an all-reduce of all nodes" if algorithm.needs.average else "to each neighbour"
    packed = f", packed by {plain.compress}" if isinstance(plain, Compressed) else ""
    sends = f"{vectors(algorithm.sends)} {when} {to}{packed}"
    return Card(
        title=title,
        about=" ".join(first[1].split()) if first else "",
        equation=equation,
        guarantee=" ".join(guarantee[1].split()) if guarantee else "",
        facts=[
            ("sends", sends),
            ("exact on uneven data", "yes" if algorithm.exact else "no, an error of the order of lr stays"),
            ("needs of W", str(algorithm.needs)),
        ],
        parameters=[
            (f.name, str(value), str(f.metadata.get("meaning", "")))
            for f in parameters(algorithm)
            if (value := getattr(algorithm, f.name)) is not None
        ],
    )


def _equation(text: str) -> str:
    """The first indented lines; or else a paragraph of formulas, from which formatters of code take the indentation
    where nothing but it follows the first line."""
    if found := re.search(r"(?:\A|\n\n)((?:    .+(?:\n|\Z))+)", text):
        return inspect.cleandoc(found[1])
    paragraphs = text.split("\n\n")[1:]
    return next((p for p in paragraphs if all(" = " in line for line in p.splitlines())), "").strip()


def _text(algorithm: Algorithm[Any] | AsyncAlgorithm[Any]) -> str:
    """Of this package's methods the file says all; of your own the class may. A generated one says nothing."""
    kind = type(algorithm)
    if isinstance(algorithm, AsyncAlgorithm) or is_ours(algorithm):
        return (sys.modules[kind.__module__].__doc__ or "").strip()
    own = kind.__dict__.get("__doc__") or ""
    return "" if own.startswith(f"{kind.__name__}(") else inspect.cleandoc(own)
