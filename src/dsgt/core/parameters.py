"""The parameters of a method, an oracle or a compressor: the fields of a frozen dataclass, each with its range."""

from __future__ import annotations

import operator
from dataclasses import Field, field, fields, is_dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def parameter(
    default: T,
    meaning: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> T:
    """A field of a method: its default, what it means, and the range least <= value <= most, above < value < below."""
    bounds = {"at least": least, "above": above, "at most": most, "below": below}
    made: T = field(default=default, metadata={"meaning": meaning, "bounds": bounds})
    return made


_HOLDS = {"at least": operator.ge, "above": operator.gt, "at most": operator.le, "below": operator.lt}


def parameters(method: object) -> tuple[Field[Any], ...]:
    """The fields of a method, or of its class; none where it is no dataclass."""
    return fields(method) if is_dataclass(method) else ()


def check_ranges(made: object) -> None:
    """Every parameter must lie in its range."""
    for f in parameters(made):
        value, bounds = getattr(made, f.name), f.metadata.get("bounds", {})
        asked = {words: bound for words, bound in bounds.items() if bound is not None}
        if not all(_HOLDS[words](value, bound) for words, bound in asked.items()):
            expected = " and ".join(f"{words} {bound}" for words, bound in asked.items())
            raise ValueError(f"{f.name} of {type(made).__name__} is {value}; expected {expected}")
