"""What an ``arithmetic`` method computes in a round, traced before it is computed.

``update`` is called once with formulas in the place of tensors, which record what is done to them. The trace shows
where each vector is used for the last time, so that compiler.py can compute the round in fewer passes over memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dsgt.core import Algorithm, Mix, Pending, S


class NotLinearError(Exception):
    """``update`` does more than add up multiples and mixings of vectors, and must be called with tensors."""


def _not_linear(*_: Any, **__: Any) -> Any:
    raise NotLinearError


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

    __pow__ = __abs__ = __pos__ = __rtruediv__ = __getitem__ = __bool__ = _not_linear
    __lt__ = __le__ = __gt__ = __ge__ = __getattr__ = _not_linear
    __torch_function__: Callable[..., Any] = classmethod(_not_linear)  # type: ignore[assignment]


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
class Waited:
    """The moment when the message in this field of the state before is waited for; a ``Product`` is computed later."""

    field: int


@dataclass(eq=False)
class Sum(Formula):
    terms: tuple[tuple[float, Formula], ...]


class Trace(Mix):
    """A round as its method writes it: the Mix that records what is sent and waited for."""

    def __init__(self, algorithm: Algorithm[S], before: S, g: Given, lr: float) -> None:
        """before: the fields of the state; a Product for a product to be computed, None for another message."""
        self.events: list[Mixed | Arrived | Waited] = []
        """Mixings and waits, in order."""
        given = [f if isinstance(f, Given) else _Message(self, i, product=f) for i, f in enumerate(before)]
        after = algorithm.update(type(before)(*given), g, self, lr)  # type: ignore[arg-type]
        self.fields = [_field(f) for f in after]
        """Those of the state afterwards: formulas, messages that were sent, and by number messages of ``before``."""
        self.passed_on = [f for i, f in enumerate(before) if i in self.fields and isinstance(f, Product)]

    def start(self, v: Any) -> Any:
        return self._send(v, flow=False)

    def start_flow(self, v: Any) -> Any:
        return self._send(v, flow=True)

    def __call__(self, v: Any) -> Any:
        return self._mix(v, flow=False)

    def flow(self, v: Any) -> Any:
        return self._mix(v, flow=True)

    def together(self, *vs: Any) -> Any:
        raise NotLinearError

    def _unknown(self, what: str) -> Exception:
        return NotLinearError()

    def _send(self, v: Any, *, flow: bool) -> _Message:
        sent = Mixed(_formula(v), flow, at_once=False)
        self.events.append(sent)
        return _Message(self, sent)

    def _mix(self, v: Any, *, flow: bool) -> Mixed:
        mixed = Mixed(_formula(v), flow, at_once=True)
        self.events.append(mixed)
        return mixed


class _Message(Pending):
    """A message of this round, or the one in a field of the state before, by its number."""

    def __init__(self, trace: Trace, message: Mixed | int, product: Product | None = None) -> None:
        self._trace, self.message, self._product = trace, message, product
        self._arrived: Formula | None = None

    def wait(self) -> Any:
        if self._arrived is None:
            if self._product is not None:
                self._trace.events.append(Waited(self._product.field))
                self._arrived = self._product
            else:
                self._arrived = arrived = Arrived(self.message)
                self._trace.events.append(arrived)
        return self._arrived


def _field(field: Any) -> Formula | int:
    return field.message if isinstance(field, _Message) else _formula(field)


def _formula(other: Any) -> Formula:
    if isinstance(other, Formula):
        return other
    raise NotLinearError


def _number(c: Any) -> float:
    if isinstance(c, int | float):
        return float(c)
    raise NotLinearError


def uses(trace: Trace) -> Counter[Formula]:
    """How often each formula is used by others. Being a field of the new state, or the content of a message in flight,
    counts as one more use that never ends: such a vector is not overwritten."""
    fields = [f for f in trace.fields if isinstance(f, Formula)]
    sent = [event.v for event in trace.events if isinstance(event, Mixed) and not event.at_once]
    uses: Counter[Formula] = Counter([*fields, *sent, *(product.v for product in trace.passed_on)])
    seen: set[Formula] = set()
    unseen: list[Formula] = [*(e for e in trace.events if isinstance(e, Formula)), *fields]
    while unseen:
        formula = unseen.pop()
        if formula not in seen:
            seen.add(formula)
            parts = _parts(formula)
            uses.update(parts)
            unseen += parts
    return uses


def _parts(formula: Formula) -> list[Formula]:
    if isinstance(formula, Sum):
        return [part for _, part in formula.terms]
    return [formula.v] if isinstance(formula, Mixed | Product) else []
