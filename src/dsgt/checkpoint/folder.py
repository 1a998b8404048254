"""A folder of checkpoints, without a server: every process writes its own part, and all agree on what is whole.

A checkpoint of round k counts only where every node has its part. Nobody writes that down: a save ends with the nodes
telling each other whether they succeeded, and a load begins with the nodes telling each other which rounds they have.
So the folder may be shared, or each node may have its own.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from dsgt.checkpoint.part import CheckpointError, CheckpointWarning, DamagedError, DifferentError, Part, read, write
from dsgt.core import Network
from dsgt.networks.agreement import any_node, gather_numbers, gather_text

_NAME = re.compile(r"round-(\d{9,15})-node-(\d{1,9}|all)-of-(\d{1,9})\.safetensors")
_SLOTS = 64
"""How many rounds a node can tell the others about."""


class SaveError(CheckpointError, OSError):
    """A checkpoint could not be written at some node; the ones before are untouched."""


def save(
    folder: str | Path,
    tensors: Mapping[str, Tensor],
    *,
    k: int,
    network: Network,
    settings: Mapping[str, Any],
    extra: Mapping[str, Any] | None = None,
    keep: int = 3,
) -> Path:
    """Save this process's part of the checkpoint after k rounds, then drop all but the last ``keep``.

    All nodes must call it at once. If it fails at one node it fails at all, with SaveError, and the checkpoints before
    stay as they are. ``settings`` and ``extra`` go into JSON.
    """
    if not 1 <= keep < _SLOTS:
        raise ValueError(f"keep is {keep}; expected to keep 1 to {_SLOTS - 1} checkpoints")
    folder, problem = Path(folder), None
    path = folder / _name(k, network)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(path, Part(k, network.node, network.nodes, settings, extra or {}, tensors))
    except OSError as error:
        problem = error
    if any_node(network, problem is not None):
        with suppress(OSError):
            path.unlink(missing_ok=True)
        node, reason = _first(network, "" if problem is None else str(problem))
        where = f" at node {node}" if network.node is not None else ""
        raise SaveError(f"the checkpoint of round {k} could not be written to {folder}{where}: {reason}") from problem
    for old in _mine(folder, network)[keep:]:
        _drop(folder / _name(old, network))
    return path


def load(folder: str | Path, *, network: Network, settings: Mapping[str, Any]) -> Part | None:
    """This process's part of the newest checkpoint that every node has whole; None where there is none.

    All nodes must call it at once. Damaged parts are passed over with a warning. A checkpoint of a run with other
    settings is refused with DifferentError. Parts newer than the one loaded are dropped: the run will write them again.
    """
    folder = Path(folder)
    refusal, whole = None, []
    try:
        whole = _whole(folder, network, settings)
    except DifferentError as error:
        refusal = error
    told = gather_numbers(network, [refusal is not None, *whole[:_SLOTS], *[-1] * (_SLOTS - len(whole))]).tolist()
    if any(row[0] for row in told):
        raise DifferentError(_first(network, "" if refusal is None else str(refusal))[1]) from refusal
    common = set.intersection(*({int(k) for k in row[1:] if k >= 0} for row in told))
    agreed = max(common, default=-1)
    found = sorted({int(k) for row in told for k in row[1:] if k > agreed})
    if found:
        _warn(
            f"round {found[-1]} is not whole on every node; "
            + (f"going back to round {agreed}" if common else "there is none before, so the run starts over")
        )
    for k in _mine(folder, network):
        if k > agreed:
            _drop(folder / _name(k, network))
    for stale in folder.glob(_name(0, network).replace("round-000000000", "round-*") + "*.tmp"):
        _drop(stale)
    any_node(network, False)  # nobody goes on while somebody still has a part of a future that may come out differently
    return read(folder / _name(agreed, network)) if common else None


def latest(folder: str | Path) -> int | None:
    """The newest round of which every part is here and whole; None where there is none. For a shared folder."""
    try:
        return parts_of(folder, ())[0]
    except FileNotFoundError:
        return None


def parts_of(folder: str | Path, without: Collection[int]) -> tuple[int, list[Part]]:
    """The newest round of which every part is here and whole, but for the nodes without, and its parts in order."""
    rounds: dict[tuple[int, int], list[Path]] = {}
    for path in _files(Path(folder)):
        k, node, nodes = _parsed(path)
        if node is None or node not in without:
            rounds.setdefault((k, nodes), []).append(path)
    for (k, nodes), paths in sorted(rounds.items(), reverse=True):
        try:
            parts = sorted((read(path) for path in paths), key=lambda part: part.node or 0)
        except CheckpointError as error:
            _warn(f"{error}; passing it over")
            continue
        wanted = [None] if parts[0].node is None else [i for i in range(nodes) if i not in without]
        alike = all((p.k, p.nodes, p.settings.get("W")) == (k, nodes, parts[0].settings.get("W")) for p in parts)
        if alike and [p.node for p in parts] == wanted:
            return k, parts
    raise FileNotFoundError(f"{folder} holds no checkpoint of which every part is whole")


def in_use(folder: str | Path) -> bool:
    """Whether this process's folder holds checkpoints already."""
    return bool(_files(Path(folder)))


def _whole(folder: Path, network: Network, settings: Mapping[str, Any]) -> list[int]:
    """The rounds of which this process has its part, whole and of this run, newest first."""
    for path in _files(folder):
        _, node, nodes = _parsed(path)
        if nodes != network.nodes or (node is None) != (network.node is None):
            here = "all nodes in one process" if network.node is None else "a process for every node"
            there = "all nodes in one process" if node is None else "a process for every node"
            raise DifferentError(
                f"{path} is of a network of {nodes} nodes with {there}, but here there are {network.nodes} nodes with "
                f"{here}; resume on the same network, or use another folder"
            )
    whole = []
    for k in _mine(folder, network):
        path = folder / _name(k, network)
        try:
            part = read(path)
            if (part.k, part.node, part.nodes) != (k, network.node, network.nodes):
                raise DamagedError(path, f"it was written as {_name(part.k, network)}, or for another node")
        except DamagedError as error:
            _warn(f"{error}; passing it over")
            continue
        _same(path, part.settings, settings)
        whole.append(k)
    return whole


def _same(path: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    for key in [*here, *sorted({*there} - {*here})]:  # what says most comes first
        if there.get(key) != here.get(key):
            raise DifferentError(
                f"{path} was saved with {key} = {there.get(key)}, but here it is {here.get(key)}; resume with the same "
                "settings, or use another folder"
            )


def _name(k: int, network: Network) -> str:
    return f"round-{k:09d}-node-{'all' if network.node is None else network.node}-of-{network.nodes}.safetensors"


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except OSError:
        return []


def _parsed(path: Path) -> tuple[int, int | None, int]:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    k, node, nodes = match.groups()
    return int(k), None if node == "all" else int(node), int(nodes)


def _mine(folder: Path, network: Network) -> list[int]:
    """The rounds of which there is a file of this process's part, newest first."""
    found = [_parsed(path) for path in _files(folder)]
    return sorted((k for k, node, nodes in found if (node, nodes) == (network.node, network.nodes)), reverse=True)


def _drop(path: Path) -> None:
    with suppress(OSError):  # an old file that stays does no harm
        path.unlink(missing_ok=True)


def _first(network: Network, text: str) -> tuple[int, str]:
    """The first node that has something to say, and what."""
    return next(((i, said) for i, said in enumerate(gather_text(network, text)) if said), (0, "it did not say why"))


def _warn(message: str) -> None:
    warnings.warn(message, CheckpointWarning, stacklevel=3)
