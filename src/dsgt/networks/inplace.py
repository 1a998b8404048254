"""Rounds of large tensors: programs made from the method's own text, which overwrite what they can."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any, Generic

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Mix, Pending, S
from dsgt.networks.buffers import is_large
from dsgt.networks.dense import Dense, Sent
from dsgt.networks.flights import Flight
from dsgt.networks.formulas import Formula, Given, NotLinearError, Product, Text
from dsgt.networks.programs import Ahead, Memory, Program, Vectors
from dsgt.networks.writing import program


def pay(algorithm: Algorithm[S], s: S, g: Tensor) -> bool:
    """Whether a round is large enough, and nobody asks for derivatives of it."""
    if not (algorithm.arithmetic and is_large(g)):
        return False
    return not (torch.is_grad_enabled() and any(isinstance(v, Tensor) and v.requires_grad for v in (*s, g)))


class InPlace(Generic[S]):
    """``algorithm.update``, which is read once for every learning rate. Tensors of a state that came from ``memory``
    are overwritten, unless another tensor holds their memory too (``Buffers.lent``). With ``x_stays`` so is the old x
    by the new one, wherever it came from, where that saves a copy."""

    def __init__(self, algorithm: Algorithm[S], memory: Memory, *, x_stays: bool = False) -> None:
        self._algorithm, self._memory, self._x_stays = algorithm, memory, x_stays
        self._lr: float | None = None
        self._programs: dict[Hashable, Program | None] = {}
        self._begun: list[_Begun] = []

    def update(self, s: S, g: Tensor, mix: Mix, lr: float) -> S:
        if lr != self._lr:
            self._lr, self._programs = lr, {}
        inputs = _Inputs(s, g.detach())  # a tensor of our own, so that somebody who holds the other is seen
        over = tuple(self._memory.lent(v) for v in inputs.tensors)
        dense = type(mix) is Dense
        case = (inputs.pattern, inputs.alike, over, dense)
        if case not in self._programs:
            self._programs[case] = self._program(s, inputs, over, dense=dense)
        found = self._programs[case]
        if found is None:
            return self._algorithm.update(s, g, mix, lr)
        prepared = {begun.ahead: begun.sum for begun in self._begun if begun.concerns(s)}
        after = type(s)(*found.run(Vectors(inputs.tensors, s, mix, self._memory, prepared)))  # type: ignore[arg-type]
        self._begun = [_Begun(a, after, self._memory) for a in found.ahead if _can_begin(a, after)]
        return after

    def _program(self, s: S, inputs: _Inputs, over: tuple[bool, ...], *, dense: bool) -> Program | None:
        """None where the text is no linear formula of vectors of one kind."""
        if not inputs.alike:
            return None
        assert self._lr is not None
        given = [Given() for _ in inputs.tensors]
        before = [_before(i, *held, given) for i, held in enumerate(inputs.pattern[:-1])]
        try:
            text = Text(self._algorithm, type(s)(*before), given[inputs.pattern[-1][1]], self._lr)  # type: ignore[arg-type]
        except NotLinearError:
            return None
        kept = enumerate(inputs.pattern[:-1])
        fields: dict[Formula, int] = {given[number]: i for i, (kind, number) in kept if kind is Tensor}
        for known_later in (given[0], given[inputs.pattern[-1][1]]):  # x, which others may change, and the gradient
            fields.pop(known_later, None)
        return program(text, given, fields, over, dense=dense, x_stays=self._x_stays)


class _Begun:
    """A sum that is computed in the background, from the message and the tensors of this state."""

    def __init__(self, ahead: Ahead, state: tuple[Any, ...], memory: Memory) -> None:
        self.ahead = ahead
        self._message = state[ahead.message]
        self._others = [state[field] for _, field in ahead.others]
        out = memory.scratch(self._others[0])
        self.sum = self._message.then(partial(ahead.add_up, others=self._others, out=out))

    def concerns(self, state: tuple[Any, ...]) -> bool:
        same = [state[field] is v for (_, field), v in zip(self.ahead.others, self._others, strict=True)]
        return state[self.ahead.message] is self._message and all(same)


def _can_begin(ahead: Ahead, state: tuple[Any, ...]) -> bool:
    message = state[ahead.message]
    travels = isinstance(message, Flight) and message.travels_in_background
    return travels and all(isinstance(state[field], Tensor) for _, field in ahead.others)


class _Inputs:
    """The tensors that a round is given, each once."""

    def __init__(self, s: tuple[Any, ...], g: Tensor) -> None:
        self.tensors: list[Tensor] = []
        self._known: dict[int, int] = {}
        self.pattern = tuple(self._held(field) for field in (*s, g))
        """For every field, and at last g: what it is, and the number of its tensor or of the one that it sends."""
        self.alike = all(v.shape == g.shape and v.dtype == g.dtype for v in self.tensors)

    def _held(self, field: Any) -> tuple[type[Any], int]:
        if isinstance(field, Tensor):
            return Tensor, self._number(field)
        return (Sent, self._number(field.v)) if isinstance(field, Sent) else (Pending, -1)

    def _number(self, v: Tensor) -> int:
        number = self._known.setdefault(id(v), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(v)
        return number


def _before(field: int, kind: type[Any], number: int, given: list[Given]) -> Given | Product | None:
    if kind is Tensor:
        return given[number]
    return Product(field, given[number]) if kind is Sent else None


def shown(state: S) -> S:
    """The same state in tensors of its own, for somebody outside: as long as they live, their memory is left alone."""
    return type(state)(*map(_shown, state))


def _shown(field: Any) -> Any:
    if isinstance(field, Sent):
        return Sent(field.dense, field.v.detach())
    return Done(field.peek().detach()) if isinstance(field, Pending) else field.detach()
