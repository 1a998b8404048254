"""A node's neighbours: messages to them and from them, and errors that name the one who did not answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType

import torch
from torch import Tensor

from dsgt.buffers import Buffers
from dsgt.core import WireError
from dsgt.networks.messages import InOrder, Kind, SameKind
from dsgt.networks.row import Row
from dsgt.networks.transport import PURPOSES, Farewell, Purpose, Request, Requests, Transport, WrongMessageError

ROLL_CALL_SHARE = 0.1
"""The share of the timeout that is kept for finding out who is missing from an all-reduce."""


class NeighbourError(RuntimeError):
    """A neighbour did not answer, or does not run the same thing."""

    def __init__(
        self, node: int, neighbour: int | None, timeout: float, reason: str, *, known: str | None = None
    ) -> None:
        """known: what has happened, where that is known; it goes on after "node 0 "."""
        who = "the others" if neighbour is None else f"its neighbour, node {neighbour},"
        known = known or (
            f"heard nothing from {who} for {timeout:g} s, or lost the connection: that process has died, hangs, waits "
            "for a neighbour of its own, or sends a message of another length"
        )
        super().__init__(f"node {node} {known} ({reason.strip() or 'no answer'})")
        self.node, self.neighbour = node, neighbour


class Neighbours:
    """All whom this node hears or tells in some round, and the transport that reaches them."""

    def __init__(self, rows: Iterable[Row], transport: Transport, timeout: float) -> None:
        self.transport, self.timeout = transport, timeout
        self.node, self.nodes = transport.node, transport.size
        self.hears: set[int] = set()
        self.tells: set[int] = set()
        """Greetings go to these, and come from those."""
        self.add(rows)
        self.buffers = Buffers(apart=True)
        """Where messages are received."""
        self.broken = False
        """Whether a neighbour was lost: no message can be expected any more."""
        self._mixing, self._greeting = Purpose.MIXING.number(0), Purpose.GREETING.number(0)
        """The numbers of the last ones."""
        self._announcing: set[int] = set()
        """The numbers of mixings that have not departed yet and are the first of their kind."""
        self._announced: set[tuple[int, torch.dtype]] = set()
        self._averaged: tuple[int, torch.dtype] | None = None
        """What the last all-reduce that mixed was made of."""

    def add(self, rows: Iterable[Row]) -> None:
        """Those of further weights."""
        for row in rows:
            self.hears.update(row.hears)
            self.tells.update(row.tells)

    def next_mixing(self, length: int, dtype: torch.dtype) -> int:
        """Its number. Whether it will be announced is said now, in the order of the program: it may depart later."""
        self._mixing = number = self._mixing + PURPOSES
        kind = (length, dtype)
        if kind not in self._announced and self.transport.announces:
            self._announced.add(kind)
            self._announcing.add(number)
        return number

    def exchange(
        self, letters: Mapping[int, Tensor], into: dict[int, Tensor], number: int, *, later: Sequence[int] = ()
    ) -> tuple[Requests, Requests]:
        """Begin a mixing. The first message of a kind is announced, so that nodes that do not run the same thing find
        it out at once. In a round in which a node neither hears nor tells anybody there is nothing to begin.
        later: those who will be asked by ``receive``; of them only an announcement is received here."""
        if number not in self._announcing or not (letters or into):
            self._announcing.discard(number)
            return self.transport.exchange(letters, into, number)
        self._announcing.remove(number)
        letter = next(iter((letters or into).values()))
        hearing, telling = self._announce(Kind.of(letter), number, to=letters, hears=[*into, *later])
        receiving, sending = self.transport.exchange(letters, into, number)
        return (
            hearing | {j: InOrder((hearing[j], request)) for j, request in receiving.items()},
            {i: InOrder((telling[i], request)) for i, request in sending.items()},
        )

    def receive(self, neighbour: int, buffer: Tensor, number: int, *, announced: Request | None) -> Request:
        """Ask for the message of one who was to be asked later."""
        request = self.transport.exchange({}, {neighbour: buffer}, number)[0][neighbour]
        return request if announced is None else InOrder((announced, request))

    def _announce(
        self, kind: Kind, mixing: int, *, to: Iterable[int], hears: Iterable[int]
    ) -> tuple[Requests, Requests]:
        mine = kind.tensor(self.transport.device)
        theirs = {j: torch.empty_like(mine) for j in hears}
        number = mixing - Purpose.MIXING + Purpose.ANNOUNCEMENT
        hearing, telling = self.transport.exchange(dict.fromkeys(to, mine), theirs, number)
        return {j: InOrder((hearing[j], SameKind(theirs[j], kind))) for j in theirs}, telling

    def finish(self, request: Request, neighbour: int) -> None:
        """Wait for a message, or say who did not send it."""
        with self._naming(neighbour):
            request.finish(self.timeout)

    def read(self, unpack: Callable[[Tensor], Tensor], wire: Tensor, neighbour: int) -> Tensor:
        """What a neighbour's message holds, or say whose cannot be read."""
        with self._naming(neighbour):
            return unpack(wire)

    def begin_average(self, v: Tensor) -> Request:
        """Begin an all-reduce that mixes, where everybody is everybody's neighbour. gloo ends the process where lengths
        differ in an all-reduce. They were equal in the one before; so if they differ now, somebody has changed his, and
        does not begin before the others have announced the same."""
        kind = (v.numel(), v.dtype)
        number = self.next_mixing(*kind)
        if kind != self._averaged and self.transport.announces:
            others = [i for i in range(self.nodes) if i != self.node]
            announced = self._announce(Kind.of(v), number, to=others, hears=others)
            self._finish_all(*announced, timeout=self.timeout)
        self._averaged = kind
        return self.begin_sum(v)

    def agree(self, v: Tensor) -> None:
        """All nodes must be about to add up tensors of one kind; else everybody raises the same error."""
        rows = torch.zeros(self.nodes, len(Kind._fields), dtype=torch.int64, device=self.transport.device)
        rows[self.node] = Kind.of(v).tensor(rows.device)
        self.finish_sum(self.begin_sum(rows))
        first, *others = (Kind(*row) for row in rows.tolist())
        for i, kind in enumerate(others, start=1):
            if kind != first:
                raise ValueError(
                    f"node 0 gathers or averages {first}, but node {i} {kind}: all nodes must ask for the same at once"
                )

    def begin_sum(self, v: Tensor) -> Request:
        with self._naming(None):
            return self.transport.all_reduce(v)

    def finish_sum(self, request: Request) -> None:
        """Wait for an all-reduce. A failed all-reduce does not tell who is missing, so the neighbours then greet each
        other in the time that is left, and the one who does not answer is named. A node still waiting for a greeting
        sends no further ones, so nodes farther from the missing one name their neighbour on the path to it."""
        try:
            request.finish((1 - ROLL_CALL_SHARE) * self.timeout)
        except (RuntimeError, TimeoutError):
            end = time.monotonic() + ROLL_CALL_SHARE * self.timeout
            for hop in range(self.nodes - 1 if not self.transport.ended() else 0):
                self._greet(max(end - time.monotonic(), 0.01), Purpose.ROLL_CALL.number(hop))
            with self._naming(None):
                raise

    def greet(self) -> None:
        """Exchange an empty message with the neighbours."""
        self._greeting += PURPOSES
        self._greet(self.timeout, self._greeting)

    def _greet(self, timeout: float, number: int) -> None:
        hello = torch.zeros(1, device=self.transport.device)
        heard = {j: torch.empty_like(hello) for j in self.hears}
        self._finish_all(*self.transport.exchange(dict.fromkeys(self.tells, hello), heard, number), timeout=timeout)

    def _finish_all(self, receiving: Requests, sending: Requests, *, timeout: float) -> None:
        for j, request in [*receiving.items(), *sending.items()]:
            with self._naming(j):
                request.finish(timeout)

    def lost(self, neighbour: int | None, error: BaseException) -> NeighbourError:
        """The error to raise; after it the network is of no use."""
        ended, reason, known = self.transport.ended(), str(error), None
        if neighbour is None:
            neighbour = min(ended, default=None)
        if isinstance(error, WrongMessageError):
            known = f"and its neighbour, node {neighbour}, do not run the same thing"
        elif isinstance(error, WireError):
            known = f"cannot read what node {neighbour} sent: that node has diverged, or the message was damaged"
        elif neighbour in ended:
            known = (
                f"waits for node {neighbour}, but node {neighbour} {ended[neighbour]}; all nodes must take the same "
                "number of steps, see Optimizer.epoch"
            )
        elif ended:
            reason += "".join(f"; node {i} {words}" for i, words in ended.items())
        self.abort()
        return NeighbourError(self.node, neighbour, self.timeout, reason, known=known)

    def close(self, words: str) -> None:
        """Tell those who may still wait for this node."""
        self.transport.close(Farewell(words, sorted(self.tells), mixing=self._mixing, greeting=self._greeting))

    def abort(self, code: int = 1) -> None:
        if not self.broken:
            self.transport.abort(code)
        self.broken = True

    def _naming(self, neighbour: int | None) -> _Naming:
        return _Naming(self, neighbour)


class _Naming:
    """Turns an error of the transport into one that names the neighbour. Every message passes through here, and a class
    is faster than a generator."""

    def __init__(self, neighbours: Neighbours, neighbour: int | None) -> None:
        self._neighbours, self._neighbour = neighbours, neighbour

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, RuntimeError | TimeoutError) and not isinstance(error, NeighbourError):
            raise self._neighbours.lost(self._neighbour, error) from error
