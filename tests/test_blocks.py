"""Large simulations: a round computed some columns at a time is the same round."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import dsgt
from cases import CASES, F64, graph
from dsgt.core import Algorithm, tensors
from dsgt.networks import Dense, blocks
from dsgt.rate import Rate
from dsgt.threads import threads
from dsgt.topologies import metropolis
from unusual import Clipped, Together

N, M, ROUNDS = 6, 101, 8
each = pytest.mark.parametrize("name", CASES)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """101 columns are four blocks."""
    monkeypatch.setattr("dsgt.networks.blocks.LARGE", 1)
    monkeypatch.setattr("dsgt.networks.buffers.LARGE", 1)
    monkeypatch.setattr(blocks, "BLOCK", N * 30)
    monkeypatch.setattr(blocks, "NARROWEST", 1)


def rounds(algorithm: Algorithm[Any], network: Dense) -> list[dict[str, Tensor]]:
    """Some states of a run on a curved function, copied."""
    draw = torch.Generator().manual_seed(0)
    x0, centre = (torch.randn(N, M, dtype=F64, generator=draw) for _ in range(2))
    states = dsgt.iterate(algorithm, lambda x, k: torch.tanh(x - centre), network, x0, lambda k: 0.1 / (k + 1))
    with threads(1):
        return [{k: v.clone() for k, v in tensors(next(states)).items()} for _ in range(ROUNDS)]


@each
def test_a_round_in_blocks_is_the_same_round(name: str, request: pytest.FixtureRequest) -> None:
    case = CASES[name]
    W = case.weights(graph(N))
    whole, in_blocks = Dense(W), Dense(W)
    expected = rounds(case.algorithm, whole)
    request.getfixturevalue("small_blocks")
    found = rounds(case.algorithm, in_blocks)
    for a, b in zip(expected, found, strict=True):
        for field, value in a.items():
            assert (value - b[field]).abs().max() < 1e-13, field  # products may round in another order
    assert in_blocks.traffic == whole.traffic


def test_several_cores_work_on_whole_tensors(small_blocks: None) -> None:
    g = torch.ones(N, M)
    with threads(1):
        assert blocks.pay(Dense(metropolis(graph(N))), dsgt.DSGT(), g)
    with threads(2):
        assert not blocks.pay(Dense(metropolis(graph(N))), dsgt.DSGT(), g)


def test_blocks_leave_no_column_out() -> None:
    for m in (1, 1023, 1024, 1025, 62_006, 10_000_000):
        widths = blocks._widths(24, m)
        assert sum(widths) == m
        assert 24 * max(widths) <= max(blocks.BLOCK, 24 * blocks.NARROWEST)


def test_a_method_that_does_not_say_it_is_arithmetic_is_not_cut(request: pytest.FixtureRequest) -> None:
    W = metropolis(graph(N))
    expected = rounds(Clipped(), Dense(W))
    request.getfixturevalue("small_blocks")
    found = rounds(Clipped(), Dense(W))
    assert all(torch.equal(a["x"], b["x"]) for a, b in zip(expected, found, strict=True))


def test_a_method_that_mixes_together_cannot_be_arithmetic(small_blocks: None) -> None:
    with pytest.raises(TypeError, match="do not declare it arithmetic"):
        rounds(Together(), Dense(metropolis(graph(N))))


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_a_rate_multiplies_as_the_number_does_to_the_last_bit(dtype: torch.dtype) -> None:
    v, rate = torch.randn(1000, dtype=dtype, generator=torch.Generator().manual_seed(0)), Rate(0.1, dtype)
    assert rate == 0.1
    assert rate * 3 == 0.1 * 3
    assert torch.equal(rate * v, 0.1 * v)
    assert torch.equal(rate * v.double(), 0.1 * v.double())  # also where it was made for another precision
