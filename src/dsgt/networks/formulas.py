"""What an ``arithmetic`` method writes in a round, as formulas: its text is read first and computed afterwards.

``update`` is called with formulas in the place of tensors. When it has returned it is known what is needed where for
the last time, and a round can be computed in fewer passes over memory (programs.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsgt.core import Algorithm, Mix, Pending, S


class NotLinearError(Exception):
    """The text multiplies vectors, adds a number to one or calls torch's functions: its formula is not one of ours."""


class Formula:
    """A vector at every node: one that is given, a mixing, or a sum of multiples of others."""

    __array_ufunc__ = None  # a number of NumPy's lets us multiply

    def __add__(self, other: Any) -> Formula:
        return Sum(((1.0, self), (1.0, _formula(other))))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Formula:
        return Sum(((1.0, self), (-1.0, _formula(other))))

    def __rsub__(self, other: Any) -> Formula:
        return Sum(((1.0, _formula(other)), (-1.0, self)))

    def __neg__(self) -> Formula:
        return self * -1.0

    def __mul__(self, c: Any) -> Formula:
        return Sum(((_number(c), self),))

    __rmul__ = __mul__

    def __truediv__(self, c: Any) -> Formula:
        return self * (1.0 / _number(c))

    def __rtruediv__(self, other: Any) -> Formula:
        raise NotLinearError

    def __getitem__(self, part: Any) -> Any:
        raise _not_arithmetic("a part of a vector")

    def __getattr__(self, name: str) -> Any:
        raise _not_arithmetic(f".{name}")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotLinearError  # torch's functions are given tensors


@dataclass(eq=False)
class Given(Formula):
    """A field of the state before the round, what was sent for one, or the gradient."""


@dataclass(eq=False)
class Mixed(Formula):
    """W v, or the flow (W - I) v; unless it is wanted at once it is only sent, and ``Arrived`` is what comes of it."""

    v: Formula
    flow: bool
    at_once: bool


@dataclass(eq=False)
class Arrived(Formula):
    """A message, waited for: one of this round, or the one in this field of the state before."""

    message: Mixed | int


@dataclass(eq=False)
class Product(Formula):
    """W v that was sent in an earlier round and has not been computed; it is in this field of the state before."""

    field: int
    v: Given


@dataclass(eq=False)
class Sum(Formula):
    terms: tuple[tuple[float, Formula], ...]


class Text(Mix):
    """A round as its method writes it: ``events``, the mixings and the waits, in order, and the ``fields`` after it."""

    def __init__(self, algorithm: Algorithm[S], before: S, g: Given, lr: float) -> None:
        """before: the fields of the state; a Product for a product to be computed, None for another message."""
        self.events: list[Mixed | Arrived] = []
        given = [f if isinstance(f, Given) else _Message(self, i, f) for i, f in enumerate(before)]
        after = algorithm.update(type(before)(*given), g, self, lr)  # type: ignore[arg-type]
        self.fields: list[Formula | int] = [f.message if isinstance(f, _Message) else f for f in after]

    def start(self, v: Any) -> Any:
        return self._send(v, flow=False)

    def start_flow(self, v: Any) -> Any:
        return self._send(v, flow=True)

    def __call__(self, v: Any) -> Any:
        return self._mix(v, flow=False)

    def flow(self, v: Any) -> Any:
        return self._mix(v, flow=True)

    def together(self, *vs: Any) -> Any:
        raise TypeError("a method that mixes tensors together joins them by torch: do not declare it arithmetic")

    def _send(self, v: Formula, *, flow: bool) -> _Message:
        sent = Mixed(v, flow, at_once=False)
        self.events.append(sent)
        return _Message(self, sent)

    def _mix(self, v: Formula, *, flow: bool) -> Mixed:
        mixed = Mixed(v, flow, at_once=True)
        self.events.append(mixed)
        return mixed


class _Message(Pending):
    def __init__(self, text: Text, message: Mixed | int, arrived: Formula | None = None) -> None:
        self._text, self.message, self._arrived = text, message, arrived

    def wait(self) -> Any:
        if self._arrived is None:
            self._arrived = arrived = Arrived(self.message)
            self._text.events.append(arrived)
        return self._arrived


def _not_arithmetic(what: str) -> TypeError:
    return TypeError(f"{what} is not one of + - * / and no mixing: do not declare the method arithmetic")


def _formula(other: Any) -> Formula:
    if isinstance(other, Formula):
        return other
    raise NotLinearError


def _number(c: Any) -> float:
    if isinstance(c, int | float):
        return float(c)
    raise NotLinearError
