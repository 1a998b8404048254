"""The loop: ``iterate``, a generator of states, and ``run``, the loop plus a table of metrics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias

import torch
from torch import Tensor

from dsgt import engine
from dsgt import metrics as measured
from dsgt.checkpoint import fingerprint
from dsgt.checkpoint.keeper import Folder, Keeper, Progress
from dsgt.core import Algorithm, Local, Network, Oracle, S, Weights, restart_tracking, settle
from dsgt.divergence import Attempt, DivergedError, changed_lr, check_gradient
from dsgt.engine.questions import Questions
from dsgt.measuring import Table, gathered
from dsgt.networks.dense import Dense
from dsgt.problems.base import GradientFunction, Problem
from dsgt.topologies.matrix import MatrixLike
from dsgt.topologies.needs import check

NetworkLike: TypeAlias = "Network | Weights | MatrixLike"
"""Bare weights mean all nodes in this process."""
Schedule: TypeAlias = float | Callable[[int], float]


def as_network(network: NetworkLike) -> Network:
    """A network; bare weights mean all nodes in this process."""
    return network if isinstance(network, Network) else Dense(network)


def as_schedule(lr: Schedule) -> Callable[[int], float]:
    """k -> learning rate, every value checked; a wrong constant is refused before any work."""
    given = lr if callable(lr) else lambda k: lr

    def checked(k: int) -> float:
        value = given(k)
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"lr is {value} in round {k}; a learning rate is a finite number above 0")
        return float(value)  # a number of NumPy's would decide the precision of what it multiplies

    constant = checked(0)
    return checked if callable(lr) else lambda k: constant


def as_start(x0: Tensor, network: Network) -> Tensor:
    """x0 as this process's tensor: a model (m,) that all nodes share, or one row per node (n, m)."""
    if not x0.is_floating_point():
        raise TypeError(f"x0 has dtype {x0.dtype}, but a model is real: use x0.float() or x0.double()")
    if x0.ndim == 1:
        return x0.expand(*network.lead, -1).clone()
    if x0.ndim == 2 and x0.shape[0] == network.nodes:
        return x0.clone() if network.node is None else x0[network.node].clone()
    raise ValueError(
        f"x0 has shape {tuple(x0.shape)}, but the network has {network.nodes} nodes: give one model (m,) for all, "
        f"or one row per node ({network.nodes}, m)"
    )


def iterate(
    algorithm: Algorithm[S],
    grad: GradientFunction | Local,
    network: NetworkLike,
    x0: Tensor,
    lr: Schedule,
    *,
    oracle: Oracle[Any] | None = None,
    after: tuple[int, S] | None = None,
    restart_every: int | None = None,
) -> Iterator[S]:
    """The states of a run, for ever: first the initial state, then the state after each round.

    ``grad(x, k)`` gives every node's gradient at its own model in round k: (n, m) -> (n, m) where all nodes live in
    this process, (m,) -> (m,) on a real node; a ``Local``, such as ``problem.local(seed)``, gives more than that.
    ``oracle`` is asked in the place of ``grad``. ``after=(k, state)`` goes on from the state after k rounds instead.
    ``restart_every`` restarts the tracking every so many rounds, for networks that may lose messages or precision.
    """
    algorithm = algorithm if oracle is None else algorithm.asking(oracle)
    network = as_network(network)
    local = grad if isinstance(grad, Local) else Local(grad, _rows(network))
    algorithm, network = prepared(algorithm, network, local)
    _check_begin(algorithm, x0 if after is None else None, restart_every)
    x = as_start(x0, network)
    return _states(algorithm, local, network, x, as_schedule(lr), after, restart_every)


def prepared(algorithm: Algorithm[S], network: Network, local: Local) -> tuple[Algorithm[S], Network]:
    """The method with what it leaves open filled in, and the network that it runs on; wrong weights come out first."""
    place = algorithm.over(network)
    check(type(algorithm).__name__, algorithm.needs, place.weights)
    fitted = algorithm.fitted(place, local)
    return fitted, place if fitted is algorithm else fitted.over(network)


def _rows(network: Network) -> Tensor:
    """The numbers of the nodes that live here, (..., 1)."""
    return torch.arange(network.nodes)[:, None] if network.node is None else torch.tensor([network.node])


def _states(
    algorithm: Algorithm[S],
    local: Local,
    network: Network,
    x: Tensor,
    lr: Callable[[int], float],
    after: tuple[int, S] | None,
    restart_every: int | None,
) -> Iterator[S]:
    begin = after if after is not None else (0, algorithm.init(x, network.at(0)))  # which may send a message
    ask = Questions(algorithm.asks, local, algorithm.point(begin[1]))
    if after is not None and ask.remembers:
        who = "the module" if ask.kept else algorithm.asks
        raise ValueError(
            f"after={after[0]} rounds was given, but {who} remembers more than a state holds; go on from a checkpoint "
            "of dsgt.run instead"
        )
    states = _iterate(algorithm, ask, network, lr, begin, restart_every, looked_at=lambda k: True)
    del x, after, begin  # with a million nodes the memory is wanted
    for _, state in states:
        yield state
        del state  # what nobody holds may be overwritten


def _iterate(
    algorithm: Algorithm[S],
    ask: Questions,
    network: Network,
    lr: Callable[[int], float],
    begin: tuple[int, S],
    restart_every: int | None,
    looked_at: Callable[[int], bool],
) -> Iterator[tuple[int, S]]:
    """(k, the state after k rounds), from ``begin`` on, wherever somebody looks at it."""
    k, state = begin
    rate = None
    rounds = engine.rounds(algorithm, network, state)
    del begin, state  # with a million nodes the memory is wanted
    while True:
        if looked_at(k):
            yield k, rounds.state
        if restart_every is not None and k > 0 and k % restart_every == 0:
            rounds = engine.rounds(algorithm, network, restart_tracking(algorithm, rounds.state, network.at(k)))
        rate, before = lr(k), rate
        changed_lr(algorithm, before, rate)
        x = rounds.point
        g = ask(x, k, rate)
        check_gradient(g, x, network, k, rate, algorithm.diverges)
        del x  # what nobody holds may be overwritten
        network.computed(k, ask.cost)
        rounds.step(g, network.at(k), rate)
        k += 1


class Spent(NamedTuple):
    """Seconds of one process."""

    training: float
    measuring: float

    @property
    def share(self) -> float:
        """Of the time that went into measuring."""
        return self.measuring / max(self.training + self.measuring, 1e-9)


@dataclass(frozen=True)
class Result(Generic[S]):
    """A finished run: the metric rows, one dictionary each, and the last state."""

    rows: list[dict[str, float]]
    state: S
    x: Tensor
    """Every node's model, (n, m): what ``Algorithm.model`` takes from the last state."""
    kept: Mapping[str, Tensor] = field(default_factory=dict)
    """What the nodes remember besides, such as BatchNorm's running statistics: by name, (n, ...)."""
    spent: Spent = field(default=Spent(0.0, 0.0))
    """What time training and measuring took; since it was resumed, if it was."""

    def column(self, name: str) -> list[float]:
        return [row[name] for row in self.rows]


@torch.no_grad()
def run(
    algorithm: Algorithm[S],
    problem: Problem,
    network: NetworkLike,
    *,
    rounds: int,
    lr: Schedule,
    oracle: Oracle[Any] | None = None,
    every: int | None = None,
    metrics: Mapping[str, measured.Metric] = measured.DEFAULT,
    x0: Tensor | None = None,
    seed: int = 0,
    restart_every: int | None = None,
    checkpoint_dir: str | Path | Folder | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    loss_limit: float = math.inf,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> Result[S]:
    """Run a method for some rounds and measure it every ``every`` rounds (by default about a hundred times).

    ``oracle`` says where the method's gradients come from, such as ``dsgt.SAGA(q=10)``; by default they are those of
    the drawn batches.
    ``restart_every`` restarts the tracking every so many rounds, for networks that may lose messages or precision.
    With ``checkpoint_dir`` the run is saved there every ``checkpoint_every`` rounds (by default ten times), at its end,
    and when SIGINT or SIGTERM asks it to stop. With ``resume=True`` it goes on from the newest checkpoint, if there is
    one, and ends bit for bit as if it had never been interrupted.
    A run whose measured loss is above ``loss_limit``, or no finite number, is stopped with ``DivergedError``.
    ``watch`` is given every row as soon as it is measured, to show it or to keep it; those of a checkpoint at once.
    """
    algorithm = algorithm if oracle is None else algorithm.asking(oracle)
    network = as_network(network)
    algorithm = algorithm.shaped([place.shape for place in problem.layout().places])
    _check(problem, network, rounds=rounds, every=every, restart_every=restart_every)
    local = (problem if network.node is None else problem[network.node]).local(seed)
    given = algorithm
    algorithm, network = prepared(algorithm, network, local)
    schedule = as_schedule(lr)
    table = Table(
        algorithm, problem, network, metrics, rounds=rounds, every=every, lr=schedule, limit=loss_limit, watch=watch
    )
    start = problem.start(seed) if x0 is None else x0
    _check_begin(algorithm, start, restart_every)
    keeper = Keeper(checkpoint_dir, every=checkpoint_every, rounds=rounds, network=network)
    first = algorithm.init(as_start(start, network), network.at(0))
    ask = Questions(algorithm.asks, local, algorithm.point(first))
    begin = keeper.begin(
        first,
        memory=ask,
        settings=lambda: (
            _settings(given, problem, network, as_start(start, network), seed) | {"restart_every": restart_every or 0}
        ),
        layout=problem.layout,
        columns=list(metrics),
        resume=resume,
    )
    table.go_on_from(begin.rows)
    del first  # with a million nodes the memory is wanted
    with keeper.listening(), engine.cores_for(network.nodes * problem.dim):
        try:
            states = _iterate(
                algorithm,
                ask,
                network,
                schedule,
                (begin.k, begin.state),
                restart_every,
                looked_at=lambda k: keeper.due(k) or table.due(k),
            )
            seconds = begin.seconds
            del begin  # with a million nodes the memory is wanted
            begun = time.perf_counter()
            state = settle(_follow(states, table, keeper, seconds, ask))
            spent = Spent(time.perf_counter() - begun - table.seconds, table.seconds)
        except DivergedError as error:
            attempt = Attempt(algorithm, problem, network, start, seed)
            raise error.told(where=keeper.where(), attempt=attempt) from error
    return Result(table.rows, state, network.gather(algorithm.model(state)), gathered(ask.kept, network), spent)


def _follow(states: Iterator[tuple[int, S]], table: Table, keeper: Keeper, seconds: float, ask: Questions) -> S:
    """Measure and save a run up to its last round; its last state."""
    resumed = time.perf_counter()
    for k, state in states:
        seconds += time.perf_counter() - resumed
        table.measure(k, state, seconds, ask.work, ask.kept)
        if keeper.is_due:
            keeper.save(Progress(k, state, table.rows, seconds, table.algorithm.model(state)))
        if k == table.rounds:
            return state
        del state  # what nobody holds may be overwritten
        resumed = time.perf_counter()
    raise AssertionError("a run has no end of its own")


def _check(problem: Problem, network: Network, *, rounds: int, every: int | None, restart_every: int | None) -> None:
    """Whatever could be wrong comes out before any work."""
    if rounds < 1 or (every is not None and every < 1) or (restart_every is not None and restart_every < 1):
        raise ValueError(
            f"rounds is {rounds}, every is {every} and restart_every {restart_every}; they count rounds, from 1 on"
        )
    if problem.nodes != network.nodes:
        raise ValueError(
            f"the problem has {problem.nodes} nodes and the network {network.nodes}: partition the data for the network"
        )


def _check_begin(algorithm: Algorithm[S], x0: Tensor | None, restart_every: int | None) -> None:
    """What a method asks of the models that it begins with, and of the rounds in which it begins anew."""
    name = type(algorithm).__name__
    if restart_every is not None and (algorithm.equal_starts or restart_every % algorithm.phase):
        why = (
            "begins with equal models, which those of a run are not: leave it out"
            if algorithm.equal_starts
            else f"works in phases of {algorithm.phase} rounds: give a multiple of {algorithm.phase}"
        )
        raise ValueError(f"restart_every is {restart_every}, but {name} {why}")
    if algorithm.equal_starts and x0 is not None and x0.ndim == 2 and not torch.allclose(x0, x0[:1]):
        raise ValueError(f"x0 holds different models, but {name} needs equal ones: give one model (m,) for all nodes")


def _settings(
    algorithm: Algorithm[S], problem: Problem, network: Network, x: Tensor, seed: int
) -> dict[str, str | int | float]:
    """What makes a run this one. Not the learning rate and the number of rounds: a run may go on with others."""
    settings: dict[str, str | int | float] = {
        "kind": "run",
        "method": fingerprint.method(algorithm),
        "nodes": network.nodes,
        "W": fingerprint.weights(network.weights),
        "problem": type(problem).__name__,
        "samples": problem.samples,
        "epochs_per_round": problem.epochs_per_round,
        "start": fingerprint.start(x),
        "seed": seed,
    }
    for name, value in problem.identity().items():
        settings[name] = fingerprint.values(value) if isinstance(value, Tensor) else value
    return settings
