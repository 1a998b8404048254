"""Several processes behind one node: gradients are averaged inside it, models are mixed between nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

import dsgt
from dsgt.networks import in_threads
from dsgt.networks.memory import MemoryTransport, Switchboard
from dsgt.networks.transport import Request
from support.cases import F64
from support.launch import TESTS, launch


def test_two_nodes_of_two_processes_are_two_nodes_with_the_double_batch_and_misuse_is_refused(tmp_path: Path):
    done = launch("torch", 4, str(TESTS / "workers" / "inside_worker.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(re.findall(r"process (\d) is right", done.stdout)) == ["0", "1", "2", "3"]
    mean = dsgt.checkpoint.export(tmp_path / "whole", tmp_path / "mean.pt")
    assert sorted(v.numel() for v in mean.values()) == [2, 3, 6, 12]


class _Lost(MemoryTransport):
    """Somebody dies after so many sums."""

    lasts = 0

    def all_reduce(self, v: Tensor) -> Request:
        if self._sums >= self.lasts:
            raise RuntimeError("Connection closed by peer")
        return super().all_reduce(v)


def test_a_lost_process_of_a_node_is_told():
    def act(network: dsgt.networks.Peers) -> None:
        inside = _Lost(Switchboard(1), 0)
        inside.lasts = 100
        model = torch.nn.Linear(2, 1, dtype=F64)
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1, inside=inside)
        inside.lasts = inside._sums
        model(torch.ones(1, 2, dtype=F64)).sum().backward()
        optimizer.step()

    words = "node 0 has lost one of its 1 processes, or waited for it for 300 s .Connection closed by peer"
    with pytest.raises(dsgt.NeighbourError, match=words):
        in_threads([[1.0]], act)
