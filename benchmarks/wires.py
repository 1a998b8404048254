"""What docs/compression.md says of real links: the bytes that pass, and how long a step takes over a slow one.

    python benchmarks/wires.py [bytes | step]

Two machines that are none, network namespaces of this one joined by a cable (iproute2, root), with a torchrun and one
node each; a model of a million float32 numbers.
``bytes``: what a node's sockets have brought to the other side, as the kernel counts it (``ss -i``), and what has left
through the cable with headers and acknowledgements in packets of 1500 bytes, beside ``traffic.bytes``.
``step``: how long a step takes where the cable carries 100 Mbit/s (tc tbf), and how much of it this node computes; on a
busy machine it then waits for a core as well. They take turns; medians.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import dsgt
from dsgt.algorithms.named import method
from dsgt.core import Network
from faults.hosts import CABLE, Hosts, forbidden, two_hosts
from support.launch import environment, free_port

M = 1_000_000
METHODS = {
    "DSGT": "dsgt",
    "BEER, top-k 1 %": "beer:compress=top-k:0.01",
    "BEER, 4 bits": "beer:compress=quantise:4",
    "LEAD, 4 bits": "lead",
    "CHOCO, top-k 1 %": "choco:compress=top-k:0.01",
}
ROUNDS, TURNS = 20, 15
RATE = "100mbit"


class Step:
    """One node's training step, whose gradient costs nearly nothing."""

    def __init__(self, name: str, network: Network) -> None:
        self.parameter = nn.Parameter(torch.zeros(M))
        self.optimizer = dsgt.Optimizer([self.parameter], method(METHODS[name]), network, lr=0.1)
        self.target = torch.randn(M, generator=torch.Generator().manual_seed(network.node or 0))

    def __call__(self) -> None:
        self.parameter.grad = self.parameter.detach() - self.target
        self.optimizer.step()

    def settle(self) -> None:
        """Wait for the messages that are still on their way."""
        dsgt.settle(self.optimizer._state)


def left_by_sockets() -> int:
    """What has arrived, so that nothing counts twice."""
    shown = subprocess.run(["ss", "-tinH"], check=True, capture_output=True, text=True).stdout
    return sum(map(int, re.findall(r"bytes_acked:(\d+)", shown)))


def left_by_cable() -> int:
    return int(Path(f"/sys/class/net/{CABLE}/statistics/tx_bytes").read_text())


def together(network: Network) -> None:
    network.mean(torch.zeros(1, dtype=torch.float64))


def be_counted(network: Network) -> None:
    for name in METHODS:
        step = Step(name, network)
        step()  # the model in full, and the connections
        step.settle()
        together(network)
        before = network.traffic.bytes, left_by_sockets(), left_by_cable()
        for _ in range(ROUNDS):
            step()
        step.settle()
        together(network)
        after = network.traffic.bytes, left_by_sockets(), left_by_cable()
        said(network, name, [b - a for a, b in zip(before, after, strict=True)])


def be_timed(network: Network) -> None:
    steps = {name: Step(name, network) for name in METHODS}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for turn in range(TURNS + 1):
        for name, step in steps.items():
            together(network)
            began, busy = time.perf_counter(), time.process_time()
            step()
            step.settle()
            if turn:
                times[name].append((time.perf_counter() - began, time.process_time() - busy))
    for name, found in times.items():
        said(network, name, [statistics.median(column) for column in zip(*found, strict=True)])


def said(network: Network, name: str, values: list[float]) -> None:
    if network.node == 0:
        print("ROW" + json.dumps([name, *values]), flush=True)


def rows(hosts: Hosts, part: str) -> list[list[float]]:
    """What node 0 of a job over both hosts says."""
    there = f"--master-addr={hosts.addresses[0]}", f"--master-port={free_port()}"
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", *there]
    with ExitStack() as stack:
        jobs = []
        for host in (0, 1):
            job = subprocess.Popen(
                hosts.on(host, *command, f"--node-rank={host}", str(Path(__file__).resolve()), part, "--be"),
                env=environment() | {"GLOO_SOCKET_IFNAME": CABLE},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.callback(job.wait)
            stack.callback(job.terminate)
            jobs.append(job)
        out = jobs[0].communicate()[0]
        other = jobs[1].communicate()[0]
    if any(job.returncode for job in jobs):
        raise SystemExit(out + other)
    return [json.loads(line[3:]) for line in out.splitlines() if line.startswith("ROW")]


def on_both(hosts: Hosts, *command: str) -> None:
    for host in (0, 1):
        subprocess.run(hosts.on(host, *command), check=True)


def count(hosts: Hosts) -> Table:
    # the kernel would count a bundle of up to 64 kB as one packet with one header
    on_both(hosts, "ip", "link", "set", CABLE, "gso_max_segs", "1")
    table = Table("", "traffic.bytes a round", "sockets, of it", "cable, of it", title="bytes that leave a node")
    for name, counted, sockets, cable in rows(hosts, "bytes"):
        table.add_row(f"{name}", f"{counted / ROUNDS:,.0f}", f"{sockets / counted:.4f}", f"{cable / counted:.4f}")
    return table


def clock(hosts: Hosts) -> Table:
    on_both(hosts, "tc", "qdisc", "add", "dev", CABLE, "root", "tbf", "rate", RATE, "burst", "64kb", "latency", "400ms")
    found = rows(hosts, "step")
    table = Table("", "milliseconds a step", "computing", "times as fast as DSGT", title="a step over 100 Mbit/s")
    for name, seconds, busy in found:
        table.add_row(f"{name}", f"{1e3 * seconds:.0f}", f"{1e3 * busy:.0f}", f"{found[0][1] / seconds:.1f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="bytes | step", default=["bytes", "step"])
    parser.add_argument("--be", action="store_true", help="be one node (set by this script itself)")
    given = parser.parse_args()
    if given.be:
        torch.set_num_threads(1)
        with dsgt.networks.TorchPeers([[0.6, 0.4], [0.4, 0.6]]) as network:
            {"bytes": be_counted, "step": be_timed}[given.parts[0]](network)
        return
    if why := forbidden():
        raise SystemExit(f"not measured: {why}")
    for part in given.parts:
        with two_hosts() as hosts:
            Console(width=100).print({"bytes": count, "step": clock}[part](hosts))


if __name__ == "__main__":
    main()
