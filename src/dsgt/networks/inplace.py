"""Rounds of large tensors: programs made from the method's own text, which overwrite what they can."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Mix, Pending, S
from dsgt.networks.buffers import is_large
from dsgt.networks.dense import Dense, Sent
from dsgt.networks.formulas import Given, NotLinearError, Product, Text
from dsgt.networks.programs import Memory, Program, Vectors


def pay(algorithm: Algorithm[S], s: S, g: Tensor) -> bool:
    """Whether a round is large enough, and nobody asks for derivatives of it."""
    if not (algorithm.arithmetic and is_large(g)):
        return False
    return not (torch.is_grad_enabled() and (g.requires_grad or s[0].requires_grad))


class InPlace(Generic[S]):
    """``algorithm.update``. To ``consume`` a state is to overwrite those of its tensors that came from ``memory`` and
    that nobody else holds."""

    def __init__(self, algorithm: Algorithm[S], memory: Memory, *, consume: bool) -> None:
        self._algorithm, self._memory, self._consume = algorithm, memory, consume
        self._lr: float | None = None
        self._programs: dict[Hashable, Program | None] = {}

    def update(self, s: S, g: Tensor, mix: Mix, lr: float) -> S:
        if lr != self._lr:
            self._lr, self._programs = lr, {}
        g = g.detach()  # a tensor of our own, so that somebody who holds the other is seen
        given = _Given(s, g)
        over = tuple(self._consume and self._memory.lent(v) for v in given.tensors)
        case = (given.pattern, over, type(mix) is Dense)
        if case not in self._programs:
            self._programs[case] = self._program(s, g, given, over, dense=type(mix) is Dense)
        program = self._programs[case]
        if program is None:
            return self._algorithm.update(s, g, mix, lr)
        fields = program.run(Vectors(given.tensors, s, mix, self._memory))
        return type(s)(*fields)  # type: ignore[arg-type]

    def _program(self, s: S, g: Tensor, given: _Given, over: tuple[bool, ...], *, dense: bool) -> Program | None:
        """None where the text is no linear formula of vectors of one kind."""
        if any(v.shape != g.shape or v.dtype != g.dtype for v in given.tensors):
            return None
        assert self._lr is not None
        formulas = [Given() for _ in given.tensors]
        *numbers, last = given.pattern
        before = [_before(field, f, n, formulas) for field, (f, n) in enumerate(zip(s, numbers, strict=True))]
        try:
            text = Text(self._algorithm, type(s)(*before), formulas[last], self._lr)  # type: ignore[arg-type]
        except NotLinearError:
            return None
        return Program(text, formulas, over, dense=dense)


class _Given:
    """The tensors that a round is given, each once, and for every field, and at last g, which of them it is or sent;
    -1 for a message that is none of our products."""

    def __init__(self, s: tuple[Any, ...], g: Tensor) -> None:
        self.tensors: list[Tensor] = []
        self._known: dict[int, int] = {}
        self.pattern = tuple(-1 if v is None else self._number(v) for v in [*map(_held, s), g])

    def _number(self, v: Tensor) -> int:
        number = self._known.setdefault(id(v), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(v)
        return number


def _held(field: Any) -> Tensor | None:
    if isinstance(field, Tensor):
        return field
    return field.v if isinstance(field, Sent) else None


def _before(field: int, value: Any, number: int, given: list[Given]) -> Given | Product | None:
    if isinstance(value, Tensor):
        return given[number]
    return Product(field, given[number]) if isinstance(value, Sent) else None


def shown(state: S) -> S:
    """The same state in tensors of its own, for somebody outside: as long as they live, their memory is left alone."""
    return type(state)(*map(_shown, state))


def _shown(field: Any) -> Any:
    if isinstance(field, Sent):
        return Sent(field.dense, field.v.detach())
    return Done(field.peek().detach()) if isinstance(field, Pending) else field.detach()
