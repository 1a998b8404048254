"""Rounds of large tensors: the method's ``update`` is traced once, compiled, and executed in place."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any, Generic

import torch
from torch import Tensor

from dsgt.buffers import Buffers, is_large
from dsgt.core import Algorithm, Done, Mix, Pending, S, changed
from dsgt.engine.compiler import Setting, compiled
from dsgt.engine.program import PartialSum, Program, Vectors
from dsgt.engine.trace import Formula, Given, NotLinearError, Product, Trace
from dsgt.networks.dense import Sent, Simulated
from dsgt.networks.flights import Flight
from dsgt.networks.peers import PeersMix


def is_worthwhile(algorithm: Algorithm[S], s: S, g: Tensor, mix: Mix) -> bool:
    """Whether a round is large, over a network whose mixings this engine knows, and nobody asks for its derivatives."""
    known = mix.direct if isinstance(mix, Simulated) else isinstance(mix, PeersMix)
    elsewhere = type(algorithm).point is not Algorithm.point  # which may look at what was to be overwritten
    if not (algorithm.arithmetic and known and is_large(g)) or elsewhere:
        return False
    return not (torch.is_grad_enabled() and any(isinstance(v, Tensor) and v.requires_grad for v in (*s, g)))


class InPlace(Generic[S]):
    """``algorithm.update``, compiled anew for every learning rate. Tensors of a state whose memory came from ``memory``
    are overwritten, unless another tensor shares it. With ``keep_x`` the new x overwrites the old one, wherever that
    came from, where it saves a copy, and g is nobody else's."""

    def __init__(self, algorithm: Algorithm[S], memory: Buffers, *, keep_x: bool = False) -> None:
        self._algorithm, self._memory, self._keep_x = algorithm, memory, keep_x
        self._lr: float | None = None
        self._programs: dict[Hashable, Program | None] = {}
        self._begun: list[_BackgroundSum] = []

    def update(self, s: S, g: Tensor, mix: Mix, lr: float) -> S:
        if lr != self._lr:
            self._lr, self._programs = lr, {}
        # a tensor object of our own: then the reference count sees who else holds g
        inputs = _Inputs(s, g if self._keep_x else g.detach())
        overwrite = tuple(self._memory.may_overwrite(v) for v in inputs.tensors)
        simulated = isinstance(mix, Simulated)
        case = (inputs.pattern, inputs.alike, overwrite, simulated)
        if case not in self._programs:
            self._programs[case] = self._program(s, inputs, overwrite, simulated=simulated)
        program = self._programs[case]
        if program is None:
            return self._algorithm.update(s, g, mix, lr)
        prepared = {begun.partial: begun.sum for begun in self._begun if begun.concerns(s)}
        fields = program.run(Vectors(inputs.tensors, s, mix, self._memory, prepared))
        after: S = type(s)(*fields)  # type: ignore[arg-type]
        self._begun = [_BackgroundSum(p, after, self._memory) for p in program.ahead if _can_begin(p, after)]
        return after

    def _program(self, s: S, inputs: _Inputs, overwrite: tuple[bool, ...], *, simulated: bool) -> Program | None:
        """None where ``update`` is not a linear formula of vectors of one shape and dtype."""
        if not inputs.alike:
            return None
        assert self._lr is not None
        given = [Given() for _ in inputs.tensors]
        *state, (_, gradient) = inputs.pattern
        before = [_before(i, *held, given) for i, held in enumerate(state)]
        try:
            trace = Trace(self._algorithm, type(s)(*before), given[gradient], self._lr)  # type: ignore[arg-type]
        except NotLinearError:
            return None
        fields: dict[Formula, int] = {given[number]: i for i, (kind, number) in enumerate(state) if kind is Tensor}
        fields.pop(given[0], None)  # the optimizer keeps x elsewhere, and a sum with it could not be used
        return compiled(trace, given, Setting(simulated, overwrite, fields, self._keep_x))


class _BackgroundSum:
    """A partial sum that a background thread computes from the message and the tensors of this state."""

    def __init__(self, known: PartialSum, state: tuple[Any, ...], memory: Buffers) -> None:
        self.partial = known
        self._message = state[known.message]
        self._others = [state[field] for _, field in known.others]
        out = memory.scratch(self._others[0])
        self.sum = self._message.then(partial(known.add_up, others=self._others, out=out))

    def concerns(self, state: tuple[Any, ...]) -> bool:
        same = [state[field] is v for (_, field), v in zip(self.partial.others, self._others, strict=True)]
        return state[self.partial.message] is self._message and all(same)


def _can_begin(known: PartialSum, state: tuple[Any, ...]) -> bool:
    message = state[known.message]
    travels = isinstance(message, Flight) and message.travels_in_background
    return travels and all(isinstance(state[field], Tensor) for _, field in known.others)


class _Inputs:
    """The tensors that a round is given, each once."""

    def __init__(self, s: tuple[Any, ...], g: Tensor) -> None:
        self.tensors: list[Tensor] = []
        self._known: dict[int, int] = {}
        self.pattern = tuple(self._held(field) for field in (*s, g))
        """For every field, and last for g: what it is, and the number of its tensor or of the one that it sends."""
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


def handed_out(state: S) -> S:
    """The same state in tensor objects of its own: as long as somebody holds them, their memory is not overwritten."""
    return changed(state, lambda _, field: _handed_out(field))


def _handed_out(field: Any) -> Any:
    if isinstance(field, Sent):
        return Sent(field.products, field.v.detach(), field.arrive)
    return Done(field.peek().detach()) if isinstance(field, Pending) else field.detach()
