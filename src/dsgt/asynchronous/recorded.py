"""A real run on paper: what happened to each node in which order, and a print of its model after every wake.

No contents and no clock: a letter is known by its sender and number, so a line is enough for an event.

    {"node": 0, "nodes": 4, ...}     what the run is
    h 2 17                           heard letter 17 of node 2
    w 8 5f1c0a77d2e4b913             woke, in its own event 8; the print of its model
    r 9 5f1c0a77d2e4b913             rested
    end
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from torch import Tensor

from dsgt.asynchronous.node import RESTED, WOKE, Event, Node
from dsgt.asynchronous.replay import replay

END = "end"
_WORDS = {WOKE: "w", RESTED: "r"}


class DifferentReplayError(ValueError):
    """A replay gave another model than the run."""


class Record(NamedTuple):
    """What one node wrote."""

    about: dict[str, Any]
    events: list[Event]
    prints: dict[int, str]
    """The model's print after each event that moved it, by the number of the event."""


class Recorder:
    """Writes what happens to a node, line by line."""

    def __init__(self, path: Path, node: Node[Any], about: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("w")
        self._node = node
        self._file.write(json.dumps(dict(about)) + "\n")
        node.record = self._write

    def _write(self, event: Event) -> None:
        _, what, number = event
        if what >= 0:
            self._file.write(f"h {what} {number}\n")
        else:
            self._file.write(f"{_WORDS[what]} {number} {print_of(self._node.state[0])}\n")

    def close(self, *, whole: bool) -> None:
        """whole: the run came to its end."""
        self._node.record = None
        self._file.write(f"{END}\n" * whole)
        self._file.close()


def print_of(x: Tensor) -> str:
    """Another one for another model, be it in its last bit."""
    return hashlib.blake2b(x.detach().contiguous().numpy().tobytes(), digest_size=8).hexdigest()


def path_of(path: Path, node: int) -> Path:
    """Where node i writes, if ``path`` is what the user named."""
    return path.with_name(f"{path.name}.{node}")


def read(path: Path, node: int) -> Record:
    """What ``Recorder`` wrote; a ValueError where it is not whole."""
    lines = path.read_text().splitlines()
    try:
        about = json.loads(lines[0])
        events: list[Event] = []
        prints: dict[int, str] = {}
        for line in lines[1:-1]:
            word, first, second = line.split()
            if word == "h":
                events.append((node, int(first), int(second)))
            else:
                events.append((node, {"w": WOKE, "r": RESTED}[word], int(first)))
                prints[int(first)] = second
        if lines[-1] != END or not isinstance(about, dict):
            raise ValueError("its last line is missing: the run was stopped, or still goes on")
    except (IndexError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is no whole record of a node: {error}") from None
    return Record(about, events, prints)


def replayed(
    nodes: Sequence[Node[Any]],
    records: Sequence[Record],
    gradient: Callable[[int, Tensor, int], Tensor],
    *,
    watch: Callable[[Node[Any]], None] | None = None,
) -> int:
    """Do a recorded run again, in this process; how many models were the same, bit for bit: after every wake of every
    node, and at the end. DifferentReplayError at the first that is not."""
    same = 0

    def compare(node: Node[Any]) -> None:
        nonlocal same
        told = records[node.i].prints[node.mail.number]
        if print_of(node.state[0]) != told:
            raise DifferentReplayError(
                f"the model of node {node.i} after its wake {node.mail.k} (event {node.mail.number}) is not the one "
                "that the run had: other versions, data or processors were used, or the record was changed"
            )
        same += 1
        if watch is not None:
            watch(node)

    replay(nodes, [record.events for record in records], gradient, watch=compare)
    for node in nodes:  # what rested last
        compare(node)
    return same
