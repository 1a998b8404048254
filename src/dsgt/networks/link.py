"""The model of a link and of a gradient's time, shared by the clocks of rounds (``Clocked``) and of events.

A node's link sends one message at a time, each for bytes / bandwidth seconds, to one neighbour after the other, and
never stops the node itself; a message arrives ``latency`` seconds after its last byte has left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Seconds: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Compute: TypeAlias = float | Sequence[float] | Callable[[int], Sequence[float] | Seconds]


@dataclass(frozen=True)
class Link:
    latency: float = 0.0
    """Seconds."""
    bandwidth: float = float("inf")
    """Bytes a second."""
    jitter: float = 0.0
    """Up to so many seconds more, drawn for each message: messages may overtake each other."""
    loss: float = 0.0
    """The share of the messages that do not arrive. Where rounds wait for all messages, a lost one is sent again after
    ``patience``; where nobody waits, the next one makes good for it."""

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.bandwidth > 0 and self.jitter >= 0 and 0 <= self.loss < 1):
            raise ValueError(
                f"latency is {self.latency}, bandwidth {self.bandwidth}, jitter {self.jitter} and loss {self.loss}; "
                "expected latency >= 0, bandwidth > 0, jitter >= 0 and 0 <= loss < 1"
            )

    @property
    def patience(self) -> float:
        """Seconds after which a sender that waits for an answer knows that its message was lost: a round trip."""
        return 2 * (self.latency + self.jitter)

    @property
    def chance(self) -> bool:
        return bool(self.jitter or self.loss)

    def delay(self, uniform: Seconds) -> Seconds:
        """From leaving to arriving, where a lost message is sent again: two numbers on [0, 1) for each message."""
        late: Seconds = self.latency + self.jitter * uniform[0]
        if self.loss:
            late += self.patience * np.floor(np.log1p(-uniform[1]) / np.log(self.loss))  # how often: geometric
        return late


def who_is_first(source: Any, target: Any, nodes: int) -> Any:
    """The order in which a source sends: everyone starts with another neighbour."""
    return (target - source) % nodes


class ComputeTimes:
    """Seconds that node i's k-th gradient takes, the same in rounds and in events."""

    def __init__(self, compute: Compute, nodes: int) -> None:
        self.nodes, self._compute = nodes, compute
        first = self.row(0)
        self.constant = None if callable(compute) else np.broadcast_to(first, (nodes,)).copy()
        self._columns: dict[int, tuple[int, list[float]]] = {}
        self._rows: dict[int, Seconds] = {}

    def row(self, k: int) -> Seconds:
        """Of all nodes."""
        given = self._compute(k) if callable(self._compute) else self._compute
        seconds = np.asarray(given, dtype=np.float64)
        if seconds.shape not in ((), (self.nodes,)) or not (seconds >= 0).all():
            raise ValueError(
                f"compute gives {given!r} in round {k}; expected one time >= 0 in seconds, or one for each of "
                f"{self.nodes} nodes"
            )
        return np.broadcast_to(seconds, (self.nodes,))

    def of(self, node: int, k: int) -> float:
        """Of one node, for whom k goes up."""
        if self.constant is not None:
            return float(self.constant[node])
        begin, column = self._columns.get(node, (0, []))
        if not begin <= k < begin + len(column):
            begin = k - k % BLOCK
            column = self._column(node, begin)
            self._columns[node] = begin, column
        return column[k - begin]

    def _column(self, node: int, begin: int) -> list[float]:
        ks = np.arange(begin, begin + BLOCK)
        if isinstance(self._compute, Drawn):
            return [float(t) for t in self._compute.at(np.full(BLOCK, node), ks)]
        return [float(self._kept_row(int(k))[node]) for k in ks]

    def _kept_row(self, k: int) -> Seconds:
        """Any function of k: rows are kept for the other nodes, as long as these are about as far."""
        if k not in self._rows:
            if len(self._rows) >= KEPT:
                del self._rows[next(iter(self._rows))]
            self._rows[k] = self.row(k)
        return self._rows[k]


BLOCK = 256
KEPT = 4 * BLOCK


class Drawn:
    """Times that can be asked for some nodes and rounds only: ``at(node, k)``, arrays of one shape."""

    def __init__(self, nodes: int, at: Callable[[Any, Any], Seconds]) -> None:
        self._nodes, self.at = np.arange(nodes), at

    def __call__(self, k: int) -> Seconds:
        return self.at(self._nodes, np.full(len(self._nodes), k))
