"""A compressor by its name, ``top-k:0.01``: the values after the colons are its fields."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

from dsgt.compression.base import Compressor
from dsgt.compression.low_rank import LowRank
from dsgt.compression.plain import BFloat16, Float16, Identity
from dsgt.compression.quantised import Quantise, Sign
from dsgt.compression.sparse import RandK, TopK
from dsgt.text import nearest

COMPRESSORS: dict[str, type[Compressor]] = {
    kind.name: kind for kind in (Identity, TopK, RandK, Quantise, Sign, LowRank, Float16, BFloat16)
}


def compressor(text: str) -> Compressor:
    """The compressor that ``name`` or ``name:value:value`` means; a ValueError says what is wrong with it."""
    name, *values = text.split(":")
    if name not in COMPRESSORS:
        raise ValueError(nearest(name, COMPRESSORS, "compressor"))
    kind = COMPRESSORS[name]
    types = get_type_hints(kind)
    known = [f.name for f in fields(kind) if types[f.name] in (int, float, bool)]  # type: ignore[arg-type]
    if len(values) > len(known):
        takes = f"takes {':'.join(known)}" if known else "takes none"
        raise ValueError(f"{text!r} gives {name} {len(values)} values; it {takes}")
    given = {key: _number(types[key], value, f"{key} of {name}") for key, value in zip(known, values, strict=False)}
    return kind(**given)


def _number(kind: type, text: str, what: str) -> float:
    if kind is bool:
        if text not in ("True", "False", "true", "false"):
            raise ValueError(f"{what} is {text!r}; expected true or false")
        return text in ("True", "true")
    try:
        number: float = kind(text)
    except ValueError:
        raise ValueError(f"{what} is {text!r}; expected {'a whole number' if kind is int else 'a number'}") from None
    return number
