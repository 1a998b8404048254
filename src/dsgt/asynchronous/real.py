"""One node of an asynchronous method as a process: it computes, wakes, tells, and goes on.

Nobody waits, but for the first greeting and at the end. The end has phases, so that nothing is under way after it:

    RUNNING   I am here.
    RESTING   I ask no more. When all neighbours are so far, nothing is asked of me any more either, so
    CLOSING   my totals are final. When all neighbours are so far, I have all that was given to me: I take it, and
    FAREWELL  need nobody any more. When all neighbours are so far, nobody needs me.

A phase is saved before it is told, so a node that is killed never comes back to an earlier one than others know of.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from dsgt.asynchronous.letters import Envelope, Form, RefusedError
from dsgt.asynchronous.mail import Letter
from dsgt.asynchronous.node import Node
from dsgt.divergence import DivergedError
from dsgt.networks.neighbours import NeighbourError
from dsgt.networks.peers import TIMEOUT

ABSENT, RUNNING, RESTING, CLOSING, FAREWELL = range(5)
GLANCE = 0.05
"""Seconds after which who waits for letters looks whether something else has happened."""
AGAIN = 0.5
"""Seconds after which who waits says everything again: what was told to somebody who had not started may be lost."""
GRACE = 2.0
"""Seconds that a node which needs nobody stays for those who may not know that."""

log = logging.getLogger("dsgt")


class Post(Protocol):
    """How bytes reach the neighbours: the newest of each link, at once, and perhaps never. ``networks.zeromq.Mailbox``
    is one."""

    @property
    def turned_away(self) -> int: ...

    def send(self, to: int, data: bytes | bytearray) -> None: ...

    def receive(self, timeout: float = 0.0) -> Iterator[tuple[int | None, bytearray]]: ...

    def close(self) -> None: ...


class RealNode:
    """Drives a ``Node`` by what really happens. ``start``, a ``wake`` for each gradient, ``finish``.

    Whoever looks at the node's state holds ``lock``: where the method answers questions, a thread does so while a
    gradient is computed.
    """

    def __init__(
        self,
        node: Node[Any],
        form: Form,
        post: Post,
        *,
        job: str,
        timeout: float = TIMEOUT,
        save: Callable[[int], None] | None = None,
        save_every: int | None = None,
        phase: int = ABSENT,
    ) -> None:
        """job: what all nodes must have in common, in words. save(phase): keep the node as it is, in this phase, every
        so many wakes and whenever it enters one. phase: that of its checkpoint, if it comes back from one."""
        self.node, self._form, self._post, self._timeout = node, form, post, timeout
        self._save, self._save_every = save, save_every
        self._job = hashlib.sha256(job.encode()).digest()[:8]
        self.lock = threading.RLock()
        links = node.mail.links
        self._neighbours = sorted({*links.tells, *links.listens})
        self.phase, self._returned = phase, phase != ABSENT
        self._phases = dict.fromkeys(self._neighbours, ABSENT)
        """How far the neighbours are."""
        self._seen = dict.fromkeys(self._neighbours, ABSENT)
        """What they know of this node's phase."""
        self._spoke = dict.fromkeys(self._neighbours, 0.0)
        self._listener: threading.Thread | None = None
        self._failed: BaseException | None = None
        self._stop = threading.Event()
        self.sent = self.heard = 0
        self.refused: Counter[str] = Counter()
        """What came and was no letter of a neighbour, by what was wrong with it."""

    @property
    def turned_away(self) -> int:
        """Connections of those who are no neighbours."""
        return self._post.turned_away

    def start(self) -> None:
        """Wait until all neighbours are there, where this is the beginning; a node that comes back goes on at once."""
        self._enter(max(self.phase, RUNNING))
        if not self._returned:
            self._wait(lambda j: self._phases[j] < RUNNING)
        if self.node.algorithm.answers and self.phase == RUNNING:
            self._listener = threading.Thread(target=self._listen, name="dsgt-listener", daemon=True)
            self._listener.start()

    def wake(self, g: Tensor) -> None:
        """The gradient at ``node.point`` is ready: take what has come, step, tell. Never waits for another node."""
        if self.phase != RUNNING:
            raise RuntimeError("this node has not started or has ended already; it wakes between start() and finish()")
        if self._listener is None:
            self.hear()
        with self.lock:
            if self._failed is not None:
                raise self._failed
            k, lr = self.node.mail.k, self.node.lr(self.node.mail.k)
            if not g.isfinite().all():
                raise DivergedError(self.node.i, k, float(torch.as_tensor(lr).max()))
            self.node.wake(g)
            self.tell()
            if self._save is not None and self._save_every and (k + 1) % self._save_every == 0:
                self._save(self.phase)

    def finish(self) -> None:
        """No gradient any more: wait until nothing is under way, take what came, and leave."""
        self._quiet()
        for phase in (RESTING, CLOSING):
            if self.phase <= phase:
                self._enter(phase)
                self._wait(lambda j, phase=phase: self._phases[j] < phase)  # type: ignore[misc]
        if self.phase < FAREWELL:
            self.node.rest()
        self._enter(FAREWELL)
        try:
            self._wait(lambda j: self._phases[j] < FAREWELL)
        except NeighbourError as error:  # the result is whole: only courtesy is missing
            log.warning("%s; node %d has all it needs, and leaves", error, self.node.i)
        else:
            self._wait(lambda j: self._seen[j] < FAREWELL, grace=GRACE)
        self.close()

    def close(self) -> None:
        """Leave as it is; the others go on without this node, and wait for it at the end."""
        self._quiet()
        self._post.close()

    def hear(self, timeout: float = 0.0) -> None:
        """Read what has come, and answer what was asked; wait up to so many seconds for the first letter."""
        for sender, data in self._post.receive(timeout):
            try:
                envelope = self._form.decode(data)
                if sender is not None and sender != envelope.letter.sender:
                    raise RefusedError("signed as another")
                if envelope.letter.sender not in self._phases:
                    raise RefusedError("no neighbour")
                if envelope.job != self._job:
                    self._check_same(envelope.letter.sender)
                    raise RefusedError("another job")
            except RefusedError as error:
                self.refused[str(error)] += 1
                continue
            with self.lock:
                self._read(envelope)

    def tell(self, *, everyone: bool = False) -> None:
        """Send their letters to those for whom there is news, or to all."""
        changed = self.node.mail.changed
        for r in list(self._neighbours if everyone else changed):
            self._post.send(r, self._form.encode(self._envelope(r)))
            self.sent += 1
        changed.clear()

    def _envelope(self, to: int) -> Envelope:
        mail = self.node.mail
        letter = mail.letter(to) if to in mail.to and mail.number else Letter(self.node.i, 0, None, None)
        known = mail.of[to].letter if to in mail.of else None
        return Envelope(self._job, letter, self.phase, self._phases[to], 0 if known is None else known.number)

    def _read(self, envelope: Envelope) -> None:
        letter, j = envelope.letter, envelope.letter.sender
        if envelope.heard > self.node.mail.number:
            known = (
                f"has taken part before, as node {j} remembers, and comes back without its memory, so that what it was "
                "given would be lost: resume it from its checkpoint, or start all nodes anew"
            )
            raise NeighbourError(self.node.i, j, self._timeout, "no checkpoint was given", known=known)
        self._spoke[j] = time.monotonic()
        news = self._phases[j] < envelope.phase
        self._phases[j] = max(self._phases[j], envelope.phase)
        self._seen[j] = max(self._seen[j], envelope.seen)
        if self.phase == FAREWELL:  # nothing more can happen to this node
            if news:  # it waits to hear that this is known
                self.tell(everyone=True)
        elif letter.number and j in self.node.mail.of and self.node.hear(letter):
            self.heard += 1
            self.tell()

    def _enter(self, phase: int) -> None:
        with self.lock:
            if self._save is not None and phase > self.phase:
                self._save(phase)
            self.phase = phase
            self.tell(everyone=True)

    def _wait(self, late: Callable[[int], bool], *, grace: float | None = None) -> None:
        """Until nobody is late; as long as the late ones speak, or for so many seconds of grace."""
        begun = again = time.monotonic()
        while missing := [j for j in self._neighbours if late(j)]:
            self.hear(GLANCE)
            now = time.monotonic()
            if grace is not None and now - begun > grace:
                return
            for j in missing:
                if late(j) and now - max(begun, self._spoke[j]) > self._timeout:
                    raise NeighbourError(self.node.i, j, self._timeout, f"it is in phase {self._phases[j]}")
            if now - again > AGAIN:
                again = now
                with self.lock:
                    self.tell(everyone=True)

    def _check_same(self, j: int) -> None:
        """At the beginning, who has other settings must be told; later, others' mistakes must not end the job."""
        if self._phases[j] == ABSENT and self.node.mail.k == 0:
            known = (
                f"and its neighbour, node {j}, were given different methods, models, weights or settings; give all of "
                "them the same"
            )
            raise NeighbourError(self.node.i, j, self._timeout, "their jobs differ", known=known)

    def _listen(self) -> None:
        try:
            while not self._stop.is_set():
                self.hear(GLANCE)
        except BaseException as error:  # the thread that computes tells it
            self._failed = error

    def _quiet(self) -> None:
        if self._listener is not None:
            self._stop.set()
            self._listener.join()
            self._listener = None
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
