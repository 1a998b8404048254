"""When a message leaves, and what has been moved when it has landed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from dsgt import topologies
from dsgt.core import Packed
from dsgt.networks import Peers, flights, in_threads
from dsgt.networks.background import Background
from dsgt.networks.transport import Request, Requests, Transport


class Recorded(flights.Flight):
    """Notes, when it departs, whether somebody waits for it already."""

    def __init__(self) -> None:
        super().__init__([])
        self.was_wanted: bool | None = None

    def depart(self) -> None:
        assert self._wanted is not None
        self.was_wanted = self._wanted.is_set()

    def _land(self) -> Tensor:
        return torch.ones(1)


@pytest.fixture
def flight():
    flight, background = Recorded(), Background()
    yield flight, background
    background.close()


def test_a_message_lets_the_node_go_first(flight: tuple[Recorded, Background], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flights, "HEAD_START", 60.0)
    message, background = flight
    message.travel_in(background)
    assert message.on_its_way
    assert message.wait() == 1
    assert message.was_wanted  # and did not wait for a minute


@pytest.mark.parametrize("kind", ["W v", "flow", "packed", "not a mean"])
def test_large_messages_come_in_turn_into_two_buffers(monkeypatch: pytest.MonkeyPatch, kind: str):
    """Of a node that hears four others; the first ones of a kind, which are announced, and the next."""
    monkeypatch.setattr(flights, "IN_TURN_FROM", 1)
    W = topologies.metropolis(topologies.complete(5)) * 0.5 + 0.5 * np.eye(5)
    if kind == "not a mean":
        W = W * [1.0, 2.0, 3.0, 4.0, 5.0]
    x = torch.randn(2, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    most: list[int] = []

    def act(network: Peers) -> Tensor:
        asked = network._neighbours.buffers.scratch
        held: list[int] = []

        def scratch(v: Tensor) -> Tensor:
            held.append(1)
            return asked(v)

        monkeypatch.setattr(network._neighbours.buffers, "scratch", scratch)
        network._transport.announces = True  # type: ignore[misc]
        found = []
        for v in x[:, network.node]:
            sent = Packed(v, unpack=lambda wire: 1 * wire, value=v) if kind == "packed" else v
            mix = network.at(0)
            found.append(mix.flow(sent) if kind == "flow" else mix(sent))
        most.append(len(held) // 2)
        return torch.stack(found)

    found = torch.stack(in_threads(W, act, timeout=60), dim=1)
    expected = torch.from_numpy(np.asarray(W)) @ x - (x if kind == "flow" else 0 * x)
    assert torch.allclose(found, expected, rtol=1e-13, atol=1e-14)
    assert most == [2] * 5


class SlowToLetGo:
    def __init__(self) -> None:
        self.gone: list[bool] = []

    def __del__(self) -> None:
        time.sleep(0.05)
        self.gone.append(True)


def test_closing_waits_until_the_thread_has_let_go_of_everything():
    """One that is in torch's code when the interpreter ends, were it to free memory, aborts the process."""
    background, held = Background(), SlowToLetGo()
    gone = held.gone

    def work(held: SlowToLetGo = held) -> Tensor:
        return torch.ones(1)

    background.begin(work)
    del held, work
    background.close()
    assert gone


def test_a_message_leaves_by_itself(flight: tuple[Recorded, Background]):
    message, background = flight
    message.travel_in(background)
    assert message.then(lambda v: v + 1).result() == 2
    assert message.was_wanted is False


@dataclass(frozen=True)
class Late(Request):
    move: Callable[[], object]

    def finish(self, timeout: float) -> None:
        self.move()


class LateTransport(Transport):
    """Node 0 of three, which reads and writes memory as late as a transport may: when a request is finished.

    Node j always says (10 j, 10 j, ...). ``told`` holds what was read for the others."""

    node, size, launcher, threads, announces = 0, 3, "", False, False

    def __init__(self) -> None:
        self.told: list[Tensor] = []

    def exchange(
        self, letters: Mapping[int, Tensor], into: Mapping[int, Tensor], number: int
    ) -> tuple[Requests, Requests]:
        assert all(v.is_contiguous() for v in letters.values())  # as gloo and MPI want it
        receiving: Requests = {j: Late(lambda j=j, b=buffer: b.fill_(10 * j)) for j, buffer in into.items()}
        return receiving, {i: Late(lambda v=v: self.told.append(v.clone())) for i, v in letters.items()}

    def all_reduce(self, v: Tensor) -> Request:
        return Late(lambda: v.copy_(v[:1].expand_as(v)))  # everybody says the same


V = torch.tensor([1.0, 2.0, 3.0])
MIXED, FLOWED = 0.5 * V + 7.5, 7.5 - 0.5 * V
WAYS: dict[str, tuple[Callable[[Peers, Tensor], Tensor], Tensor]] = {
    "mixing": (lambda net, v: net(v), MIXED),
    "flow": (lambda net, v: net.flow(v), FLOWED),
    "over itself": (lambda net, v: net.at(0).into(v, v), MIXED),
    "started": (lambda net, v: net.start(v).wait(), MIXED),
    "started flow": (lambda net, v: net.at(0).start_flow(v).wait(), FLOWED),
    "every other number": (lambda net, v: net(torch.stack([v, -v], dim=1)[:, 0]), MIXED),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_was_sent_has_been_moved_when_a_mixing_lands(way: str):
    """So the node may overwrite its vector afterwards, or with the result itself."""
    mix, expected = WAYS[way]
    transport = LateTransport()
    with Peers(np.full((3, 3), 0.25) + 0.25 * np.eye(3), transport) as network:
        v = V.clone()
        assert torch.equal(mix(network, v), expected)
        v.zero_()
        assert [t.tolist() for t in transport.told] == [V.tolist()] * 2


def test_a_message_that_nobody_waits_for_is_moved_before_the_network_closes():
    transport = LateTransport()
    with Peers(np.full((3, 3), 0.25) + 0.25 * np.eye(3), transport) as network:
        network.start(V)
        assert transport.told == []
    assert [t.tolist() for t in transport.told] == [V.tolist()] * 2
