"""``dsgt train``: one run of one method; under torchrun or mpiexec every process is a node of it."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from dsgt.asynchronous.named import EVERY
from dsgt.checkpoint import CheckpointError, SaveError, Stopped
from dsgt.commands import options, terminal, train_async
from dsgt.commands.completion import starting
from dsgt.commands.errors import check_seed, tell
from dsgt.commands.progress import Board, tell_spent
from dsgt.commands.tables import run_table
from dsgt.commands.train_job import prepare, write
from dsgt.comparison import Job, Settings
from dsgt.comparison.measured import Row, measurable
from dsgt.core import Algorithm, Network
from dsgt.divergence import DivergedError
from dsgt.networks import NeighbourError
from dsgt.networks.launched import KINDS, Launched, launched
from dsgt.networks.peers import TIMEOUT
from dsgt.problems.base import Problem
from dsgt.text import nearest
from dsgt.theory.diverged import run

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
# mpiexec gives every rank a terminal of its own, also where its output goes to a file
console = terminal.console(force_terminal=False if launched().kind == "mpi" else None)
SILENCE = 4.0
"""Seconds that a process which has nothing to say waits: when one ends, a launcher ends those that still want to."""
JOB = "The job"
BY_HAND = "Asynchronous methods: every node a process, none waits"
EPILOG = (
    "Examples:\n\n- `dsgt train dsgt --nodes 4` simulates four nodes\n"
    "- `torchrun --nproc-per-node 4 --no-python dsgt train dsgt` is the same with four processes\n"
    "- `mpiexec -n 4 dsgt train dsgt --checkpoint-dir runs/mine --resume` can be interrupted and given again"
)


@app.command(epilog=EPILOG)
def train_command(
    method: Annotated[
        str,
        typer.Argument(
            help=f"Which method: {options.NAMES}; or your own, MODULE:NAME.",
            autocompletion=starting(EVERY),
        ),
    ],
    data: options.Data = None,
    model: options.Model = None,
    augment: options.Augment = None,
    statistics: options.Statistics = None,
    dtype: options.Dtype = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            help="How many nodes to simulate; under torchrun or mpiexec as many as there are processes. Default: 12.",
            rich_help_panel=options.EXPERIMENT,
            show_default=False,
        ),
    ] = None,
    partition: options.Partition = None,
    graph: options.Graph = None,
    weights: options.Weights = None,
    epochs: options.Epochs = None,
    budget: options.Budget = None,
    batch: options.Batch = None,
    data_dir: options.DataDir = None,
    weight_decay: options.WeightDecay = None,
    momentum: options.Momentum = None,
    schedule: options.Schedule = None,
    lr: Annotated[float, typer.Option(help="The learning rate.", rich_help_panel=options.EXPERIMENT)] = 0.1,
    seed: Annotated[
        int, typer.Option(help="Of the shards, the start and the batches.", rich_help_panel=options.EXPERIMENT)
    ] = 0,
    evaluations: options.Evaluations = None,
    tests: options.Tests = None,
    eval_samples: options.EvalSamples = None,
    node_accuracy: options.NodeAccuracy = None,
    config: options.Config = None,
    checkpoint_dir: Annotated[
        Path | None, typer.Option(help="Where the run is saved; one folder for all, or one each.", rich_help_panel=JOB)
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Rounds between two checkpoints. Default: a tenth of all.", rich_help_panel=JOB)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint, if there is one.", rich_help_panel=JOB)
    ] = False,
    backend: Annotated[
        str | None,
        typer.Option(
            help=f"One of: {', '.join(KINDS)}. Default: as this process was started.",
            autocompletion=starting(KINDS),
            rich_help_panel=JOB,
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds that a node waits for a neighbour.", rich_help_panel=JOB)
    ] = TIMEOUT,
    loss_limit: Annotated[
        float, typer.Option(help="A loss above which the run is stopped as diverged.", rich_help_panel=JOB)
    ] = math.inf,
    peers: Annotated[
        Path | None, typer.Option(help="The peers.toml of a job that is started by hand.", rich_help_panel=BY_HAND)
    ] = None,
    secret: Annotated[
        Path | None,
        typer.Option(help="The file of this node's secret, which says its number.", rich_help_panel=BY_HAND),
    ] = None,
    node: Annotated[
        int | None, typer.Option(help="This node's number, where peers.toml has no keys.", rich_help_panel=BY_HAND)
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Node i writes what happens to it to RECORD.i.", rich_help_panel=BY_HAND)
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Where settings and metric rows go.", rich_help_panel=options.OUTPUT)
    ] = Path("runs/train"),
) -> None:
    """Train with one method: every process of torchrun or mpiexec is a node, and talks to its neighbours only.

    Every process is given the same flags, holds its own part of the data, and computes what the simulator computes for
    its node. Without a launcher all nodes are simulated in this process.
    """
    given = {
        "data": data, "model": model, "nodes": nodes, "partition": partition, "graph": graph, "weights": weights,
        "epochs": epochs, "budget": budget, "batch": batch, "data_dir": data_dir, "evaluations": evaluations,
        "tests": tests,
        "augment": augment, "statistics": statistics, "dtype": dtype, "weight_decay": weight_decay,
        "momentum": momentum, "schedule": schedule, "eval_samples": eval_samples, "node_accuracy": node_accuracy,
    }  # fmt: skip
    run_options: dict[str, Any] = {
        "loss_limit": loss_limit, "checkpoint_dir": checkpoint_dir, "checkpoint_every": checkpoint_every,
        "resume": resume,
    }  # fmt: skip
    here = launched()
    try:
        check_seed(seed)
        _check(backend, timeout, **run_options)
        here = launched(backend)
        flags = {key: value for key, value in given.items() if value is not None}
        settings = options.settled(config, flags)
        places = train_async.Places(peers, secret, node, record, out)
        if train_async.is_asynchronous(method):
            return _nobody_waits(settings, method, lr, seed, here, places, timeout, run_options)
        if any(value is not None for value in places[:-1]):
            raise ValueError(
                f"--peers, --secret, --node and --record are for asynchronous methods ({', '.join(ASYNCHRONOUS)}), but "
                f"{method} is not one of them; start it with torchrun or mpiexec"
            )
        job = _job(settings, method, lr, seed, here)
        job.settings.check_method(job.method)
        W, rule = job.settings.weights_for(job.method)
        network = here.connect(W, timeout=timeout)
    except (ValueError, OSError, ImportError) as error:
        _end(error, 2, said_by=here.rank == 0)
    try:
        with network:
            ended = _train(job, here, network, rule, out, run_options)
    except (NeighbourError, SaveError, DivergedError) as error:  # each node tells its own
        _end(error, 1)
    except KeyboardInterrupt as interrupt:
        _end("stopped; nothing was saved: give --checkpoint-dir to be able to go on", 130, cause=interrupt)
    if isinstance(ended, Stopped):
        raise ended
    if ended is not None:
        _end(ended, 1 if isinstance(ended, DivergedError) else 2, said_by=here.rank == 0)


def _nobody_waits(
    given: dict[str, Any],
    method: str,
    lr: float,
    seed: int,
    here: Launched,
    places: train_async.Places,
    timeout: float,
    run_options: dict[str, Any],
) -> None:
    """Each node ends by itself, and tells its own troubles."""
    if not math.isinf(run_options.pop("loss_limit")):
        raise ValueError("--loss-limit is for synchronous methods, whose nodes measure the loss together; leave it out")
    try:
        train_async.train(console, given, method, lr, seed, here, places, timeout=timeout, **run_options)
    except (NeighbourError, DivergedError) as error:
        _end(error, 1)
    except KeyboardInterrupt as interrupt:
        kept = run_options["checkpoint_dir"] is not None
        how = "give the command again with --resume" if kept else "give --checkpoint-dir to be able to come back"
        _end(f"stopped; the others go on: {how}", 130, cause=interrupt)


def _check(
    backend: str | None,
    timeout: float,
    loss_limit: float,
    checkpoint_dir: Path | None,
    checkpoint_every: int | None,
    resume: bool,
) -> None:
    """Flags that are wrong whatever the others are."""
    if backend is not None and backend not in KINDS:
        raise ValueError(nearest(backend, KINDS, "backend"))
    if not timeout > 0:
        raise ValueError(f"timeout is {timeout:g}; give the seconds to wait for a neighbour, above 0")
    if not loss_limit > 0:
        raise ValueError(f"loss-limit is {loss_limit:g}; give the loss above which the run has diverged, above 0")
    if checkpoint_every is not None and checkpoint_every < 1:
        raise ValueError(f"checkpoint-every is {checkpoint_every}; it counts rounds, from 1 on")
    if checkpoint_dir is None and (resume or checkpoint_every is not None):
        raise ValueError("--resume and --checkpoint-every need a folder: give --checkpoint-dir")


def _job(given: dict[str, Any], method: str, lr: float, seed: int, here: Launched) -> Job:
    if here.size is not None:
        if given.get("nodes", here.size) != here.size:
            raise ValueError(
                f"nodes is {given['nodes']}, but this job has {here.size} process{'es' * (here.size != 1)}, and each "
                f"of them is a node: start {given['nodes']} of them, or leave --nodes out"
            )
        given = given | {"nodes": here.size}
    settings = Settings.of(given | {"methods": [method], "lrs": [lr]})
    return Job(settings, settings.methods[0], lr, seed)


def _train(
    job: Job, here: Launched, network: Network, rule: str, out: Path, run_options: dict[str, Any]
) -> Exception | Stopped | None:
    """Run it. What ends all nodes at once is returned, so that they leave the network in peace."""
    first = here.rank == 0
    try:
        problem = prepare(job, network, out)
        job.settings.check_oracle(problem, job.method, network.node)
        rounds = job.settings.rounds(problem, job.method)
        every, seldom = job.settings.every(rounds)
        timeless = measurable(problem, nodes=job.settings.node_accuracy, every=seldom, last=rounds)
        del timeless["virtual_seconds"]  # real nodes have no such clock
        if first:
            about = f"{job.method}, {rule} weights, lr {job.lr:g}, seed {job.seed}, {rounds} rounds"
            about += _memory(job.settings.with_rounds(job.method), problem)
            console.print(f"{_where(here, network.nodes)}: {about}", highlight=False, soft_wrap=True)
        rows: list[Row] = []
        with Board(console, shown=first) as board:

            def watch(row: Row) -> None:
                rows.append(row)
                board.bar(job, "round", row["round"], rounds, f"loss {row['loss']:.4g}")
                board.line(f"round {row['round']} of {rounds}, loss {row['loss']:.4g}")

            try:
                found = run(
                    job.settings.with_rounds(job.method),
                    problem,
                    network,
                    rounds=rounds,
                    lr=job.settings.rate(job.lr, rounds),
                    every=every,
                    metrics=timeless,
                    seed=job.seed,
                    watch=watch,
                    **run_options,
                )
            except DivergedError as error:
                rows.append({"round": error.k, "loss": math.inf, "diverged": True})
                raise
            finally:
                if first and rows:
                    write(job, here, out, rows)
    except SaveError:
        raise
    except DivergedError as error:
        if not error.everywhere and network.node is not None:
            raise
        return error
    except (ValueError, CheckpointError, Stopped) as error:
        return error
    if first:
        console.print(run_table(job, rule, rows[-1]))
        tell_spent(console, [found.spent])
        console.print(f"The rows are in {out / 'rows.jsonl'}.", highlight=False, soft_wrap=True)
    return None


def _where(here: Launched, nodes: int) -> str:
    if here.kind == "simulator":
        return f"Simulating {nodes} nodes in this process (torchrun or mpiexec make real ones of them)"
    return f"{nodes} nodes, a process each, under {'torchrun' if here.kind == 'torch' else 'mpiexec'}"


def _memory(algorithm: Algorithm[Any], problem: Problem) -> str:
    """What an oracle will keep, before it is allocated."""
    keeps = algorithm.asks.keeps
    if not keeps:
        return ""
    size = keeps * problem.dim * problem.start(0).element_size() / 1e6
    return f"; a node keeps {keeps} x {problem.dim} numbers for its gradients, {size:.3g} MB"


def _end(error: object, code: int, *, said_by: bool = True, cause: BaseException | None = None) -> NoReturn:
    if said_by:
        tell(console, error)
    else:
        time.sleep(SILENCE)
    raise typer.Exit(code) from cause
