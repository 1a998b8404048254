"""Where the processes of an asynchronous method find each other: in a peers.toml, or through torchrun's store."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from dsgt.asynchronous import saved
from dsgt.asynchronous.core import AsyncAlgorithm, Rate
from dsgt.asynchronous.letters import Form
from dsgt.asynchronous.mail import Links
from dsgt.asynchronous.node import Node
from dsgt.asynchronous.real import ABSENT, RealNode
from dsgt.checkpoint import fingerprint
from dsgt.core import Weights
from dsgt.networks.peers import TIMEOUT
from dsgt.networks.roster import HERE, Roster, read_roster
from dsgt.networks.torchdist import exchange_words
from dsgt.networks.zeromq import Keys, Mailbox
from dsgt.topologies.changing import as_weights
from dsgt.topologies.matrix import MatrixLike
from dsgt.topologies.needs import check


class AsyncPeers:
    """This process is one node of many, and none waits for another.

    With ``peers``, a peers.toml, processes are started by hand, in any order and on any machine; ``secret`` is the file
    of this node's key (``dsgt peers init`` makes both). Without, torchrun started them: they tell each other through
    its store where they listen, and by which key, made for this run, they know each other.

    W are the weights, two matrices (``topologies.TwoMatrices``) where the method pulls and pushes with different ones.
    ``timeout``: seconds that a node waits for a neighbour at the beginning and at the end, in between nobody waits.
    """

    def __init__(
        self,
        W: MatrixLike | Weights,
        *,
        peers: str | Path | Roster | None = None,
        secret: str | Path | None = None,
        node: int | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self.weights, self.timeout = as_weights(W), timeout
        self.nodes = self.weights.nodes
        self._roster: Roster | None = None
        if isinstance(peers, Roster):
            self._roster = peers
        elif peers is not None:
            self._roster = read_roster(Path(peers), secret=None if secret is None else Path(secret), node=node)
        elif secret is not None or node is not None:
            raise ValueError("a secret or a node was given without peers; give the peers.toml that it belongs to")
        there = self._roster
        self.node, size = (there.node, len(there.peers)) if there is not None else _launched()
        if size != self.nodes:
            raise ValueError(
                f"the weights have {self.nodes} nodes, but there are {size} processes, each of them a node"
            )

    def take_part(
        self,
        algorithm: AsyncAlgorithm[Any],
        x0: Tensor,
        lr: Rate,
        *,
        seed: int = 0,
        job: str = "",
        checkpoint_dir: Path | None = None,
        checkpoint_every: int | None = None,
        resume: bool = False,
        prepared: Callable[[Node[Any]], None] | None = None,
    ) -> RealNode:
        """This process's node, which listens and has not started yet.

        job: whatever else all nodes must have in common. With ``checkpoint_dir`` it saves itself every so many wakes,
        and with ``resume`` it comes back from there, if it has been there. ``prepared`` is shown the node before."""
        check(type(algorithm).__name__, algorithm.needs, self.weights)
        node = Node(algorithm, Links.of(self.weights, self.node), x0, lr, seed=seed)
        kind = f"{str(x0.dtype).removeprefix('torch.')} {x0.numel()}"
        words = " ".join([fingerprint.method(algorithm), kind, f"seed {seed}", fingerprint.weights(self.weights), job])
        phase, save = ABSENT, None
        if checkpoint_dir is not None:
            path = saved.path_of(checkpoint_dir, self.node, self.nodes)
            if resume and path.exists():
                phase = saved.load(path, node, nodes=self.nodes, job=words)
            elif path.exists():
                raise ValueError(f"{path} is there already; resume from it, or give another folder")
            save = partial(_save, path, node, self.nodes, words)
        if prepared is not None:
            prepared(node)
        form = Form.of(algorithm, x0)
        post = self._listen(form.longest, {*node.mail.links.tells, *node.mail.links.listens})
        return RealNode(
            node, form, post, job=words, timeout=self.timeout, save=save, save_every=checkpoint_every, phase=phase
        )

    def _listen(self, longest: int, neighbours: set[int]) -> Mailbox:
        if self._roster is not None:
            there = self._roster
            box = Mailbox(there.peers[self.node].address, there.keys, longest=longest)
            known = [(peer.address, peer.key) for peer in there.peers]
        else:
            keys = Keys.new()
            box = Mailbox(f"tcp://{_own_host()}:*", keys, longest=longest)
            told = exchange_words(f"{box.address} {keys.public}", timeout=self.timeout)
            known = [(address, key) for address, _, key in (words.partition(" ") for words in told)]
        box.join({j: known[j] for j in sorted(neighbours)})
        return box


def _save(path: Path, node: Node[Any], nodes: int, job: str, phase: int) -> None:
    saved.save(path, node, nodes=nodes, job=job, phase=phase)


def _launched() -> tuple[int, int]:
    environ = os.environ
    if "RANK" not in environ or "WORLD_SIZE" not in environ:
        raise ValueError(
            "this process was not started by torchrun, and no peers were given: start it with torchrun "
            "--nproc-per-node N, or give the peers.toml that dsgt peers init makes"
        )
    return int(environ["RANK"]), int(environ["WORLD_SIZE"])


def _own_host() -> str:
    """Where the job's other machines reach this one: the address from which it reaches torchrun's store."""
    environ = os.environ
    if environ.get("LOCAL_WORLD_SIZE") == environ["WORLD_SIZE"]:
        return HERE
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # nothing is sent
        probe.connect((environ["MASTER_ADDR"], int(environ["MASTER_PORT"])))
        host: str = probe.getsockname()[0]
        return host
