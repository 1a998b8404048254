"""A method by its name, ``dsgt``, by its name and parameters, ``decentlam:beta=0.5``, or your own, ``module:name``.

With an oracle in the place of its gradients it is still one word: ``extra+saga``, ``dsgt+svrg:every=50``."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import Field
from typing import Any, TypeVar, get_type_hints

from dsgt.algorithms import ALGORITHMS, ALIASES, COMPOSITIONS
from dsgt.compression import Compressor, compressor
from dsgt.core import Algorithm, Oracle, parameters, without_oracle
from dsgt.factories import Factory, is_factory, lookup
from dsgt.oracles import ORACLES
from dsgt.text import nearest

T = TypeVar("T")

EXPECTED: dict[Any, str] = {
    float: "a finite number",
    int: "a whole number",
    bool: "true or false",
    str: "a word",
    Compressor: "a compressor such as top-k:0.01",
}
TRUTH = {"true": True, "false": False}
TITLES = {"sgd": "centralized SGD", "atc-dpsgd": "D-PSGD (ATC)"}
"""Of methods whose text begins with more than a name."""


def method(text: str) -> Algorithm[Any]:
    """The method that ``name`` or ``name:key=value,key=value`` means; a ValueError says what is wrong with it.

    ``module:name`` is your own: a method, its class, or a function that makes one.
    """
    text, *oracles = _split(text)
    name = text.partition(":")[0]
    name = ALIASES.get(name, name)
    kinds = ALGORITHMS | COMPOSITIONS
    if name in kinds:
        made = with_parameters(kinds[name], name, text)
    elif is_factory(text):
        made = own_method(lookup(text, "method"))
    elif name in ORACLES:
        raise ValueError(f"{name} is an oracle, which gives a method its gradients; write for example dsgt+{text}")
    else:
        raise ValueError(nearest(name, [*kinds, *ALIASES], "method"))
    return made.asking(oracle(oracles[0])) if oracles else made


def oracle(text: str) -> Oracle[Any]:
    """The oracle that ``saga`` or ``saga:q=20`` means."""
    name = text.partition(":")[0]
    if name not in ORACLES:
        raise ValueError(nearest(name, ORACLES, "oracle"))
    return with_parameters(ORACLES[name], name, text)


def with_parameters(kind: type[T], name: str, text: str) -> T:
    """One of this kind with the parameters that stand behind the colon."""
    _, colon, given = text.partition(":")
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


def in_python(made: object) -> str:
    """What makes it again after ``import dsgt``, if it is one of this package's."""
    if isinstance(made, Algorithm) and (plain := without_oracle(made)) is not made:
        return f"{in_python(plain)}.asking({in_python(made.asks)})"
    return f"dsgt.{made!r}"


def label(algorithm: Algorithm[Any]) -> str:
    """How a method is called in tables and figures: its name and what is not by default; ``method`` understands it."""
    plain, kinds = without_oracle(algorithm), ALGORITHMS | COMPOSITIONS
    words = [label_among(plain, kinds)] + [label_among(algorithm.asks, ORACLES)] * (plain is not algorithm)
    return "+".join(word for word in words if word) if all(words) else repr(algorithm)


def is_own(text: str) -> bool:
    """Whether a method is named as ``module:name``, with an oracle or without."""
    plain = _split(text)[0]
    return is_factory(plain) and plain.partition(":")[0] not in ALGORITHMS | COMPOSITIONS


def _split(text: str) -> list[str]:
    """The method, and its oracle if there is one."""
    return re.split(r"\+(?=[a-z])", text, maxsplit=1)  # not in 1e+5


def label_among(made: object, kinds: Mapping[str, type]) -> str | None:
    name = next((name for name, kind in kinds.items() if type(made) is kind), None)
    if name is None:
        return None
    changed = [f for f in parameters(made) if getattr(made, f.name) != f.default]
    return name + ":" * bool(changed) + ",".join(f"{f.name}={_text(getattr(made, f.name))}" for f in changed)


def is_ours(algorithm: Algorithm[Any]) -> bool:
    """Whether it is one of this package's, and not somebody's own."""
    return type(algorithm) in (ALGORITHMS | COMPOSITIONS).values()


def title(algorithm: Algorithm[Any]) -> str:
    """How a paper calls it: ``D²``, ``DecentLaM (beta=0.5)``. What its text begins with; your own: the class's name."""
    if (plain := without_oracle(algorithm)) is not algorithm:
        oracle = algorithm.asks
        changed = [f for f in parameters(oracle) if getattr(oracle, f.name) != f.default]
        values = ", ".join(f"{f.name}={_text(getattr(oracle, f.name))}" for f in changed)
        return f"{title(plain)} + {type(oracle).__name__}{f' ({values})' if values else ''}"
    name, _, given = label(algorithm).partition(":")
    kind = type(algorithm)
    if not is_ours(algorithm):
        changed = [f for f in parameters(algorithm) if getattr(algorithm, f.name) != f.default]
        name, given = kind.__name__, ",".join(f"{f.name}={_text(getattr(algorithm, f.name))}" for f in changed)
    else:
        text = sys.modules[kind.__module__].__doc__ or kind.__name__
        name = TITLES.get(name) or re.split(r"[,;:.]", text, maxsplit=1)[0]
    return f"{name} ({given.replace(',', ', ')})" if given else name


def _value(kind: type, text: str, what: str) -> Any:
    if kind is Compressor:
        return compressor(text)
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
