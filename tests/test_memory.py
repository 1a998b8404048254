"""Where long-lived memory lies, and that gaps between a script's own tensors do not stay for ever."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import dsgt
from dsgt.buffers import Buffers
from dsgt.engine.allocator import give_back, keep_freed_memory
from dsgt.networks import Peers, in_threads
from dsgt.optim.optimizer import WORTH_GIVING_BACK

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts pages as Linux does")


def test_buffers_that_are_apart_do_not_lie_in_the_heap_where_they_would_leave_gaps():
    if not keep_freed_memory():
        pytest.skip("not glibc, or switched off")
    kept = Buffers(apart=True).scratch(torch.empty(1_000_000))
    heaps = [line.split()[0] for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("[heap]")]
    for begin, end in ([int(place, 16) for place in heap.split("-")] for heap in heaps):
        assert not begin <= kept.data_ptr() < end


def test_a_real_nodes_buffers_are_apart_and_a_simulations_are_not():
    def act(network: Peers) -> bool:
        return network.buffers._apart

    assert in_threads(np.ones((1, 1)), act) == [True]
    assert not Buffers.shared()._apart


def test_gaps_between_tensors_are_given_back_to_the_kernel():
    if not keep_freed_memory():
        pytest.skip("not glibc, or switched off")
    vectors = [torch.ones(8 << 20) for _ in range(4)]  # of 32 MB each
    before = resident()
    del vectors[1:3]  # a gap: the last one lies above it
    give_back()
    assert resident() < before - (48 << 20)


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("numbers", "rounds"), [(1_000, []), (WORTH_GIVING_BACK // 4, [0, 1, 2, 3, 4, 8])], ids=["small", "large"]
)
def test_a_large_model_gives_gaps_back_in_its_first_steps_and_now_and_then(
    numbers: int, rounds: list[int], monkeypatch: pytest.MonkeyPatch
):
    def act(network: Peers) -> list[int]:
        given: list[int] = []
        p = torch.nn.Parameter(torch.zeros(numbers))
        optimizer = dsgt.Optimizer([p], dsgt.DSGT(), network, lr=0.1)
        monkeypatch.setattr("dsgt.optim.optimizer.give_back", lambda: given.append(optimizer.round))
        for _ in range(9):
            optimizer.zero_grad()
            p.sum().backward()
            optimizer.step()
        return given

    assert in_threads(np.ones((1, 1)), act) == [rounds]
