"""One node of asynchronous jobs, as a process of its own: a recorded run of each method, then a life with ASY-SONATA;
or a life with one method, disturbed, killed and stopped by others until they have seen enough.

    async_worker.py FOLDER NODE methods | NAME
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

from dsgt import randomness
from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from dsgt.asynchronous.node import Node
from dsgt.asynchronous.peers import AsyncPeers
from dsgt.asynchronous.real import RealNode
from dsgt.asynchronous.recorded import Recorder, path_of
from dsgt.topologies import metropolis, ring

NODES, DIM, SAMPLES, BATCH, SEED = 4, 20, 40, 4, 5
W = metropolis(ring(NODES))
WAKES = {0: 40, 1: 12, 2: 40, 3: 40}
"""Node 1 is slower, and wakes less often in the same time."""
CENTRES = torch.linspace(-1, 2, NODES * DIM, dtype=torch.float64).reshape(NODES, DIM)
CURVATURES = torch.tensor([1.0, 0.5, 2.0, 1.5], dtype=torch.float64)[:, None]
OPTIMUM = (CURVATURES * CENTRES).sum(0) / CURVATURES.sum()


def stochastic(i: int, x: Tensor, k: int) -> Tensor:
    """Of logistic regression on a batch that is drawn from (node, k)."""
    data = torch.from_numpy(torch.arange(SAMPLES * DIM, dtype=torch.float64).numpy() + 1000 * i).sin().float()
    features = data.reshape(SAMPLES, DIM)
    rows = randomness.integers(SAMPLES, SEED, i, k, torch.arange(BATCH))
    a, sign = features[rows], 2.0 * (rows % 2) - 1
    return -(sign / (1 + torch.exp(sign * (a @ x)))) @ a / BATCH


def exact(i: int, x: Tensor) -> Tensor:
    return CURVATURES[i] * (x - CENTRES[i])


def recorded(folder: Path, name: str, node: int) -> None:
    """The models after every wake are in the record, and the last one in a file."""
    about = {"peers": folder / name / "peers.toml", "secret": folder / name / f"node-{node}.secret"}
    peers = AsyncPeers(W, **about, timeout=300)
    recorders: list[Recorder] = []

    def prepared(made: Node) -> None:
        recorders.append(Recorder(path_of(folder / name / "run.log", node), made, {"method": name}))

    one = peers.take_part(ASYNCHRONOUS[name](), torch.zeros(DIM), lambda k: 0.1, seed=SEED, prepared=prepared)
    one.start()
    for k in range(WAKES[node]):
        g = stochastic(node, one.node.point, k)
        time.sleep(0.004 if node == 1 else 0.0002)  # so that letters are heard at all sorts of moments
        one.wake(g)
    one.finish()
    recorders[0].close(whole=True)
    result(folder / name, node, one)


def result(folder: Path, node: int, one: RealNode) -> None:
    about = {"sent": one.sent, "heard": one.heard, "refused": one.refused, "turned_away": one.turned_away}
    (folder / f"result-{node}.json").write_text(json.dumps(about))
    torch.save(one.node.saved(), folder / f"saved-{node}.new")
    (folder / f"saved-{node}.new").replace(folder / f"saved-{node}.pt")


def lr_and_goal(name: str) -> tuple[float, Tensor]:
    """Methods that are exact find the optimum; of the others, which here only mix, the mean of all starts is asked."""
    return (0.3 if name == "asy-sonata" else 0.1, OPTIMUM) if ASYNCHRONOUS[name].exact else (0.0, CENTRES.mean(0))


def start_of(name: str, node: int) -> Tensor:
    return torch.zeros(DIM, dtype=torch.float64) if ASYNCHRONOUS[name].exact else CENTRES[node].clone()


def life(folder: Path, name: str, node: int) -> None:
    """Until somebody says that it is enough; killed and started again, it returns from its own checkpoint."""
    peers = AsyncPeers(W, peers=folder / "peers.toml", secret=folder / f"node-{node}.secret", timeout=300)
    lr, goal = lr_and_goal(name)
    one = peers.take_part(
        ASYNCHRONOUS[name](), start_of(name, node), lambda k: lr,
        checkpoint_dir=folder / "checkpoints", checkpoint_every=8, resume=True,
    )  # fmt: skip
    one.start()
    while not (folder / "enough").exists():
        point, k = one.node.point, one.node.mail.k
        g = exact(node, point)
        time.sleep(0.001)
        one.wake(g)
        told(folder, node, k + 1, float((one.node.point - goal).abs().max()))
    one.finish()
    result(folder, node, one)


def told(folder: Path, node: int, k: int, distance: float) -> None:
    """In a file that is whole at every moment."""
    file = folder / f"progress-{node}.new"
    file.write_text(f"{k} {distance}")
    file.replace(folder / f"progress-{node}")


def main(folder: Path, node: int, what: str) -> None:
    torch.set_num_threads(1)
    if what == "methods":
        for name in ASYNCHRONOUS:
            recorded(folder, name, node)
        folder, what = folder / "disturbed", "asy-sonata"
    life(folder, what, node)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
