"""One node of runs that are interrupted and resumed, started by test_resume under torchrun or mpiexec.

usage: resume_worker.py torch|mpi FOLDER: every method, undisturbed and interrupted, must end with the same bits.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import dsgt
from dsgt.core import Around, Network
from support.cases import CASES, graph
from support.interrupted import equal, go, interrupted, trained
from support.launch import HANGING


def main(kind: str, folder: Path) -> None:
    if kind == "torch":
        import torch.distributed as dist

        dist.init_process_group("gloo")
        n, peers = dist.get_world_size(), dsgt.networks.TorchPeers
    else:
        from mpi4py import MPI

        n, peers = MPI.COMM_WORLD.Get_size(), dsgt.networks.MPIPeers
    for name, case in CASES.items():
        W = case.weights(graph(n))
        with peers(W, timeout=HANGING) as network:
            expected = go(case, network, n)
        # an error in a with block ends an MPI job, so the networks of the interrupted run are left open
        networks: list[Network] = []

        def connect(W: object = W, networks: list[Network] = networks) -> Network:
            networks.append(Open(peers(W, timeout=HANGING)))
            return networks[-1]

        assert equal(interrupted(case, connect, n, folder / name), expected), name
        for network in networks:
            network.close()
    with peers(CASES["dsgt"].weights(graph(n)), timeout=HANGING) as network:
        expected = trained(network, None, 11)
        for steps in (6, 9, 11):
            found = trained(network, folder / "optimizer", steps)
        for key, value in expected.state_dict().items():
            assert torch.equal(value, found.state_dict()[key]), key
    if kind == "torch":
        dist.destroy_process_group()


class Open(Around):
    """A network that an error does not close."""

    def __exit__(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], Path(sys.argv[2]))
