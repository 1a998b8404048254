"""Any method by its name: those with rounds, and those in which nobody waits."""

from __future__ import annotations

import re
import sys
from typing import Any

from dsgt.algorithms import ALGORITHMS, COMPOSITIONS, named
from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from dsgt.asynchronous.core import AsyncAlgorithm
from dsgt.core import Algorithm
from dsgt.text import nearest

EVERY = [*ALGORITHMS, *COMPOSITIONS, *ASYNCHRONOUS]
"""All names."""


def method(text: str) -> Algorithm[Any] | AsyncAlgorithm[Any]:
    """As ``algorithms.named.method``."""
    name = text.partition(":")[0]
    if name in ASYNCHRONOUS:
        return named.with_parameters(ASYNCHRONOUS[name], name, text)
    try:
        return named.method(text)
    except ValueError as error:
        if named.is_own(text):
            raise
        closest = nearest(name, EVERY, "method")
        raise (ValueError(closest) if any(f"{known!r}" in closest for known in ASYNCHRONOUS) else error) from None


def label(algorithm: Algorithm[Any] | AsyncAlgorithm[Any]) -> str:
    if isinstance(algorithm, AsyncAlgorithm):
        return named.label_among(algorithm, ASYNCHRONOUS) or repr(algorithm)
    return named.label(algorithm)


def title(algorithm: Algorithm[Any] | AsyncAlgorithm[Any]) -> str:
    """How a paper calls it: what its text begins with."""
    if not isinstance(algorithm, AsyncAlgorithm):
        return named.title(algorithm)
    given = label(algorithm).partition(":")[2]
    name = re.split(r"[,;:.]", sys.modules[type(algorithm).__module__].__doc__ or "", maxsplit=1)[0]
    return f"{name} ({given.replace(',', ', ')})" if given else name
