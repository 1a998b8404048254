"""When a message in the background leaves."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dsgt.networks import flights
from dsgt.networks.background import Background


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


def test_a_message_leaves_by_itself(flight: tuple[Recorded, Background]):
    message, background = flight
    message.travel_in(background)
    assert message.then(lambda v: v + 1).result() == 2
    assert message.was_wanted is False
