"""Mixings under way between real nodes: what departs, travels in front of the node's work or beside it, and lands."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from threading import Event
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from dsgt.core import Pending
from dsgt.networks.background import Background

if TYPE_CHECKING:
    from dsgt.networks.peers import Peers

HEAD_START = 1e-4
"""Seconds that a message in the background leaves to the node itself, which is at the end of a step and the beginning
of the next: the two would take turns in Python. The message has the whole gradient's time, and does not miss them."""


class Request(Protocol):
    """A message that a transport is moving."""

    def finish(self, timeout: float) -> None:
        """Return when it has been moved; raise RuntimeError or TimeoutError if it cannot be, or not in time."""


class Flight(Pending):
    """A mixing. Once it has departed, the first ``wait`` lands it; or it travels in the background."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._value: Tensor | None = None
        self._landing: Future[Tensor] | None = None
        self._background: Background | None = None
        self._wanted: Event | None = None
        self._inference = torch.is_inference_mode_enabled()  # a thread has modes of its own

    def travel_in(self, background: Background) -> None:
        """Depart and land there."""
        self._wanted = Event()
        self._background, self._landing = background, background.begin(self._travel)

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
        """What is made of the message as soon as it has arrived, in the background where it travels."""
        background, landing = self._background, self._landing
        assert background is not None
        assert landing is not None

        def after() -> Tensor:
            with torch.inference_mode(self._inference):
                return work(landing.result())

        return background.begin(after)

    @abstractmethod
    def depart(self) -> None:
        """Begin to send and to receive."""

    def wait(self) -> Tensor:
        if self._value is None:
            if self._wanted is not None:
                self._wanted.set()
            self._value = self._land() if self._landing is None else self._landing.result()
            self._landing = None
            self._peers.landed(self)
        return self._value.detach()  # may be asked for again: see Buffers.may_overwrite

    @abstractmethod
    def _land(self) -> Tensor: ...


class AllReduce(Flight):
    """The sum of all nodes' v, in a copy of it, and then their mean, here or in ``out``."""

    def __init__(self, peers: Peers, v: Tensor, out: Tensor | None = None) -> None:
        super().__init__(peers)
        self._out = out
        self._total = peers.buffers.scratch(v).copy_(v)
        self._request: Request | None = None

    def depart(self) -> None:
        self._request = self._peers.begin_sum(self._total)

    def _land(self) -> Tensor:
        assert self._request is not None
        self._peers.finish_sum(self._request)
        total, nodes = self._total, self._peers.nodes
        return total.div_(nodes) if self._out is None else torch.div(total, nodes, out=self._out)


class Exchange(Flight):
    """v goes to the neighbours and theirs come into one buffer each; the first buffer becomes the result, unless
    another place is given for W v. That is written when all messages have been moved, and not before."""

    def __init__(self, peers: Peers, v: Tensor, *, flow: bool = False, out: Tensor | None = None) -> None:
        super().__init__(peers)
        self._v: Tensor | None = v.contiguous()
        self._flow, self._out = flow, out
        self._buffers = {j: peers.buffers.scratch(self._v) for j in peers.hears}
        self._number = peers.next_number()
        self._receiving: dict[int, Request] = {}
        self._sending: dict[int, Request] = {}

    def depart(self) -> None:
        assert self._v is not None
        self._receiving, self._sending = self._peers.exchange(self._v, self._buffers, self._number)

    def _land(self) -> Tensor:
        peers, v = self._peers, self._v
        assert v is not None
        result = None
        for j, weight in peers.hears.items():
            peers.finish(self._receiving.pop(j), j)  # a finished request must not keep its buffer alive
            heard = self._buffers.pop(j)
            if self._flow:
                heard.sub_(v)  # W[i, j] (v_j - v_i)
            if result is None:
                result = heard.mul_(weight)
            else:
                result.add_(heard, alpha=weight)
        if result is None:
            result = torch.zeros_like(v)
        for i in peers.tells:
            peers.finish(self._sending.pop(i), i)
        self._v = None
        if self._flow:
            return result
        if self._out is None:
            return result.add_(v, alpha=peers.own)
        return torch.add(result, v, alpha=peers.own, out=self._out)
