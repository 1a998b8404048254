"""``dsgt train`` with a method in which nobody waits: this process is one node, whatever the others do."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from torch import Tensor

from dsgt._version import __version__
from dsgt.algorithms.named import with_parameters
from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from dsgt.asynchronous.core import AsyncAlgorithm, check_carried
from dsgt.commands.progress import Board
from dsgt.comparison import Settings
from dsgt.core import Weights
from dsgt.networks.launched import Launched
from dsgt.problems.base import Problem
from dsgt.problems.named import loads_parts
from dsgt.topologies.usable import usable_weights


class Plan(NamedTuple):
    """A job as all its nodes must understand it."""

    settings: Settings
    method: str
    algorithm: AsyncAlgorithm[Any]
    weights: Weights
    rule: str
    lr: float
    seed: int

    @property
    def about(self) -> dict[str, Any]:
        alike = {"data", "model", "augment", "nodes", "partition", "graph", "weights", "epochs", "budget", "batch"}
        alike |= {"weight_decay", "eval_samples"}
        settings = self.settings.model_dump(mode="json", include=alike, exclude_none=True)
        return {"method": self.method, "lr": self.lr, "seed": self.seed, "dsgt": __version__, "settings": settings}

    def problem(self) -> Problem:
        return self.settings.problem(self.seed)


class Places(NamedTuple):
    """What a user says of processes and files."""

    peers: Path | None
    secret: Path | None
    node: int | None
    record: Path | None
    out: Path


def is_asynchronous(method: str) -> bool:
    return method.partition(":")[0] in ASYNCHRONOUS


def planned(given: dict[str, Any], method: str, lr: float, seed: int) -> Plan:
    """The same at all nodes; a ValueError says what is wrong with it."""
    name = method.partition(":")[0]
    algorithm = with_parameters(ASYNCHRONOUS[name], name, method)
    settings = Settings.of(given | {"methods": ["sgd"], "lrs": [lr]})  # of these only the problem and the network count
    if loads_parts(settings.data):
        raise ValueError(
            f"the data {settings.data!r} are loaded node by node, which dsgt train does with synchronous methods only; "
            "use dsgt.AsyncOptimizer in a script of your own"
        )
    if settings.momentum or settings.schedule != "constant":
        raise ValueError(
            f"momentum is {settings.momentum:g} and schedule {settings.schedule}, but nodes of {name} count alone and "
            "take one learning rate; leave --momentum and --schedule out"
        )
    if settings.ends.played:
        raise ValueError(
            f"the budget is {settings.ends}, but real nodes have no virtual clock and count alone; give it in "
            "epochs, rounds or gradients: each node wakes as often"
        )
    weights, rule = usable_weights(name, algorithm.needs, settings.graph, settings.nodes, settings.weights)
    return Plan(settings, method, algorithm, weights, rule, lr, seed)


def train(
    console: Console,
    given: dict[str, Any],
    method: str,
    lr: float,
    seed: int,
    here: Launched,
    places: Places,
    *,
    timeout: float,
    checkpoint_dir: Path | None,
    checkpoint_every: int | None,
    resume: bool,
) -> None:
    from dsgt.asynchronous import job
    from dsgt.asynchronous.peers import AsyncPeers
    from dsgt.networks.roster import read_roster

    roster = None
    if places.peers is not None:
        roster = read_roster(places.peers, secret=places.secret, node=places.node)
    elif here.kind != "torch":
        raise ValueError(
            f"{method} is asynchronous: every node is a process of its own; start it with torchrun --nproc-per-node N "
            "--no-python dsgt train ..., or give --peers peers.toml (dsgt peers init makes it)"
        )
    size = len(roster.peers) if roster is not None else here.size
    if given.get("nodes", size) != size:
        raise ValueError(f"nodes is {given['nodes']}, but this job has {size} processes; leave --nodes out")
    plan = planned(given | {"nodes": size}, method, lr, seed)
    peers = AsyncPeers(plan.weights, peers=roster, timeout=timeout)
    problem = plan.problem()
    check_carried(problem)
    wakes = plan.settings.rounds(problem, plan.settings.methods[0])
    every = max(1, wakes // plan.settings.evaluations)
    speaks = roster is not None or peers.node == 0
    places.out.mkdir(parents=True, exist_ok=True)
    if speaks:
        where = "encrypted" if roster is None or roster.keys is not None else "in the open, on this machine"
        _say(
            console,
            f"Node {peers.node} of {peers.nodes}, {where}: {method}, {plan.rule} weights, lr {lr:g}, {wakes} wakes",
        )
    rows = places.out / f"rows-{peers.node}.jsonl"
    label = {"method": method, "lr": lr, "seed": seed, "node": peers.node}
    with Board(console, shown=speaks) as board, rows.open("a" if resume else "w") as file:

        def watch(k: int, seconds: float, x: Tensor) -> None:
            board.bar("wakes", "wake", k, wakes)
            if k % every and k < wakes:
                return
            loss = float(problem.loss(x))
            row = label | {"wake": k, "seconds": round(seconds, 3), "loss": loss if math.isfinite(loss) else None}
            file.write(json.dumps(row) + "\n")
            file.flush()
            board.line(f"wake {k} of {wakes}, loss {loss:.4g}")

        one = job.train(
            plan.algorithm, problem, peers, wakes=wakes, lr=lr, seed=seed, about=plan.about, record=places.record,
            watch=watch, checkpoint_dir=checkpoint_dir, checkpoint_every=checkpoint_every or max(1, wakes // 10),
            resume=resume,
        )  # fmt: skip
    if speaks:
        loss = float(problem.loss(plan.algorithm.model(one.node.state)))
        turned = one.turned_away
        strange = f" {turned} connections were turned away." if turned else ""
        strange += f" Refused: {dict(one.refused)}." if one.refused else ""
        _say(
            console,
            f"Node {peers.node} ends with the loss {loss:.4f} of its model on all samples; {one.sent} letters sent, "
            f"{one.heard} heard.{strange} The rows are in {rows}.",
        )
        if places.record is not None:
            _say(console, f"dsgt replay {places.record} does it again, where the records of all nodes are.")
    sys.stdout.flush()


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
