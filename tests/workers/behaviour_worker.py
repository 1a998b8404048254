"""One node of a real network, for tests/test_peers.py.

usage: behaviour_worker.py torch|mpi SCENARIO [beside]    (beside: vectors of any size travel in the background)
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
import threading
import time
from contextlib import suppress

import networkx as nx
import numpy as np
import pytest
import torch
from torch import nn

import dsgt
from dsgt.networks import Cycle
from dsgt.networks.transport import Farewell, Purpose
from dsgt.topologies.weights import averaging, metropolis
from support.launch import HANGING

KIND = sys.argv[1]
TIMEOUT = 20.0
"""Seconds until a silent neighbour is named: short, because a test waits for it, and long enough for a healthy
neighbour on a busy machine, whom nobody may name."""


def connect(W: np.ndarray, timeout: float = HANGING):
    kind = dsgt.networks.TorchPeers if KIND == "torch" else dsgt.networks.MPIPeers
    return kind(W, timeout=timeout)


def size() -> int:
    return int(os.environ.get("WORLD_SIZE") or os.environ["OMPI_COMM_WORLD_SIZE"])


def rank() -> int:
    return int(os.environ.get("RANK") or os.environ["OMPI_COMM_WORLD_RANK"])


def expect(error: type[Exception], words: str, act) -> None:
    with pytest.raises(error, match=re.escape(words)):
        act()


def ring(n: int) -> np.ndarray:
    """Half of it stays at home, so that no ring averages everyone."""
    return (np.eye(n) + metropolis(nx.cycle_graph(n) if n > 2 else nx.path_graph(n))) / 2


def peaceful() -> None:
    """Everything that does not end the job, in one start."""
    reopens()
    n, me = size(), rank()
    expect(ValueError, f"W joins {n + 1} nodes, but this job has {n} process", lambda: connect(ring(n + 1)))
    mine = ring(n) if me == 0 else (np.eye(n) + ring(n)) / 2
    expect(ValueError, "nodes 0 and 1 were given different W", lambda: connect(mine))

    with connect(ring(n)) as net:
        assert net._transport.beside == n  # all on this machine
        v = torch.arange(3.0, dtype=torch.float64) + me
        rows = net.gather(v)
        assert torch.equal(rows, torch.arange(3.0, dtype=torch.float64) + torch.arange(n)[:, None])
        assert torch.allclose(net.mean(v), rows.mean(dim=0))
        W = torch.from_numpy(ring(n))
        assert torch.allclose(net(v), (W @ rows)[me], rtol=1e-14)
        assert torch.allclose(net.flow(v), (W @ rows - rows)[me], atol=1e-14)
        every_other = torch.stack([v, -v], dim=1)[:, 0]
        assert torch.allclose(net(every_other), (W @ rows)[me], rtol=1e-14)
        a, b = net.at(0).together(v, v[:1] * 2)
        assert torch.allclose(torch.cat([a, b]), (W @ torch.cat([rows, rows[:, :1] * 2], dim=1))[me])
        assert net.traffic.mixings == 4
        assert net.bytes_sent == int((ring(n) > 0).sum() - n) * (3 + 3 + 3 + 4) * 8
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            assert net(torch.ones(5, dtype=dtype)).dtype == dtype
        pending = net.start(v)
        assert pending.wait().data_ptr() == pending.wait().data_ptr()
        with torch.inference_mode():
            assert torch.allclose(net.start(v.clone()).wait(), (W @ rows)[me], rtol=1e-14)
        net.start(v), net.start(v)  # never waited for: closing drains them

    try:
        with connect(ring(n)) as net:
            net.start(v)
            if KIND == "torch":
                raise KeyError("on every node, with a message in flight")
    except KeyError:
        pass

    with connect(averaging(n)) as net:
        assert torch.allclose(net(v), rows.mean(dim=0))
        assert torch.allclose(net.flow(v), rows.mean(dim=0) - v, atol=1e-14)

    lazy = (np.eye(n) + ring(n)) / 2
    with connect(Cycle([ring(n), lazy])) as net:
        flights = [net.at(k).start(v * (k + 1)) for k in range(4)]
        for k, flight in reversed(list(enumerate(flights))):
            expected = torch.from_numpy([ring(n), lazy][k % 2]) @ rows * (k + 1)
            assert torch.allclose(flight.wait(), expected[me], rtol=1e-14)

    with connect(ring(n)) as one, connect(lazy) as other:  # node 0 sends first over the one, node 1 over the other
        networks = {one: ring(n), other: lazy} if me % 2 else {other: lazy, one: ring(n)}
        flights = [(net.start(v * (1 if net is one else 2)), net) for net in networks]
        for flight, net in flights:
            expected = torch.from_numpy(networks[net]) @ rows * (1 if net is one else 2)
            assert torch.allclose(flight.wait(), expected[me], rtol=1e-14)

    with connect(ring(n)) as net:
        optimizers(net, me, n)
    closed(net)
    if KIND == "mpi":
        farewells()
    with connect((np.eye(n) + metropolis(nx.path_graph(n))) / 2) as net:  # in a row some have equal neighbours
        uneven = torch.zeros(3 + (me > 0), dtype=torch.float64)
        expect(
            ValueError,
            "node 0 gathers or averages 3 numbers of torch.float64, but node 1 4",
            lambda: net.gather(uneven),
        )
    dsgt.networks.torchdist._CHANNELS = itertools.count(1 << 40)  # as if so many had been made before
    with connect(ring(n)) as net:
        assert torch.allclose(net(v), (W @ rows)[me], rtol=1e-14)


def farewells() -> None:
    """One that has overtaken messages does not make anybody give them up."""
    from mpi4py import MPI

    from dsgt.networks.mpi_farewells import Farewells

    myself = Farewells(MPI, MPI.COMM_SELF)
    other = Farewells(MPI, MPI.COMM_SELF)
    assert not myself.will_not_send(0, Purpose.MIXING.number(1))
    myself.tell(Farewell("has ended", [0], Purpose.MIXING.number(3), Purpose.GREETING.number(1)))
    while not myself.words():
        time.sleep(0)
    assert myself.words() == {0: "has ended"}
    assert not myself.will_not_send(0, Purpose.MIXING.number(3))
    assert myself.will_not_send(0, Purpose.MIXING.number(4))
    assert other.words() == {}


def closed(net) -> None:
    net.close()
    v = torch.zeros(3, dtype=torch.float64)
    for act in (net, net.start, net.flow, net.at(0), net.gather, net.mean):
        expect(RuntimeError, "uses a network that is closed", lambda act=act: act(v))


def optimizers(net, me: int, n: int) -> None:
    def some_without_samples() -> None:
        dsgt.Optimizer([nn.Parameter(torch.zeros(1))], dsgt.DSGT(), net, 0.1, samples=5 if me else None)

    expect(ValueError, "samples was given at some nodes but not at nodes [0]", some_without_samples)
    torch.manual_seed(me)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    opt = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), net, lr=0.1, samples=10 + me)
    for _ in range(3):
        opt.zero_grad()
        model(torch.randn(8, 4) + me).pow(2).sum().backward()
        opt.step()
    mean = opt.average(model)
    for key, value in model.state_dict().items():
        flat = value.double().reshape(-1)
        expected = net.gather(flat).mean(dim=0).reshape(value.shape)
        assert torch.allclose(mean.state_dict()[key].double(), expected, atol=1e-6), key
    assert not torch.equal(mean[0].weight, model[0].weight)


def exchange_until(net, act) -> None:
    """Mix for ever; node 1 acts in the tenth round."""
    v = torch.zeros(1000)
    for k in range(100_000):
        if k == 10 and net.node == 1:
            act()
        v = net.start(v).wait()


def reopens() -> None:
    """Networks one after the other, none told of a process group."""
    n, me = size(), rank()
    for k in range(4):
        with connect(ring(n)) as net:
            v = torch.full((3,), float(me + k), dtype=torch.float64)
            expected = torch.from_numpy(ring(n)) @ (torch.arange(n, dtype=torch.float64) + k)
            assert torch.allclose(net.start(v).wait(), expected[me].expand(3))
    for thread in threading.enumerate():
        if thread.name == "dsgt-background":
            thread.join(timeout=HANGING)
            assert not thread.is_alive()


def dies() -> None:
    with connect(ring(size()), timeout=TIMEOUT) as net:
        exchange_until(net, lambda: os.kill(os.getpid(), signal.SIGKILL))


def raises() -> None:
    def fail() -> None:
        raise ZeroDivisionError("node 1 has a bug")

    with connect(ring(size()), timeout=TIMEOUT) as net:
        exchange_until(net, fail)


def hangs() -> None:
    began = time.monotonic()
    with connect(ring(size()), timeout=TIMEOUT) as net:
        try:
            exchange_until(net, lambda: time.sleep(1000))
        except dsgt.NeighbourError as error:
            waited = time.monotonic() - began
            print(f"node {net.node} waited {waited:.1f} s and says: {error}", flush=True)
            raise


def absent() -> None:
    """The last node of a row does not come to an all-reduce."""
    n = size()
    row = (np.eye(n) + metropolis(nx.path_graph(n))) / 2
    with connect(row, timeout=TIMEOUT) as net:
        if net.node == n - 1:
            time.sleep(1000)
        try:
            net.mean(torch.zeros(3))
        except dsgt.NeighbourError as error:
            print(f"node {net.node} says: {error}", flush=True)
            raise


def tell(act) -> None:
    """Print what this node says when its neighbour is of no use."""
    try:
        act()
    except dsgt.NeighbourError as error:
        sys.stdout.write(f"node {error.node} says: {error}\n")  # print would write the end of the line by itself
        sys.stdout.flush()


def differs() -> None:
    """Two nodes do not send the same: in the first message, in the dtype alone, in an all-reduce, in a later one."""
    n, me = size(), rank()
    for W in (ring(n), averaging(n)):
        for lengths, dtypes in ([(10, 20), (torch.float64,) * 2], [(20, 10), (torch.float32, torch.float64)]):
            net, v = connect(W), torch.ones(lengths[me], dtype=dtypes[me])
            tell(lambda net=net, v=v: net(v))
    net = connect(ring(n), timeout=TIMEOUT)
    net(torch.ones(10)), net(torch.ones(20))
    tell(lambda: net(torch.ones(20 if me else 10)))
    if KIND == "mpi":  # whoever ends first aborts the job
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()


def ends() -> None:
    """Node 1 leaves after three rounds."""
    net = connect(ring(size()))

    def rounds() -> None:
        with net:
            for k in range(3 if net.node == 1 else 5):
                net.at(k)(torch.ones(10))

    tell(rounds)


def fails() -> None:
    """Node 1 has an error that its program handles."""
    net = connect(ring(size()))

    def fail() -> None:
        with net:
            for _ in range(5):
                net(torch.ones(10))
                if net.node == 1:
                    raise ZeroDivisionError("node 1 has a bug")

    with suppress(ZeroDivisionError):
        tell(fail)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "beside" in sys.argv:
        dsgt.networks.peers.is_hidden = lambda transport: True
        dsgt.networks.peers.BACKGROUND_FROM = dsgt.buffers.LARGE_BYTES = 1
    scenarios = (peaceful, dies, raises, hangs, absent, differs, ends, fails)
    {scenario.__name__: scenario for scenario in scenarios}[sys.argv[2]]()
