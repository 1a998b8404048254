"""A method by its name, ``dsgt``, by its name and parameters, ``decentlam:beta=0.5``, or your own, ``module:name``."""

from __future__ import annotations

import math
from dataclasses import Field
from typing import Any, get_type_hints

from dsgt.algorithms import ALGORITHMS, ALIASES, COMPOSITIONS
from dsgt.core import Algorithm, parameters
from dsgt.factories import Factory, is_factory, lookup
from dsgt.text import nearest

EXPECTED = {float: "a finite number", int: "a whole number", bool: "true or false", str: "a word"}
TRUTH = {"true": True, "false": False}


def method(text: str) -> Algorithm[Any]:
    """The method that ``name`` or ``name:key=value,key=value`` means; a ValueError says what is wrong with it.

    ``module:name`` is your own: a method, its class, or a function that makes one.
    """
    name, colon, given = text.partition(":")
    name = ALIASES.get(name, name)
    kinds = ALGORITHMS | COMPOSITIONS
    if name not in kinds:
        if is_factory(text):
            return own_method(lookup(text, "method"))
        raise ValueError(nearest(name, [*kinds, *ALIASES], "method"))
    kind = kinds[name]
    if not colon:
        return kind()
    types = get_type_hints(kind)
    known = {f.name: f for f in parameters(kind) if types[f.name] in EXPECTED}  # others cannot be given as text
    if not known:
        raise ValueError(f"{name} has no parameters, but {text!r} was given; write {name}")
    values: dict[str, Any] = {}
    for pair in given.split(","):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair!r} in {text!r} is not key=value; write for example {_example(name, known)}")
        if key not in known:
            raise ValueError(nearest(key, known, f"parameter of {name}"))
        if key in values:
            raise ValueError(f"{key} is given twice in {text!r}; give it once")
        values[key] = _value(types[key], value, f"{key} of {name}")
    return kind(**values)


def own_method(factory: Factory) -> Algorithm[Any]:
    """What is missing in it comes out here, not in the first round."""
    made: Algorithm[Any] = factory.make(Algorithm)
    if not hasattr(made, "sends"):
        raise ValueError(
            f"the method {factory.text!r} does not say what it sends: give its class `sends`, how many m-vectors "
            "a node sends to each neighbour in a round"
        )
    return made


def label(algorithm: Algorithm[Any]) -> str:
    """How a method is called in tables and figures: its name and what is not by default; ``method`` understands it."""
    name = next((name for name, kind in (ALGORITHMS | COMPOSITIONS).items() if type(algorithm) is kind), None)
    if name is None:
        return repr(algorithm)
    changed = [f for f in parameters(algorithm) if getattr(algorithm, f.name) != f.default]
    return name + ":" * bool(changed) + ",".join(f"{f.name}={_text(getattr(algorithm, f.name))}" for f in changed)


def _value(kind: type, text: str, what: str) -> Any:
    try:
        value = TRUTH[text.lower()] if kind is bool else kind(text)
    except (ValueError, KeyError):
        value = math.nan
    if value != value or value in (math.inf, -math.inf):
        raise ValueError(f"{what} is {text!r}; expected {EXPECTED[kind]}")
    return value


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _example(name: str, known: dict[str, Field[Any]]) -> str:
    return f"{name}:" + ",".join(f"{key}={_text(f.default)}" for key, f in known.items())
