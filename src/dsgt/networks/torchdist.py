"""One node per process under torchrun: torch.distributed, gloo on CPUs and nccl on GPUs."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dsgt.core import Weights
from dsgt.networks.peers import TIMEOUT, Peers
from dsgt.networks.transport import Failed, Farewell, Request, Requests, Transport
from dsgt.threads import undisturbing_threads
from dsgt.topologies.matrix import MatrixLike

_CHANNELS = itertools.count()
_NUMBER, _PLACE = 12, 19
"""Bits of a tag: gloo takes 31."""
STORE_ANSWERS = 5.0
"""Seconds in which the job's store tells who has ended; a store that is out of reach never answers."""
JOINING = 60.0
"""Seconds that a process may start later than another; longer where ``timeout`` is longer."""


@dataclass(frozen=True)
class _Work(Request):
    work: dist.Work
    blocking: bool
    """gloo stops the process in ``wait``; nccl only orders the stream, and its own watchdog ends what hangs."""

    def finish(self, timeout: float) -> None:
        if self.blocking:
            self.work.wait(timedelta(seconds=timeout))
        else:
            self.work.wait()


class _Collective(Request):
    """A collective operation. gloo runs it in a thread of its own, which lets go of the tensor some time after the
    operation is over; should the interpreter end in between, the process is aborted (pytorch issue 190489). So wait
    for that too."""

    def __init__(self, v: Tensor, group: dist.ProcessGroup, blocking: bool) -> None:
        self._v, self._holders = v, v._use_count()  # type: ignore[attr-defined]
        self._request: _Work | None = _Work(_begun(dist.all_reduce(v, group=group, async_op=True)), blocking)

    def finish(self, timeout: float) -> None:
        assert self._request is not None
        self._request.finish(timeout)
        self._request = None
        patience = time.monotonic() + 1.0
        while self._v._use_count() > self._holders and time.monotonic() < patience:  # type: ignore[attr-defined]
            time.sleep(0)


class TorchTransport(Transport):
    """Every process that torchrun started is a node: rank i is node i. With ``group``, those of this process group are.

    The process group is the running one, or is made (nccl where there is a GPU, else gloo) and ended with the process:
    torch cannot make a second one after the first has ended.
    """

    launcher = "torchrun --nproc-per-node {n} script.py"

    def __init__(
        self, *, timeout: float = TIMEOUT, backend: str | None = None, group: dist.ProcessGroup | None = None
    ) -> None:
        if group is None and not dist.is_initialized():
            _join(backend, timeout)
        group = dist.group.WORLD if group is None else group
        if not isinstance(group, dist.ProcessGroup):  # what new_group gives to those who are not in it
            raise ValueError(
                f"{group!r} was given as a process group; expected one that this process is in, made by "
                "torch.distributed.new_group or DeviceMesh.get_group"
            )
        self._group = group
        """Asked directly: dist.isend and dist.irecv check again, for every message, what is known here."""
        self.node, self.size = dist.get_rank(self._group), dist.get_world_size(self._group)
        self._blocking = self.threads = dist.get_backend(self._group) != "nccl"
        self.device = torch.device("cpu" if self._blocking else f"cuda:{torch.cuda.current_device()}")
        self.beside = _processes_of_this_machine()
        self._channel = next(_CHANNELS)
        self._places: dict[tuple[int, torch.dtype], int] = {}
        self._store = dist.distributed_c10d._get_default_store()

    def exchange(
        self, letters: Mapping[int, Tensor], into: Mapping[int, Tensor], number: int
    ) -> tuple[Requests, Requests]:
        if not (letters or into):
            return {}, {}
        tag = self._tag(next(iter((letters or into).values())), number)
        if self._blocking:
            return (
                {j: _begin(self._group.recv, buffer, j, tag) for j, buffer in into.items()},
                {i: _begin(self._group.send, letter, i, tag) for i, letter in letters.items()},
            )
        # nccl wants all messages of a mixing as one group, and gives one work for it
        group = self._group
        receive = [dist.P2POp(dist.irecv, buffer, None, group, tag, group_peer=j) for j, buffer in into.items()]
        send = [dist.P2POp(dist.isend, letter, None, group, tag, group_peer=i) for i, letter in letters.items()]
        works = dist.batch_isend_irecv(receive + send)
        everything = [_Work(works[min(p, len(works) - 1)], False) for p in range(len(receive) + len(send))]
        return (
            dict(zip(into, everything[: len(receive)], strict=True)),
            dict(zip(letters, everything[len(receive) :], strict=True)),
        )

    def _tag(self, v: Tensor, number: int) -> int:
        """Messages in flight between two nodes have different tags if they differ in their number, in their network or,
        but for one pair in 2^19, in length or dtype. So one of another length is never received: gloo would end the
        process if it is longer, and leave the rest of the buffer as it is if it is shorter."""
        if (place := self._places.get((v.numel(), v.dtype))) is None:
            place = (zlib.crc32(f"{v.numel()} {v.dtype}".encode()) + self._channel) % (1 << _PLACE)
            self._places[v.numel(), v.dtype] = place
        return place << _NUMBER | number % (1 << _NUMBER)

    def all_reduce(self, v: Tensor) -> Request:
        return _Collective(v, self._group, self._blocking)

    def close(self, farewell: Farewell) -> None:
        _in_time(lambda: self._store.set(self._key(self.node), farewell.words))

    def ended(self) -> dict[int, str]:
        def looked_up() -> dict[int, str]:
            keys = {i: key for i in range(self.size) if self._store.check([key := self._key(i)])}
            return {i: self._store.get(key).decode() for i, key in keys.items()}

        return _in_time(looked_up) or {}

    def _key(self, node: int) -> str:
        """Where the job's store keeps what a node said when it closed this network."""
        start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return f"dsgt/ended/{start}/{self._group.group_name}/{self._channel}/{node}"


def _in_time(ask: Callable[[], Any]) -> Any:
    """What the job's store answers, or None where it does not: it may be on a machine that has died or is cut off, and
    then a question to it never returns. So it is asked in a thread."""
    answers: list[Any] = []

    def asked() -> None:
        with suppress(RuntimeError):  # the store may have ended before this node
            answers.append(ask())

    asking = threading.Thread(target=asked, name="dsgt-store", daemon=True)
    asking.start()
    asking.join(STORE_ANSWERS)
    return answers[0] if answers else None


def TorchPeers(
    W: MatrixLike | Weights,
    *,
    timeout: float = TIMEOUT,
    backend: str | None = None,
    group: dist.ProcessGroup | None = None,
) -> Peers:
    """Every process that torchrun started is a node; rank i is node i of W.

    The process group is the running one, or is made (nccl where there is a GPU, else gloo) and ended with the process.
    With ``group`` only its processes are nodes: where several processes make one node (``Optimizer(..., inside=)``), a
    group has one process of each. Every node must build its networks in the same order.
    """
    return Peers(W, TorchTransport(timeout=timeout, backend=backend, group=group), timeout=timeout)


def _begin(send_or_receive: Callable[..., dist.Work], v: Tensor, peer: int, tag: int) -> Request:
    try:
        return _Work(send_or_receive([v], peer, tag), True)
    except RuntimeError as error:  # gloo refuses at once where it has lost the connection already
        return Failed(error)


def _begun(work: dist.Work | None) -> dist.Work:
    assert work is not None, "this process is not a member of the process group"
    return work


def _join(backend: str | None, timeout: float) -> None:
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise RuntimeError(
            f"TorchPeers makes this process one node of many, but {', '.join(missing)} is not set: start the script "
            "with torchrun --nproc-per-node N script.py"
        )
    if torch.cuda.is_available() and backend != "gloo":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backend = backend or ("nccl" if torch.cuda.is_available() else "gloo")
    joining = timedelta(seconds=max(timeout, JOINING))
    with undisturbing_threads():  # gloo's own, which move messages
        store = _store_of_this_start(joining)
        if store is None:
            dist.init_process_group(backend, timeout=joining)
        else:
            rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            dist.init_process_group(backend, timeout=joining, store=store, rank=rank, world_size=world)
    atexit.register(_leave)


def _processes_of_this_machine() -> int | None:
    """How many torchrun has started, if it has started all of them here."""
    here, everywhere = os.environ.get("LOCAL_WORLD_SIZE"), os.environ.get("WORLD_SIZE")
    return int(here) if here is not None and here == everywhere else None


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def exchange_words(words: str, *, timeout: float = TIMEOUT) -> list[str]:
    """What each process of torchrun's job says, by rank, through the job's store; all must call it, as often."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    joining = timedelta(seconds=max(timeout, JOINING))
    store = dist.distributed_c10d._get_default_store() if dist.is_initialized() else _store_of_this_start(joining)
    if store is None:
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = dist.TCPStore(address, port, world, is_master=rank == 0, timeout=joining)  # type: ignore[attr-defined]
        _kept.append(store)  # the others may ask it later
    number = next(_CHANNELS)
    store.set(f"dsgt/words/{number}/{rank}", words)
    return [store.get(f"dsgt/words/{number}/{i}").decode() for i in range(world)]


_kept: list[Any] = []


def _store_of_this_start(timeout: timedelta) -> Any:
    """torchrun keeps one store over all its restarts, so that a restarted node may read the address of a dead one
    (pytorch issue 135712). On one machine the number of the restart tells them apart. Machines count their restarts
    each for itself, so over several of them start torchrun with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1."""
    environ = os.environ
    shared = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if not shared or environ.get("LOCAL_WORLD_SIZE") != environ["WORLD_SIZE"]:
        return None
    address, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
    store = dist.TCPStore(address, port, is_master=False, timeout=timeout)  # type: ignore[attr-defined]
    number = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"dsgt/{number}", store)  # type: ignore[attr-defined]
