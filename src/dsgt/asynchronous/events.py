"""Virtual time: an event is a gradient that is ready, a letter that arrives, or a link that has become free.

Gradients take the times and links have the model of ``Clocked``. What waits for a busy link is the newest letter to
each neighbour, built when it leaves, so nothing piles up. Everything is a function of the seed, and who wakes when does
not depend on the numbers: so the runs of a grid of learning rates and seeds go through one pass, as tensors (runs, m).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from torch import Tensor

from dsgt.asynchronous.node import Node
from dsgt.networks.link import ComputeTimes, Link, who_is_first
from dsgt.randomness import Draws

WAKE: Final = 0
ARRIVE: Final = 1
FREE: Final = 2
LEAVE: Final = 3
RETURN: Final = 4


@dataclass(frozen=True)
class Absence:
    """A node is away: it computes nothing and hears nothing, and the gradient under way is lost."""

    node: int
    leaves: float
    """When, in virtual seconds."""
    returns: float = math.inf
    memory: bool = True
    """Whether it still has its state; otherwise it comes back as it was at the beginning."""

    def __post_init__(self) -> None:
        if not 0 <= self.leaves < self.returns:
            raise ValueError(
                f"node {self.node} leaves at {self.leaves} s and returns at {self.returns} s; expected 0 <= leaves < "
                "returns"
            )


class Events:
    """Nodes in virtual time. ``gradient(i, x, k)``: that of node i at x, at its k-th wake."""

    def __init__(
        self,
        nodes: Sequence[Node[Any]],
        gradient: Callable[[int, Tensor, int], Tensor],
        *,
        times: ComputeTimes,
        link: Link = Link(),  # noqa: B008 - it is frozen
        absences: Sequence[Absence] = (),
        seed: int = 0,
        runs: int = 1,
        activity: list[tuple[int, float, float]] | None = None,
    ) -> None:
        """runs: how many the tensors hold; bytes are counted for one. activity: is told (node, from, to) of every
        gradient, when it begins."""
        self.nodes, self.gradient, self.times, self.link = nodes, gradient, times, link
        self.now, self.wakes, self.letters, self.bytes, self.events = 0.0, 0, 0, 0, 0
        self._heap: list[tuple[float, int, int, int, Any]] = []
        self._order, self._runs, self._activity = 0, runs, activity
        n = len(nodes)
        self._turns = [sorted(node.mail.links.tells, key=lambda r, i=node.i: who_is_first(i, r, n)) for node in nodes]  # type: ignore[misc]
        self._waiting: list[dict[int, None]] = [{} for _ in nodes]
        self._busy, self._away, self._life = [False] * n, [False] * n, [0] * n
        self._draws = (
            {(i, r): Draws(seed, LETTERS, i, r) for i in range(n) for r in self._turns[i]} if link.chance else {}
        )
        self._sent = dict.fromkeys(self._draws, 0)
        self._begin = {a.node: nodes[a.node].saved() for a in absences if not a.memory}
        for i in range(n):
            self._compute(i)
        for a in _checked(absences, n):
            self._at(a.leaves, LEAVE, a.node, None)
            if a.returns < math.inf:
                self._at(a.returns, RETURN, a.node, a.memory)

    def advance(self, until: float, watch: Callable[[int], None] | None = None) -> None:
        """All that happens up to this time. ``watch`` is told every node that has just woken."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, kind, i, what = heapq.heappop(heap)
            self.events += 1
            if kind == ARRIVE:
                if not self._away[i] and self.nodes[i].hear(what):
                    self._post(i)
            elif kind == WAKE:
                if what == self._life[i]:  # else it left meanwhile
                    self._wake(i)
                    if watch is not None:
                        watch(i)
            elif kind == FREE:
                self._busy[i] = False
                self._post(i)
            else:
                self._come_or_go(i, kind, what)
        self.now = until

    def _at(self, time: float, kind: int, i: int, what: Any) -> None:
        self._order += 1
        heapq.heappush(self._heap, (time, self._order, kind, i, what))

    def _compute(self, i: int) -> None:
        """A gradient is begun."""
        seconds = self.times.of(i, self.nodes[i].mail.k)
        if not seconds > 0:
            raise ValueError(f"gradients of node {i} take {seconds} seconds; in virtual time they take some: above 0")
        end = self.now + seconds
        if self._activity is not None:
            self._activity.append((i, self.now, end))
        self._at(end, WAKE, i, self._life[i])

    def _wake(self, i: int) -> None:
        node = self.nodes[i]
        node.wake(self.gradient(i, node.point, node.mail.k))
        self.wakes += 1
        self._compute(i)
        self._post(i)

    def _come_or_go(self, i: int, kind: int, memory: bool | None) -> None:
        self._away[i] = kind == LEAVE
        self._life[i] += 1
        self._waiting[i].clear()
        if kind == RETURN:
            if not memory:
                self.nodes[i].restore(self._begin[i])
            self._compute(i)
            self.nodes[i].mail.repeat()
            self._post(i)

    def _post(self, i: int) -> None:
        """What is new waits for the link, and what may leave does."""
        mail, waiting = self.nodes[i].mail, self._waiting[i]
        if mail.changed:
            for r in self._turns[i]:
                if r in mail.changed:
                    waiting[r] = None
            mail.changed.clear()
        while waiting and not self._busy[i]:
            r = next(iter(waiting))
            del waiting[r]
            letter = mail.letter(r)
            size = letter.nbytes // self._runs
            self.letters += 1
            self.bytes += size
            seconds = size / self.link.bandwidth
            self._send(i, r, letter, self.now + seconds)
            if seconds:
                self._busy[i] = True
                self._at(self.now + seconds, FREE, i, None)

    def _send(self, i: int, r: int, letter: Any, leaves: float) -> None:
        link, late = self.link, 0.0
        if self._draws:
            number = self._sent[i, r] = self._sent[i, r] + 2
            draw = self._draws[i, r]
            if draw(number) < link.loss:
                return
            late = link.jitter * draw(number + 1)
        self._at(leaves + link.latency + late, ARRIVE, r, letter)


LETTERS = 7907
"""The coordinate that tells these draws from others of the same seed."""


def _checked(absences: Sequence[Absence], nodes: int) -> Sequence[Absence]:
    for i in {a.node for a in absences}:
        own = sorted((a for a in absences if a.node == i), key=lambda a: a.leaves)
        if not 0 <= i < nodes or any(b.leaves < a.returns for a, b in pairwise(own)):
            raise ValueError(f"{own} are given of node {i} of {nodes}; expected absences one after the other of a node")
    return absences
