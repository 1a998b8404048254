"""Messages that do not fit each other, and nodes that have ended: an error at once, never a wrong number.

Nodes are threads here, and their timeout is far longer than a test: what is told in time was not found by waiting.
"""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import torch

from dsgt.networks import Peers, in_threads
from dsgt.networks.messages import Kind
from dsgt.networks.transport import Farewell, Purpose
from dsgt.topologies import averaging, metropolis
from support.launch import HANGING

PAIR = np.array([[0.6, 0.4], [0.4, 0.6]])
ROW = (np.eye(4) + metropolis(nx.path_graph(4))) / 2
F32, F64 = torch.float32, torch.float64


def errors_of(W: np.ndarray, act: Callable[[Peers], object], *, timeout: float = HANGING) -> list[str]:
    """What every node says, in order."""

    def careful(network: Peers) -> str:
        try:
            act(network)
        except (RuntimeError, ValueError) as error:
            return str(error)
        return "nothing"

    return in_threads(W, careful, timeout=timeout)


@pytest.mark.parametrize("W", [PAIR, averaging(2)], ids=["exchange", "all-reduce"])
@pytest.mark.parametrize("here", [torch.ones(3), torch.ones(1, dtype=F64), torch.ones(0)], ids=str)
def test_messages_of_two_kinds_are_refused_by_both_nodes(W: np.ndarray, here: torch.Tensor):
    there = torch.ones(2)
    kinds = str(Kind.of(here)), str(Kind.of(there))
    for node, text in enumerate(errors_of(W, lambda net: net(there if net.node else here))):
        assert f"node {node} and its neighbour, node {1 - node}, do not run the same thing" in text
        assert f"(it sends {kinds[1 - node]}, this node {kinds[node]})" in text


@pytest.mark.parametrize("W", [PAIR, averaging(2)], ids=["exchange", "all-reduce"])
def test_a_message_of_a_kind_that_was_right_before_is_refused_too(W: np.ndarray):
    def act(network: Peers) -> None:
        for length in (2, 3, 3 - network.node):
            network(torch.ones(length))

    texts = errors_of(W, act, timeout=0.5)
    assert all("do not run the same thing" in text or "a message of another length" in text for text in texts), texts
    if W is not PAIR:
        assert not any("came, but" in text for text in texts)  # they have never met: gloo would abort


def test_everybody_hears_that_one_node_gathers_something_else():
    for look in (Peers.gather, Peers.mean):
        texts = errors_of(ROW, lambda net, look=look: look(net, torch.zeros(3 if net.node < 2 else 4, dtype=F32)))
        assert len(set(texts)) == 1
        assert "node 0 gathers or averages 3 numbers of torch.float32, but node 2 4 numbers" in texts[0]


def test_a_greeting_is_never_taken_for_a_mixing():
    """A greeting is one number, and so is this model."""
    texts = errors_of(PAIR, lambda net: net.mean(torch.ones(1)) if net.node else net(torch.ones(1)), timeout=0.5)
    assert all(f"node {i} heard nothing from its neighbour, node {1 - i}," in text for i, text in enumerate(texts))


def test_no_two_messages_share_a_number():
    numbers = [purpose.number(count) for purpose in Purpose for count in range(100)]
    assert len(set(numbers)) == len(numbers)


def test_a_farewell_knows_what_was_sent_before_it():
    last = {Purpose.MIXING: 3, Purpose.ANNOUNCEMENT: 3, Purpose.GREETING: 1}
    farewell = Farewell("has ended", [0], Purpose.MIXING.number(3), Purpose.GREETING.number(1))
    for purpose, count in last.items():
        assert farewell.has_sent(purpose.number(count))
        assert not farewell.has_sent(purpose.number(count + 1))
    assert not farewell.has_sent(Purpose.ROLL_CALL.number(0))


def test_which_message_is_announced_does_not_depend_on_which_departs_first():
    def act(network: Peers) -> list[float]:
        flights = [network.mixing(network.at(0).row, torch.full((2,), 1.0 + network.node) * k) for k in (1, 10)]
        for flight in reversed(flights) if network.node else flights:
            flight.leave()
        return [float(flight.wait()[0]) for flight in flights]

    assert in_threads(PAIR, act, timeout=HANGING) == [pytest.approx([1.4, 14.0]), pytest.approx([1.6, 16.0])]


def test_a_closed_network_refuses_to_be_used_and_may_be_closed_again():
    def act(network: Peers) -> None:
        pending = network.start(torch.ones(2))
        network.close()
        assert torch.allclose(pending.wait(), torch.ones(2))
        v = torch.ones(2)
        mix = network.at(0)
        uses = [network, network.start, network.flow, network.gather, network.mean, mix, mix.start_flow]
        for use in [*uses, lambda v: mix.into(v, v), lambda v: mix.exchange(v[None])]:
            with pytest.raises(RuntimeError, match=f"node {network.node} uses a network that is closed"):
                use(v)
        assert network.traffic.mixings == 1
        network.close()

    in_threads(PAIR, act)


@pytest.mark.parametrize("W", [PAIR, averaging(2)], ids=["exchange", "all-reduce"])
@pytest.mark.parametrize("look", [False, True])
def test_a_node_that_has_ended_is_not_waited_for(W: np.ndarray, look: bool):
    def act(network: Peers) -> None:
        for k in range(3 if network.node else 5):
            network.at(k)(torch.ones(2))
        if look and network.node == 0:
            network.mean(torch.ones(1))

    waiting, ended = errors_of(W, act)
    assert ended == "nothing"
    assert "node 0 waits for node 1, but node 1 has ended after 3 rounds (3 mixings)" in waiting
    assert "all nodes must take the same number of steps" in waiting


def test_messages_of_a_node_that_has_ended_are_still_received():
    def act(network: Peers) -> torch.Tensor:
        pending = network.start(torch.ones(2) * network.node)
        if network.node:
            network.close()
        return pending.wait()

    here, there = in_threads(PAIR, act)
    assert torch.allclose(here, torch.full((2,), 0.4))
    assert torch.allclose(there, torch.full((2,), 0.6))


def test_those_farther_away_hear_who_has_ended():
    def act(network: Peers) -> None:
        for _ in range(1 if network.node == 3 else 9):
            network(torch.ones(2))

    *waiting, ended = errors_of(ROW, act)
    assert ended == "nothing"
    assert all("node 3 has ended after 1 mixing" in text for text in waiting), waiting
