"""Nodes of asynchronous methods as threads of one process, over mail that is as bad as real mail can be."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dsgt.asynchronous.core import AsyncAlgorithm
from dsgt.asynchronous.letters import Form
from dsgt.asynchronous.mail import Links
from dsgt.asynchronous.node import Node
from dsgt.asynchronous.real import RealNode
from dsgt.asynchronous.recorded import Recorder, path_of
from dsgt.core import Weights
from dsgt.topologies import directed_ring, metropolis, pull_weights, push_weights, ring
from dsgt.topologies.changing import Fixed, TwoMatrices

PATIENCE = 60.0
"""Seconds that a node waits for another: only a test that fails waits so long."""
NODES, DIM, LR = 4, 3, 0.05
CENTRES = torch.linspace(-2, 3, NODES * DIM, dtype=torch.float64).reshape(NODES, DIM)


def gradient(i: int, x: Tensor, k: int) -> Tensor:
    """With something that depends on k, as a drawn batch does."""
    noise = torch.sin(torch.arange(DIM, dtype=x.dtype) + i + k)
    return (1 + i / NODES) * (x - CENTRES[i].to(x.dtype)) + 0.1 * noise


def weights_for(algorithm: AsyncAlgorithm[Any]) -> Weights:
    """Directed where the method can: then some neighbours tell and some only listen."""
    graph = directed_ring(NODES)
    if algorithm.answers:
        return Fixed(metropolis(ring(NODES)))
    if algorithm.needs.push is None:
        return Fixed(push_weights(graph))
    return TwoMatrices(pull_weights(graph), push_weights(graph))


def node_of(algorithm: AsyncAlgorithm[Any], i: int, dtype: torch.dtype = torch.float32) -> Node[Any]:
    return Node(algorithm, Links.of(weights_for(algorithm), i), torch.zeros(DIM, dtype=dtype), lambda k: LR, seed=3)


class Town:
    """Where mailboxes are. Of each link the newest letter is kept, some are lost, and who leaves takes back what was
    not read, as closing ZeroMQ's conflating sockets may do."""

    def __init__(self, *, loss: float = 0.0, seed: int = 0) -> None:
        self.changed = threading.Condition()
        self.newest: dict[tuple[int, int], bytearray] = {}
        self.loss, self.chance = loss, random.Random(seed)


class Box:
    turned_away = 0

    def __init__(self, town: Town, i: int) -> None:
        self.town, self.i = town, i

    def send(self, to: int, data: bytes | bytearray) -> None:
        with self.town.changed:
            if self.town.chance.random() >= self.town.loss:
                self.town.newest[self.i, to] = bytearray(data)
                self.town.changed.notify_all()

    def receive(self, timeout: float = 0.0) -> Iterator[tuple[int | None, bytearray]]:
        with self.town.changed:
            if timeout:
                self.town.changed.wait_for(lambda: any(to == self.i for _, to in self.town.newest), timeout)
            come = [link for link in self.town.newest if link[1] == self.i]
            letters = [(link[0], self.town.newest.pop(link)) for link in come]
        yield from letters

    def close(self) -> None:
        with self.town.changed:
            for link in [link for link in self.town.newest if link[0] == self.i]:
                del self.town.newest[link]


def real(algorithm: AsyncAlgorithm[Any], i: int, post: Any, **options: Any) -> RealNode:
    node = node_of(algorithm, i)
    return RealNode(node, Form.of(algorithm, node.point), post, job="test", timeout=PATIENCE, **options)


def live(one: RealNode, wakes: int, path: Path | None = None, slow: float = 0.0) -> None:
    """A whole life: start, wake so often, finish."""
    recorder = None if path is None else Recorder(path_of(path, one.node.i), one.node, {})
    one.start()
    for _ in range(wakes):
        g = gradient(one.node.i, one.node.point, one.node.mail.k)
        time.sleep(slow)
        one.wake(g)
    one.finish()
    if recorder is not None:
        recorder.close(whole=True)


def together(lives: list[Callable[[], None]]) -> None:
    """Each in a thread of its own; what went wrong in one is raised."""
    wrong: list[BaseException] = []

    def lived(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=lived, args=(one,), daemon=True) for one in lives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
