"""Who is faster when: a training step of four nodes on one machine, over slow links, and over long ones.

    python benchmarks/links.py [here] [1gbit] [100mbit] [latency]

Multilayer perceptrons with 407 thousand and 3.3 million parameters, 32 samples a node and step, one thread a node. DDP
is torch's DistributedDataParallel with SGD; Decent-DP on its ring where it is installed (pip install decent-dp==0.2.3).
All take turns, a few steps each; medians, and in brackets the ratio to DDP.

``here``: processes of this machine. CPU milliseconds of all four nodes and all their threads together, which is what a
step takes where there are fewer cores than work, and a busy machine hits all alike. Messages go through the sockets of
torch.distributed (gloo) as DDP's do; where mpi4py is installed, MPI moves them too, through shared memory.
``1gbit``, ``100mbit``: four machines that are none, network namespaces of this one, each with one cable to a switch,
limited in both directions (tc tbf; iproute2, root). Milliseconds on the wall.
``latency``: cables of 1 Gbit/s and 1 or 10 ms by the virtual clock of ``networks.Clocked``, since not every kernel has
netem; the gradient takes as long as it was measured to, and packing takes no time there.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from timing import goal
from torch import nn

import dsgt
import dsgt.networks.peers
from dsgt import topologies
from dsgt.algorithms.named import method
from dsgt.core import Network, Weights
from dsgt.topologies import Cycle, Fixed

NODES, BATCH, CABLE = 4, 32, "cable"
LAYERS = ((784, 512, 10), (784, 1400, 1530, 10))
HOP = np.roll(np.eye(NODES), 1, axis=1)
RING = Fixed(0.6 * np.eye(NODES) + 0.2 * HOP + 0.2 * HOP.T)
ONE_PEER = Cycle(topologies.one_peer_exponential(NODES))
CONTENDERS: dict[str, tuple[str, Weights]] = {
    "DSGT, ring": ("dsgt", RING),
    "DSGT, one-peer": ("dsgt", ONE_PEER),
    "ATC D-PSGD, ring": ("atc-dpsgd", RING),
    "ATC D-PSGD, one-peer": ("atc-dpsgd", ONE_PEER),
    "D2, ring": ("d2", RING),
    "LEAD, 8 bits, ring": ("lead:compress=quantise:8", RING),
    "BEER, 8 bits, ring": ("beer:compress=quantise:8", RING),
}
SHARED_MEMORY = ("DSGT, ring", "DSGT, one-peer", "ATC D-PSGD, ring", "ATC D-PSGD, one-peer")
"""Those that are measured under MPI too."""
WANTED = {"DSGT, one-peer, MPI": 1.15, "ATC D-PSGD, one-peer, MPI": 0.9}
"""At most, of a step of DDP."""
MPIEXEC = Path(sys.executable).parent / "mpiexec"
ROUNDS = 8
"""By the virtual clock."""


def mlp(layers: Sequence[int]) -> nn.Sequential:
    torch.manual_seed(0)
    parts = [(nn.Linear(a, b), nn.ReLU()) for a, b in itertools.pairwise(layers)]
    return nn.Sequential(*itertools.chain(*parts))


class Step:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer | None, width: int, node: int) -> None:
        self.model, self.optimizer = model, optimizer
        draw = torch.Generator().manual_seed(node)
        self._x, self._y = torch.randn(BATCH, width, generator=draw), torch.randint(10, (BATCH,), generator=draw)

    def __call__(self) -> None:
        if self.optimizer is not None:
            self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(self._x), self._y).backward()
        if self.optimizer is not None:
            self.optimizer.step()

    def settle(self) -> None:
        """What is still on its way belongs to this step."""
        if isinstance(self.optimizer, dsgt.Optimizer):
            dsgt.settle(self.optimizer._state)
        for sent in getattr(self.model, "_comm_ops", ()):
            if sent is not None:
                sent.wait()


Networks: TypeAlias = dict[Weights, Network]


def steps(layers: Sequence[int], networks: Networks, shared: Networks, node: int) -> dict[str, Step]:
    plain = mlp(layers)
    ddp = nn.parallel.DistributedDataParallel(mlp(layers))
    found = {"the gradient": Step(plain, torch.optim.SGD(plain.parameters(), lr=0.0), layers[0], node)}
    found["DDP"] = Step(ddp, torch.optim.SGD(ddp.parameters(), lr=1e-3), layers[0], node)
    if importlib.util.find_spec("decent_dp"):
        from decent_dp.ddp import DecentralizedDataParallel
        from loguru import logger

        logger.disable("decent_dp")
        found["Decent-DP, ring"] = Step(
            DecentralizedDataParallel(
                mlp(layers), lambda named: torch.optim.SGD([p for _, p in named], lr=1e-3), topology="ring"
            ),
            None,
            layers[0],
            node,
        )

    def decentralized(name: str, networks: Networks) -> Step:
        model, (text, weights) = mlp(layers), CONTENDERS[name]
        optimizer = dsgt.Optimizer(model.parameters(), method(text), networks[weights], lr=1e-3)
        return Step(model, optimizer, layers[0], node)

    found |= {name: decentralized(name, networks) for name in CONTENDERS}
    return found | {f"{name}, MPI": decentralized(name, shared) for name in SHARED_MEMORY if shared}


def be_a_node(turns: int, in_a_row: int) -> None:
    torch.set_num_threads(1)
    shared: Networks = {}
    if "RANK" not in os.environ:  # mpiexec has started it
        shared = {weights: dsgt.networks.MPIPeers(weights) for weights in (RING, ONE_PEER)}
        os.environ["RANK"] = str(shared[RING].node)
    networks: Networks = {weights: dsgt.networks.TorchPeers(weights) for weights in (RING, ONE_PEER)}
    ring = networks[RING]
    for layers in LAYERS:
        acts = steps(layers, networks, shared, ring.node or 0)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in acts}
        for turn in range(turns + 1):
            for name, act in acts.items():
                ring.mean(torch.zeros(1, dtype=torch.float64))  # all begin together
                wall, cpu = time.perf_counter(), time.process_time()
                for _ in range(in_a_row):
                    act()
                act.settle()
                taken = torch.tensor([time.perf_counter() - wall, time.process_time() - cpu], dtype=torch.float64)
                slowest, total = ring.gather(taken).max(dim=0).values, ring.gather(taken).sum(dim=0)
                if turn:
                    times[name].append((float(slowest[0]) / in_a_row, float(total[1]) / in_a_row))
        if ring.node == 0:
            found = {name: [statistics.median(column) for column in zip(*t, strict=True)] for name, t in times.items()}
            print("FOUND" + json.dumps({"m": sum(p.numel() for p in mlp(layers).parameters()), "times": found}))
    for network in (*networks.values(), *shared.values()):
        network.close()


@contextmanager
def machines(rate: str) -> Iterator[list[list[str]]]:
    """What must stand before a command so that each of four machines runs it."""
    names = [f"dsgt-{os.getpid()}-{i}" for i in range(NODES)]
    switch = f"dsgt-{os.getpid()}-switch"
    limit = ("root", "tbf", "rate", rate, "burst", "128kb", "latency", "400ms")
    try:
        for name in (*names, switch):
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        _run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "bridge", "up")
        for i, name in enumerate(names):
            _run(*f"ip link add {CABLE} netns {name} type veth peer name port{i} netns {switch}".split())
            _run(*f"ip -n {name} address add 10.78.0.{i + 1}/24 dev {CABLE}".split())
            _run(*f"ip -n {switch} link set port{i} master bridge".split())
            for where, device in ((name, CABLE), (switch, f"port{i}")):
                _run("ip", "-n", where, "link", "set", device, "up")
                _run("ip", "netns", "exec", where, "tc", "qdisc", "add", "dev", device, *limit)
        yield [["ip", "netns", "exec", name] for name in names]
    finally:
        for name in (*names, switch):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def measured(
    before: Sequence[list[str]], address: str, settings: dict[str, str], options: Sequence[str]
) -> list[dict[str, Any]]:
    """What node 0 of four says, for both models. before: what each process is started by, or mpiexec for all."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = {"OMP_NUM_THREADS": "1", "WORLD_SIZE": str(NODES), "MASTER_ADDR": address, "MASTER_PORT": str(port)}
    jobs = [
        subprocess.Popen(
            [*command, sys.executable, __file__, "--be", *options],
            env=os.environ | here | settings | ({"RANK": str(i)} if len(before) > 1 else {}),
            stdout=subprocess.PIPE,
            text=True,
        )
        for i, command in enumerate(before)
    ]
    said, *_ = [job.communicate()[0] for job in jobs]
    if any(job.returncode for job in jobs):
        raise SystemExit("a node has failed")
    return [json.loads(line[5:]) for line in said.splitlines() if line.startswith("FOUND")]


def virtual(layers: Sequence[int], gradient: float, latency: float) -> dict[str, float]:
    """Seconds of a step by the clock."""
    found, m = {}, sum(p.numel() for p in mlp(layers).parameters())
    everyone: Weights = Fixed(topologies.averaging(NODES))
    for name, (text, weights) in {"DDP": ("sgd", everyone), **CONTENDERS}.items():
        network = dsgt.networks.Clocked(weights, compute=gradient, latency=latency, bandwidth=125e6)
        states = dsgt.iterate(method(text), lambda x, k: x, network, torch.zeros(m), 1e-3)
        began = [network.seconds for _ in itertools.islice(states, 2)][-1]
        for _ in itertools.islice(states, ROUNDS):
            pass
        found[name] = (network.seconds - began) / ROUNDS
    return found


def show(title: str, columns: dict[str, dict[str, float]]) -> None:
    """Milliseconds by name, for every column."""
    table = Table("", *columns, title=title)
    for name in next(iter(columns.values())):
        cells = [f"{1e3 * times[name]:.1f} ({times[name] / times['DDP']:.2f})" for times in columns.values()]
        table.add_row(name, *cells)
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["here", "1gbit", "100mbit", "latency"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="in a turn")
    parser.add_argument("--background", action="store_true", help="a thread moves messages, also where no core is idle")
    parser.add_argument("--be", action="store_true", help="be one node (set by this script itself)")
    given = parser.parse_args()
    if given.background:
        dsgt.networks.peers.is_hidden = lambda transport: True
    if given.be:
        be_a_node(given.turns, given.steps)
        return
    options = ["--turns", str(given.turns), "--steps", str(given.steps), *["--background"] * given.background]
    for part in given.parts:
        if part == "here":
            mpi = [str(MPIEXEC), "--oversubscribe", "-n", str(NODES)]
            root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            before = [mpi] if MPIEXEC.exists() else [[]] * NODES
            rows = measured(before, "127.0.0.1", {"LOCAL_WORLD_SIZE": str(NODES), **root}, options)
            found = {f"m = {row['m']:,d}": {name: cpu for name, (_, cpu) in row["times"].items()} for row in rows}
            show("one machine: CPU ms a step, all nodes together (/ DDP)", found)
            for (name, most), (m, times) in itertools.product(WANTED.items(), found.items()):
                if name in times:
                    goal(f"{name} / DDP, 4 processes, {m}", times[name] / times["DDP"], most=most)
        elif part == "latency":
            alone = {layers: _gradient(layers) for layers in LAYERS}
            cases = list(itertools.product(LAYERS, (1e-3, 1e-2)))
            found = {
                f"{sum(p.numel() for p in mlp(layers).parameters()):,d}, {1e3 * latency:g} ms": virtual(
                    layers, alone[layers], latency
                )
                for layers, latency in cases
            }
            show("by the virtual clock, 1 Gbit/s: ms a step (/ DDP)", found)
        else:
            with machines(part) as before:
                rows = measured(before, "10.78.0.1", {"GLOO_SOCKET_IFNAME": CABLE}, options)
            found = {f"m = {row['m']:,d}": {name: wall for name, (wall, _) in row["times"].items()} for row in rows}
            show(f"cables of {part}: ms a step (/ DDP)", found)


def _gradient(layers: Sequence[int]) -> float:
    torch.set_num_threads(1)
    step = Step(mlp(layers), None, layers[0], 0)
    times = []
    for _ in range(20):
        began = time.process_time()
        step()
        times.append(time.process_time() - began)
    return statistics.median(times)


if __name__ == "__main__":
    main()
