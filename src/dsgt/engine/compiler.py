"""Turns a traced round into instructions: each sum in as few passes over memory as possible, and in place.

Large tensors do not fit into the caches, so what a round costs beyond its mixings is the number of passes over memory,
and how much memory they touch (docs/engine.md; benchmarks/simulator.py, benchmarks/peers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from dsgt.core import Pending
from dsgt.engine.program import PartialSum, Program, Step, Vectors
from dsgt.engine.trace import Arrived, Formula, Given, Mixed, Product, Sum, Trace, Waited, uses
from dsgt.networks.dense import Sent
from dsgt.networks.flights import Flight

Term: TypeAlias = tuple[float, Formula]


@dataclass(frozen=True)
class Setting:
    """What a compiled round may rely on."""

    simulated: bool
    """All nodes live in this process: a product that is sent is computed when it is needed."""
    overwrite: Sequence[bool]
    """For every given vector: whether it may be overwritten after its last use."""
    fields: Mapping[Formula, int]
    """The given vectors that only the method's state holds, with their fields."""
    keep_x: bool = False
    """Between real nodes: whether the new x overwrites the old x (the first given vector), in a single write after
    every message it depends on has arrived."""


def compiled(trace: Trace, given: Sequence[Given], setting: Setting) -> Program:
    compiler = _Compiler(trace, given, setting)
    for event in trace.events:
        compiler.happen(event)
    results = [compiler.result(field) for field in trace.fields]
    return Program(compiler.steps, results, compiler.ahead)


class _Compiler:
    """Writes the instructions, and knows where each vector is and how often it is still needed."""

    def __init__(self, trace: Trace, given: Sequence[Given], setting: Setting) -> None:
        self.steps: list[Step] = []
        self.ahead: list[PartialSum] = []
        self._setting, self._simulated = setting, setting.simulated
        self._old_x, self._new_x = given[0], trace.fields[0]
        self._passed_on = {field for field in trace.fields if isinstance(field, int)}
        self._number: dict[Formula, int] = {f: number for number, f in enumerate(given)}
        self._count = len(given)
        self._over: set[Formula] = {f for f, may in zip(given, setting.overwrite, strict=True) if may}
        self._left = uses(trace)
        self._inner = {f for f, times in self._left.items() if times == 1 and isinstance(f, Sum)}
        """Sums that are used once: within a sum they need no vector of their own."""

    def result(self, field: Formula | int) -> Callable[[Vectors], Tensor | Pending]:
        if isinstance(field, int):
            return lambda r: r.before[field]
        if isinstance(field, Mixed) and not field.at_once:
            return lambda r: r.sent[field]
        number = self._value(field)
        return lambda r: r.at[number]

    def happen(self, event: Mixed | Arrived | Waited) -> None:
        if isinstance(event, Waited):
            self._wait(event.field)
        elif isinstance(event, Arrived):
            self._arrive(event)
        elif event.at_once:
            self._mix(event)
        else:
            self._send(event)

    def _wait(self, field: int) -> None:
        self.steps.append(lambda r: r.before[field].arrive())

    def _arrive(self, arrived: Arrived) -> None:
        message, out = arrived.message, self._new(arrived)

        def step(r: Vectors) -> None:
            r.at[out] = (r.before[message] if isinstance(message, int) else r.sent[message]).wait()

        self.steps.append(step)

    def _mix(self, mixed: Mixed) -> None:
        v, flow, out = self._value(mixed.v), mixed.flow, self._new(mixed)

        def in_simulation(r: Vectors) -> None:
            r.at[out] = r.simulated.into(r.at[v], r.scratch(), flow=flow)

        def between_nodes(r: Vectors) -> None:
            r.at[out] = r.mix.flow(r.at[v]) if flow else r.mix(r.at[v])

        def over_the_old(r: Vectors) -> None:
            r.at[out] = r.peers.into(r.at[v], r.at[0])

        if self._simulated:
            self.steps.append(in_simulation)
            self._over.add(mixed)
        else:
            self.steps.append(over_the_old if self._setting.keep_x and self._replaces_x(mixed) else between_nodes)
        self._used(mixed.v)

    def _send(self, mixed: Mixed) -> None:
        v, flow = self._value(mixed.v), mixed.flow

        def later(r: Vectors) -> None:
            r.sent[mixed] = r.simulated.send(r.at[v])

        def now(r: Vectors) -> None:
            r.sent[mixed] = r.mix.start_flow(r.at[v]) if flow else r.mix.start(r.at[v])

        def between_nodes(r: Vectors) -> None:
            sent = r.at[v].detach()  # which the flight holds as long as it needs it
            r.sent[mixed] = r.mix.start_flow(sent) if flow else r.mix.start(sent)

        if not self._simulated:
            self.steps.append(between_nodes)
        elif flow or isinstance(mixed.v, Given):  # what is given may be somebody else's, who writes into it
            self.steps.append(now)
        else:
            self.steps.append(later)

    def _value(self, formula: Formula) -> int:
        """The number of a formula's vector, which is computed now if it has not been."""
        if formula not in self._number:
            if isinstance(formula, Product):
                self._multiply(formula)
            else:
                assert isinstance(formula, Sum)
                self._add_up(formula)
            self._over.add(formula)
        return self._number[formula]

    def _multiply(self, product: Product) -> None:
        field, v, out = product.field, self._value(product.v), self._new(product)

        def step(r: Vectors) -> None:
            r.at[out] = r.before[field].products.product(r.at[v], r.scratch())

        self.steps.append(step)
        self._used(product.v)

    def _add_up(self, formula: Sum) -> None:
        """The terms are added in the same order in every run, whatever may be overwritten and whatever was computed
        before. Products come last, where BLAS can add them while it multiplies."""
        rest = sorted(self._known_first(self._terms(formula)), key=lambda term: isinstance(term[1], Product | Arrived))
        begin = next((term for term in rest if term[0] == 1 and self._begins(term[1])), rest[0])
        rest.remove(begin)
        c, first = begin
        if c == 1 and rest and self._begins(rest[0][1]):
            total = self._add_two(first, *rest.pop(0))
        else:
            total = self._scale(c, first)
        for c, other in rest:
            self._add_to(total, c, other)
        self._number[formula] = total

    def _begins(self, formula: Formula) -> bool:
        """Whether a sum may begin with it."""
        return not (self._simulated and isinstance(formula, Product | Arrived))

    def _terms(self, formula: Sum) -> list[Term]:
        """A sum among the terms that is used only here is replaced by its own terms."""
        terms: list[Term] = []
        for c, part in formula.terms:
            if isinstance(part, Sum) and part in self._inner:
                terms += [(c * inner, f) for inner, f in self._terms(part)]
            else:
                terms.append((c, part))
        return terms

    def _known_first(self, terms: list[Term]) -> list[Term]:
        """Between real nodes: the terms that are known before the gradient become one, which can be added up ahead."""
        arrived = [f for c, f in terms if c == 1 and isinstance(f, Arrived) and isinstance(f.message, int)]
        others = [(c, f) for c, f in terms if f in self._setting.fields]
        if self._simulated or len(arrived) != 1 or not others or len(others) + 1 == len(terms):
            return terms
        known = Sum(((1.0, arrived[0]), *others))
        self._left[known] = 1
        self._add_up_ahead(known, arrived[0], others)
        return [(1.0, known), *(term for term in terms if term not in known.terms)]

    def _add_up_ahead(self, known: Sum, arrived: Arrived, others: list[Term]) -> None:
        assert isinstance(arrived.message, int)
        ahead = PartialSum(arrived.message, tuple((c, self._setting.fields[f]) for c, f in others))
        a, bs, out = self._value(arrived), [self._value(f) for _, f in others], self._new(known)

        def step(r: Vectors) -> None:
            if ahead in r.prepared:
                r.at[out] = r.prepared[ahead].result()
            else:
                r.at[out] = ahead.add_up(r.at[a], [r.at[b] for b in bs], r.scratch())

        self.steps.append(step)
        self.ahead.append(ahead)
        self._over.add(known)
        for f in (arrived, *(f for _, f in others)):
            self._used(f)

    def _scale(self, c: float, formula: Formula) -> int:
        a = self._value(formula)
        place, out = self._place(formula), self._new()

        def step(r: Vectors) -> None:
            r.at[out] = torch.mul(r.at[a], c, out=r.scratch() if place is None else r.at[place])

        self.steps.append(step)
        self._used(formula)
        return out

    def _add_two(self, formula: Formula, c: float, other: Formula) -> int:
        a, b = self._value(formula), self._value(other)
        place, out = self._place(formula, other), self._new()

        def step(r: Vectors) -> None:
            r.at[out] = torch.add(r.at[a], r.at[b], alpha=c, out=r.scratch() if place is None else r.at[place])

        self.steps.append(step)
        self._used(formula)
        self._used(other)
        return out

    def _add_to(self, total: int, c: float, formula: Formula) -> None:
        if isinstance(formula, Product) and c == 1 and self._left[formula] == 1:
            self._add_product(total, formula)
            return
        b = self._value(formula)
        self.steps.append(lambda r: r.at[total].add_(r.at[b], alpha=c))
        self._used(formula)

    def _add_product(self, total: int, product: Product) -> None:
        """Without a vector of its own, since it is used here only."""
        field, v = product.field, self._value(product.v)

        def step(r: Vectors) -> None:
            sent: Sent = r.before[field]
            if not sent.products.add_product(r.at[v], r.at[total]):
                r.at[total].add_(sent.products.product(r.at[v], r.scratch()))

        self.steps.append(step)
        self._used(product.v)

    def _place(self, *formulas: Formula) -> int | None:
        """Where to write what is computed from these: over one of them, if this is its last use."""
        spent = next((f for f in formulas if f in self._over and self._left[f] == 1), None)
        if spent is None:
            return None
        self._over.remove(spent)
        return self._number[spent]

    def _replaces_x(self, mixed: Mixed) -> bool:
        """Whether this is the new x and nothing else (a vector that is also sent or kept needs memory of its own), and
        whether the old x is not needed any more."""
        only_x = mixed is self._new_x and self._left[mixed] == 1 and not mixed.flow
        return only_x and not self._left[self._old_x]

    def _new(self, formula: Formula | None = None) -> int:
        number, self._count = self._count, self._count + 1
        if formula is not None:
            self._number[formula] = number
        return number

    def _used(self, formula: Formula) -> None:
        self._left[formula] -= 1
        if self._left[formula]:
            return
        number = self._number[formula]
        if not isinstance(formula, Given):
            self.steps.append(lambda r: r.at.pop(number))  # its memory is wanted
            if isinstance(formula, Arrived) and isinstance(formula.message, int):
                self._forget(formula.message)
        elif formula in self._over and not self._simulated:
            self.steps.append(lambda r: r.memory.release(r.at[number]))

    def _forget(self, message: int) -> None:
        """Between real nodes: the memory of a message that no state holds after this round."""

        def step(r: Vectors) -> None:
            if isinstance(flight := r.before[message], Flight):
                flight.forget(r.memory)

        if message not in self._passed_on and not self._simulated:
            self.steps.append(step)
