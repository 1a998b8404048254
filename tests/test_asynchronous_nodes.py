"""Asynchronous nodes as data: whatever the mail does, nothing that was given is lost, and a log is the run."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from dsgt.asynchronous.core import AsyncAlgorithm
from dsgt.asynchronous.mail import Letter, Links
from dsgt.asynchronous.node import Event, Node, mass
from dsgt.asynchronous.replay import replay
from dsgt.topologies import directed_ring, metropolis, pull_weights, push_weights, ring
from dsgt.topologies.changing import Fixed, TwoMatrices, Weights

NODES, DIM, LR = 5, 3, 0.05
START = torch.linspace(-1, 1, DIM, dtype=torch.float64)
CENTRES = torch.linspace(-2, 3, NODES * DIM, dtype=torch.float64).reshape(NODES, DIM)
METHODS = pytest.mark.parametrize("name", ASYNCHRONOUS)


def gradient(i: int, x: Tensor, k: int) -> Tensor:
    """With something that depends on k, as a drawn batch does."""
    return (1 + i / NODES) * (x - CENTRES[i]) + 0.1 * torch.sin(torch.arange(DIM, dtype=x.dtype) + i + k)


def weights_for(algorithm: AsyncAlgorithm[Any]) -> Weights:
    graph = directed_ring(NODES)
    if algorithm.answers:
        return Fixed(metropolis(ring(NODES)))
    if algorithm.needs.push is None:
        return Fixed(push_weights(graph))
    return TwoMatrices(pull_weights(graph), push_weights(graph))


def nodes_of(algorithm: AsyncAlgorithm[Any], **options: Any) -> list[Node[Any]]:
    weights = weights_for(algorithm)
    return [Node(algorithm, Links.of(weights, i), START + i, lambda k: LR, seed=3, **options) for i in range(NODES)]


class Disorder:
    """Nodes wake at random, and letters arrive in any order, twice, or (three of ten) never."""

    def __init__(self, nodes: list[Node[Any]], seed: int) -> None:
        self.nodes, self.chance = nodes, random.Random(seed)
        self.under_way: list[tuple[int, Letter]] = []
        self.steps: list[Tensor] = [torch.zeros(DIM, dtype=torch.float64)] * len(nodes)
        """What each node has gone, the sum of lr g."""

    def step(self) -> None:
        if self.under_way and self.chance.random() < 0.7:
            place = self.chance.randrange(len(self.under_way))
            to, letter = self.under_way[place]
            if self.chance.random() < 0.8:  # else it comes once more
                del self.under_way[place]
            if self.chance.random() >= 0.3:
                self.nodes[to].hear(letter)
                self.post(to)
            return
        i = self.chance.randrange(len(self.nodes))
        node = self.nodes[i]
        g = gradient(i, node.point, node.mail.k)
        self.steps[i] = self.steps[i] + LR * g
        node.wake(g)
        self.post(i)

    def post(self, i: int) -> None:
        mail = self.nodes[i].mail
        self.under_way += [(r, mail.letter(r)) for r in mail.changed]
        mail.changed.clear()


def balance(nodes: list[Node[Any]], world: Disorder) -> float:
    """How far what is held and under way is from what it should be, relative to what has been given."""
    totals = [out.total for node in nodes for out in node.mail.to.values() if out.total is not None]
    found = mass(nodes)
    if hasattr(nodes[0].state, "g"):
        should = sum(node.state.g for node in nodes)
    elif hasattr(nodes[0].state, "w"):  # where models are pushed, steps change their sum; that of the weights is n
        found, should = found[-1:], torch.tensor([NODES], dtype=torch.float64)
    else:
        should = sum(node.algorithm.held(node.algorithm.init(START + node.i)) for node in nodes) - sum(world.steps)
    given = max([1.0, *(float(total.abs().max()) for total in totals)])
    return float((found - should).abs().max()) / given


@METHODS
def test_nothing_that_is_given_gets_lost(name: str):
    nodes = nodes_of(ASYNCHRONOUS[name]())
    world = Disorder(nodes, seed=2)
    for _ in range(150):
        for _ in range(10):
            world.step()
        assert balance(nodes, world) < 1e-11
    assert sum(node.mail.k for node in nodes) > 400


@METHODS
@pytest.mark.parametrize("when", [0, 500])
def test_a_node_that_comes_back_from_its_own_old_checkpoint_leaves_the_balance_as_it_was(name: str, when: int):
    nodes = nodes_of(ASYNCHRONOUS[name]())
    world = Disorder(nodes, seed=4)
    for event in range(1000):
        if event == when:
            saved, steps = nodes[1].saved(), world.steps[1]
        world.step()
    written = nodes[1].mail.number
    back = nodes_of(ASYNCHRONOUS[name]())[1]
    back.restore(saved)
    nodes[1], world.steps[1] = back, steps
    assert back.mail.number > written
    assert balance(nodes, world) < 1e-11
    world.post(1)
    for _ in range(500):
        world.step()
    assert balance(nodes, world) < 1e-11
    assert nodes[2].mail.of[1].letter.number > written


@METHODS
def test_a_log_of_what_happened_is_the_run(name: str):
    algorithm = ASYNCHRONOUS[name]()
    logs: list[list[Event]] = [[] for _ in range(NODES)]
    nodes = nodes_of(algorithm, record=lambda event: logs[event[0]].append(event))
    world = Disorder(nodes, seed=1)
    for _ in range(600):
        world.step()
    for node in nodes:
        node.enter(2)
        node.rest()

    again = nodes_of(algorithm)
    replay(again, logs, gradient)
    for node, copy in zip(nodes, again, strict=True):
        assert (node.mail.number, node.mail.k, node.mail.phase) == (copy.mail.number, copy.mail.k, copy.mail.phase)
        for before, after in zip(node.state, copy.state, strict=True):
            assert torch.equal(before, after)


def test_a_log_with_a_part_missing_is_refused():
    logs: list[list[Event]] = [[] for _ in range(NODES)]
    nodes = nodes_of(ASYNCHRONOUS["asy-sonata"](), record=lambda event: logs[event[0]].append(event))
    world = Disorder(nodes, seed=1)
    for _ in range(200):
        world.step()
    logs[2] = logs[2][:3]
    with pytest.raises(ValueError, match="not whole"):
        replay(nodes_of(ASYNCHRONOUS["asy-sonata"]()), logs, gradient)
