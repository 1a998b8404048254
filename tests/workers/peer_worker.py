"""One node of real networks, started by test_every_network under torchrun or mpiexec.

usage: peer_worker.py torch|mpi FOLDER SIZES METHOD...: runs these methods on the quadratic of support/cases.py, once
through ``iterate`` and once through ``Optimizer`` with a save and load in the middle, and leaves its trajectories in
FOLDER. SIZES, such as 6,4,2, are numbers of nodes: the first processes that were started are a network of their own for
each of them. Four nodes do it a second time, with vectors of any size travelling in the background.
"""

from __future__ import annotations

import copy
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

import dsgt
from dsgt.core import Gradient, Network, Pending
from support.cases import COMPOSED, F64, WALKED, Case, graph, quadratic
from support.launch import HANGING

WAYS = [
    (name, way)
    for name, case in WALKED.items()
    for way in ("iterate", "optimizer")
    if way == "iterate" or set(case.algorithm.asks.wants) <= {"gradient", "full"}
]
"""An optimizer knows no parts of a node's samples."""
ROUNDS = 30
LR = 0.02


def rounds_of(case: Case) -> int:
    return ROUNDS if case.patience == 1 else ROUNDS // 2


def waits_later(case: Case) -> bool:
    """Whether the method starts a message and waits for it after the next gradient."""
    state = case.algorithm.init(torch.zeros(1, 1), dsgt.networks.Dense([[1.0]]).at(0))
    return any(isinstance(f, Pending | tuple) for f in state)


Connect = Callable[[object], Network]


@contextmanager
def world(kind: str, n: int, folder: Path) -> Iterator[Connect | None]:
    """The first n processes: how each of them connects; None for the rest."""
    if kind == "mpi":
        from mpi4py import MPI

        everyone = MPI.COMM_WORLD
        comm = everyone.Split(0 if everyone.Get_rank() < n else MPI.UNDEFINED, everyone.Get_rank())
        yield None if comm == MPI.COMM_NULL else lambda W: dsgt.networks.MPIPeers(W, timeout=HANGING, comm=comm)
        return
    import torch.distributed as dist

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if rank >= n:
        yield None
        return
    meeting = "env://" if n == size else f"file://{folder / f'meeting{n}'}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=n)
    yield lambda W: dsgt.networks.TorchPeers(W, timeout=HANGING)
    dist.destroy_process_group()


def by_iterate(case: Case, net: Network, n: int) -> Tensor:
    states = dsgt.iterate(case.algorithm, quadratic(n, l2=case.l2).local(net.node), net, torch.zeros(5, dtype=F64), LR)
    return torch.stack([s.x.clone() for s in itertools.islice(states, rounds_of(case) + 1)])


class TwoParts(nn.Module):
    """a'x with x in two parameters, so that the flat vector has something to join."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(2, dtype=F64))
        self.second = nn.Parameter(torch.zeros(3, 1, dtype=F64))

    def forward(self, A: Tensor) -> Tensor:
        return A[:, :2] @ self.first + (A[:, 2:] @ self.second)[:, 0]


def by_optimizer(case: Case, net: Network, n: int) -> Tensor:
    problem, i = quadratic(n), net.node
    A, b = problem.A[i], problem.b[i]

    def build() -> tuple[nn.Module, dsgt.Optimizer]:
        model = TwoParts()
        return model, dsgt.Optimizer(model.parameters(), case.algorithm, net, lr=LR, samples=len(A))

    def flat(model: nn.Module) -> Tensor:
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

    model, opt = build()
    trajectory = [flat(model)]
    for k in range(rounds_of(case)):
        if k == rounds_of(case) // 2:
            saved = copy.deepcopy(opt.state_dict())
            model, opt = build()
            opt.load_state_dict(saved)
        batch = dsgt.randomness.integers(len(A), 7, i, k, torch.arange(max(1, len(A) // 2)))

        def closure(rows: Tensor | slice = batch, model: nn.Module = model, opt: dsgt.Optimizer = opt) -> Tensor:
            opt.zero_grad()
            loss = ((model(A[rows]) - b[rows]) ** 2).mean() / 2
            loss.backward()
            return loss

        if type(case.algorithm.asks) is Gradient:
            closure()
            opt.step()
        else:
            opt.step(closure, full=partial(closure, slice(None)))
        trajectory.append(flat(model))
    return torch.stack(trajectory)


def walks(connect: Connect, n: int, names: list[str], folder: Path, *, beside: bool) -> None:
    """This node's path with every method, into a file."""
    found = {}
    for name in names:
        case = WALKED[name]
        with connect(case.weights(graph(n))) as net:
            found[name, "iterate"] = by_iterate(case, net, n)
            sent, sent_bytes = net.traffic.mixings, net.traffic.bytes
            if (name, "optimizer") in WAYS:
                found[name, "optimizer"] = by_optimizer(case, net, n)
            found[name, "bytes"] = torch.tensor(sent_bytes)
            if name in COMPOSED:  # which may mix with nobody in a round, or several times
                continue
            assert sent <= rounds_of(case) * case.algorithm.sends + 2, (name, sent)
            assert (net._background is not None) == (beside and waits_later(case)), name
    torch.save(found, folder / f"{n} nodes, node {net.node}{', in the background' * beside}.pt")


def main(kind: str, folder: Path, sizes: list[int], names: list[str]) -> None:
    usual = dsgt.networks.peers.BACKGROUND_FROM, dsgt.buffers.LARGE_BYTES
    for n in sizes:
        with world(kind, n, folder) as connect:
            if connect is None:
                continue
            walks(connect, n, names, folder, beside=False)
            if n == 4:
                dsgt.networks.peers.is_hidden = lambda transport: True
                dsgt.networks.peers.BACKGROUND_FROM = dsgt.buffers.LARGE_BYTES = 1
                walks(connect, n, names, folder, beside=True)
                dsgt.networks.peers.BACKGROUND_FROM, dsgt.buffers.LARGE_BYTES = usual


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], Path(sys.argv[2]), [int(n) for n in sys.argv[3].split(",")], sys.argv[4:])
