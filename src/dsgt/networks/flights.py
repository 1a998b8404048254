"""Mixings in flight between real nodes: they depart, travel in the foreground or in a background thread, and land."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from threading import Event

import torch
from torch import Tensor

from dsgt.buffers import Buffers
from dsgt.core import Packed, Pending, Sendable, value_of, wire_of
from dsgt.networks.background import Background
from dsgt.networks.neighbours import Neighbours
from dsgt.networks.row import Row
from dsgt.networks.transport import Request, Requests

HEAD_START = 1e-4
"""Seconds by which a message in the background departs later, unless somebody waits for it. The node is then at the end
of a step and the beginning of the next, and the two threads would take turns at Python's lock. The message has the
whole gradient's time."""

IN_TURN_FROM = 1 << 22
"""Bytes of a message from which on a node does not receive from all its neighbours at once. A message that is asked for
later comes later, by the time that it takes to ask; one of this size takes longer to travel."""
AT_ONCE = 2


class Flight(Pending):
    """A mixing. Once it has departed, the first ``wait`` lands it; or it travels in the background."""

    def __init__(self, in_flight: list[Flight]) -> None:
        """in_flight: those that have not landed; a flight takes itself off the list."""
        self._in_flight = in_flight
        self._value: Tensor | None = None
        self._landing: Future[Tensor] | None = None
        self._background: Background | None = None
        self._wanted: Event | None = None
        self._inference = torch.is_inference_mode_enabled()  # a thread has modes of its own

    def travel_in(self, background: Background) -> None:
        """Depart and land there."""
        self._in_flight.append(self)
        self._wanted = Event()
        self._background, self._landing = background, background.begin(self._travel)

    def leave(self) -> None:
        """Depart now, in the foreground."""
        self.depart()
        self._in_flight.append(self)

    def _travel(self) -> Tensor:
        assert self._wanted is not None
        self._wanted.wait(HEAD_START)
        with torch.inference_mode(self._inference):
            self.depart()
            return self._land()

    @property
    def travels_in_background(self) -> bool:
        return self._landing is not None

    @property
    def on_its_way(self) -> bool:
        """Whether it travels in the background and has not landed there."""
        return self._landing is not None and not self._landing.done()

    def then(self, work: Callable[[Tensor], Tensor]) -> Future[Tensor]:
        """Call ``work`` with the message as soon as it has arrived, in the background where it travels."""
        background, landing = self._background, self._landing
        assert background is not None
        assert landing is not None

        def after() -> Tensor:
            with torch.inference_mode(self._inference):
                return work(landing.result())

        return background.begin(after)

    def sends(self, memory: Tensor) -> bool:
        """Whether this memory is on its way."""
        return False

    @abstractmethod
    def depart(self) -> None:
        """Begin to send and to receive."""

    def wait(self) -> Tensor:
        if self._value is None:
            if self._wanted is not None:
                self._wanted.set()
            self._value = self._land() if self._landing is None else self._landing.result()
            self._landing = None
            self._in_flight.remove(self)
        return self._value.detach()  # may be asked for again: see Buffers.may_overwrite

    def forget(self, memory: Buffers) -> None:
        """Nobody will ask for what has arrived any more."""
        assert self._value is not None
        memory.release(self._value)

    @abstractmethod
    def _land(self) -> Tensor: ...


class AllReduce(Flight):
    """The sum of all nodes' v, in a copy of it, and then their mean, here or in ``out``."""

    def __init__(
        self, neighbours: Neighbours, in_flight: list[Flight], v: Tensor, *, out: Tensor | None = None
    ) -> None:
        super().__init__(in_flight)
        self._neighbours, self._out = neighbours, out
        self._total = neighbours.buffers.scratch(v).copy_(v)
        self._request: Request | None = None

    def depart(self) -> None:
        self._request = self._neighbours.begin_average(self._total)

    def _land(self) -> Tensor:
        assert self._request is not None
        self._neighbours.finish_sum(self._request)
        total, nodes = self._total, self._neighbours.nodes
        return total.div_(nodes) if self._out is None else torch.div(total, nodes, out=self._out)


class Exchange(Flight):
    """v, or the wire that it is packed in, goes to the neighbours and theirs come; large ones in turn into two buffers,
    so that memory does not grow with the neighbours. The first vector that is heard becomes the result, unless ``out``
    is given for W v. That is written when all messages have been moved, and not before."""

    def __init__(
        self,
        neighbours: Neighbours,
        row: Row,
        in_flight: list[Flight],
        v: Sendable,
        *,
        flow: bool = False,
        out: Tensor | None = None,
    ) -> None:
        super().__init__(in_flight)
        self._neighbours, self._row = neighbours, row
        self._unpack = v.unpack if isinstance(v, Packed) else None
        self._v: Tensor | None = value_of(v).contiguous()
        self._letter: Tensor | None = wire_of(v).contiguous()
        self._flow, self._out = flow, out
        in_turn = self._letter.is_cpu and self._letter.nbytes >= IN_TURN_FROM
        at_once = AT_ONCE if in_turn else len(row.hears)
        self._buffers = {j: neighbours.buffers.scratch(self._letter) for j in list(row.hears)[:at_once]}
        self._later = list(row.hears)[at_once:]
        self._number = neighbours.next_mixing(self._letter.numel(), self._letter.dtype)
        self._receiving: Requests = {}
        self._sending: Requests = {}

    @property
    def moves(self) -> bool:
        """Whether there is anybody to hear or to tell."""
        return bool(self._row.hears or self._row.tells)

    def sends(self, memory: Tensor) -> bool:
        return any(v is not None and v.data_ptr() == memory.data_ptr() for v in (self._v, self._letter))

    def depart(self) -> None:
        assert self._letter is not None
        letters = dict.fromkeys(self._row.tells, self._letter)
        self._receiving, self._sending = self._neighbours.exchange(
            letters, self._buffers, self._number, later=self._later
        )

    def _heard(self, j: int) -> Tensor:
        """What node j has sent, in memory that may be written into."""
        self._neighbours.finish(self._receiving.pop(j), j)  # a finished request must not keep its buffer alive
        wire = self._buffers.pop(j)
        if self._unpack is None:
            return wire
        heard = self._neighbours.read(self._unpack, wire, j)
        self._receive_next(wire)
        return heard

    def _added(self, heard: Tensor) -> None:
        if self._unpack is None:
            self._receive_next(heard)

    def _receive_next(self, buffer: Tensor) -> None:
        """Into memory that is not needed any more."""
        if self._later:
            j = self._later.pop(0)
            self._buffers[j] = buffer
            self._receiving[j] = self._neighbours.receive(j, buffer, self._number, announced=self._receiving.get(j))

    def _land(self) -> Tensor:
        v = self._v
        assert v is not None
        if not self._row.hears:
            self._finish_sending()
            if self._out is not None:
                return torch.mul(v, self._row.own, out=self._out)
            alone = self._neighbours.buffers.scratch(v)
            return alone.zero_() if self._flow else alone.copy_(v).mul_(self._row.own)
        result = self._mean(v) if self._row.shares and not self._flow else self._sum(v)
        self._v = self._letter = None
        return result

    def _mean(self, v: Tensor) -> Tensor:
        """W v of a weighted mean, in one pass over memory for each that is heard."""
        mean, last = v, next(reversed(self._row.hears))
        for j, share in zip(self._row.hears, self._row.shares, strict=True):
            heard = self._heard(j)
            if j == last:
                self._finish_sending()
                if self._out is not None:
                    return torch.lerp(mean, heard, share, out=self._out)
            if mean is v:
                mean = heard.lerp_(v, 1 - share)
            else:
                mean.lerp_(heard, share)
                self._added(heard)
        return mean

    def _sum(self, v: Tensor) -> Tensor:
        """W v, or the flow, for any weights."""
        result = None
        for j, weight in self._row.hears.items():
            heard = self._heard(j)
            if self._flow:
                heard.sub_(v)  # W[i, j] (v_j - v_i)
            if result is None:
                result = heard.mul_(weight)
            else:
                result.add_(heard, alpha=weight)
                self._added(heard)
        assert result is not None
        self._finish_sending()
        if self._flow:
            return result
        if self._out is None:
            return result.add_(v, alpha=self._row.own)
        return torch.add(result, v, alpha=self._row.own, out=self._out)

    def _finish_sending(self) -> None:
        for i in self._row.tells:
            self._neighbours.finish(self._sending.pop(i), i)


class LetterExchange(Flight):
    """A letter to each of those who hear this node; what arrives is one of each whom it hears, (d, m)."""

    def __init__(self, neighbours: Neighbours, row: Row, in_flight: list[Flight], v: Tensor) -> None:
        super().__init__(in_flight)
        self._neighbours = neighbours
        if v.ndim != 2 or v.shape[0] not in (1, len(row.tells)):
            raise ValueError(
                f"letters have shape {tuple(v.shape)}; expected (1, m), or ({len(row.tells)}, m) for each one told"
            )
        self._letters: Tensor = v.detach().contiguous().expand(len(row.tells), -1)
        self._heard = torch.empty(len(row.hears), v.shape[-1], dtype=v.dtype, device=v.device)
        self._buffers = dict(zip(row.hears, self._heard, strict=True))
        self._tells = row.tells
        self._number = neighbours.next_mixing(v.shape[-1], v.dtype)
        self._receiving: Requests = {}
        self._sending: Requests = {}

    def sends(self, memory: Tensor) -> bool:
        return self._value is None and self._letters.data_ptr() == memory.data_ptr()

    def depart(self) -> None:
        letters = dict(zip(self._tells, self._letters, strict=True))
        self._receiving, self._sending = self._neighbours.exchange(letters, self._buffers, self._number)

    def _land(self) -> Tensor:
        for j, request in self._receiving.items():
            self._neighbours.finish(request, j)
        for i, request in self._sending.items():
            self._neighbours.finish(request, i)
        return self._heard


def land_carriers(state: tuple[object, ...], memory: Tensor) -> None:
    """Wait for those messages of a state that still send this memory: somebody is about to write into it."""
    for field in state:
        for message in field if isinstance(field, tuple) else (field,):
            if isinstance(message, Flight) and message.sends(memory):
                message.wait()
