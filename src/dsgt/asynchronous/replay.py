"""A recorded run once more, in one process: every node's own sequence of events, merged so that no letter is read
before it was written. It ends bit for bit as the run did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from dsgt.asynchronous.mail import Letter
from dsgt.asynchronous.node import ENTERED, RESTED, WOKE, Event, Node


def replay(
    nodes: Sequence[Node[Any]],
    logs: Sequence[Sequence[Event]],
    gradient: Callable[[int, Tensor, int], Tensor],
    *,
    watch: Callable[[Node[Any]], None] | None = None,
) -> None:
    """logs: of each node, what its ``record`` was told, in that order. gradient(i, x, k): that of node i at x at its
    k-th wake. ``watch`` is shown every node that has just woken."""
    letters = _Letters(logs)
    at = [0] * len(nodes)
    moved = True
    while moved:
        moved = False
        for i, node in enumerate(nodes):
            while at[i] < len(logs[i]):
                _, what, number = logs[i][at[i]]
                if what >= 0:
                    letter = letters.arrived(what, number, i)
                    if letter is None:
                        break
                    node.hear(letter)
                elif what == WOKE:
                    node.wake(gradient(i, node.point, node.mail.k))
                    if watch is not None:
                        watch(node)
                elif what == RESTED:
                    node.rest()
                else:
                    node.enter(ENTERED - what)
                letters.written(node)
                at[i] += 1
                moved = True
    left = {i: len(log) - done for i, (log, done) in enumerate(zip(logs, at, strict=True)) if done < len(log)}
    if left:
        raise ValueError(f"the log is not whole: of the nodes {left} so many events have no cause; a log is missing")


class _Letters:
    """A letter is kept from its writing until all who heard it have read it."""

    def __init__(self, logs: Sequence[Sequence[Event]]) -> None:
        self._readers: dict[tuple[int, int], set[int]] = {}
        for log in logs:
            for i, what, number in log:
                if what >= 0:
                    self._readers.setdefault((what, number), set()).add(i)
        self._ready: dict[tuple[int, int, int], Letter] = {}

    def written(self, node: Node[Any]) -> None:
        for r in self._readers.pop((node.i, node.mail.number), ()):
            self._ready[node.i, node.mail.number, r] = node.mail.letter(r)

    def arrived(self, sender: int, number: int, reader: int) -> Letter | None:
        return self._ready.pop((sender, number, reader), None)
