"""One node of a real network, started by test_every_network under torchrun or mpiexec.

usage: peer_worker.py torch|mpi FOLDER METHOD...: runs these methods on the quadratic of support/cases.py, once through
``iterate`` and once through ``Optimizer`` with a save and load in the middle, and leaves its trajectories in FOLDER.
Four nodes do it a second time, with vectors of any size travelling in the background.
"""

from __future__ import annotations

import copy
import itertools
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import dsgt
from dsgt.core import Network, Pending
from support.cases import CASES, F64, Case, graph, quadratic
from support.launch import HANGING

ROUNDS = 200
LR = 0.02


def waits_later(case: Case) -> bool:
    """Whether the method starts a message and waits for it after the next gradient."""
    state = case.algorithm.init(torch.zeros(1, 1), dsgt.networks.Dense([[1.0]]).at(0))
    return any(isinstance(f, Pending) for f in state)


def network(kind: str, W: object) -> Network:
    return (
        dsgt.networks.TorchPeers(W, timeout=HANGING) if kind == "torch" else dsgt.networks.MPIPeers(W, timeout=HANGING)
    )


def by_iterate(case: Case, net: Network, n: int) -> Tensor:
    problem = quadratic(n)

    def grad(x: Tensor, k: int) -> Tensor:
        return problem.node_gradient(net.node, x, k)

    states = dsgt.iterate(case.algorithm, grad, net, torch.zeros(5, dtype=F64), LR)
    return torch.stack([s.x.clone() for s in itertools.islice(states, ROUNDS + 1)])


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
    for k in range(ROUNDS):
        if k == ROUNDS // 2:
            saved = copy.deepcopy(opt.state_dict())
            model, opt = build()
            opt.load_state_dict(saved)
        batch = dsgt.randomness.integers(len(A), 7, i, k, torch.arange(max(1, len(A) // 2)))
        opt.zero_grad()
        loss = ((model(A[batch]) - b[batch]) ** 2).mean() / 2
        loss.backward()
        opt.step()
        trajectory.append(flat(model))
    return torch.stack(trajectory)


def main(kind: str, folder: Path, names: list[str]) -> None:
    if kind == "torch":
        import torch.distributed as dist

        dist.init_process_group("gloo")
        n = dist.get_world_size()
    else:
        from mpi4py import MPI

        n = MPI.COMM_WORLD.Get_size()
    found: dict[tuple[str, str], list[Tensor]] = {}
    for beside in (False, True)[: 1 + (n == 4)]:
        if beside:
            dsgt.networks.peers.BACKGROUND_FROM = dsgt.buffers.LARGE_BYTES = 1
        for name in names:
            case = CASES[name]
            with network(kind, case.weights(graph(n))) as net:
                found.setdefault((name, "iterate"), []).append(by_iterate(case, net, n))
                sent = net.traffic.mixings
                found.setdefault((name, "optimizer"), []).append(by_optimizer(case, net, n))
                assert sent <= ROUNDS * case.algorithm.sends + 2, (name, sent)
                assert (net._background is not None) == (beside and waits_later(case)), name
    torch.save(found, folder / f"node{net.node}.pt")
    if kind == "torch":
        dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
