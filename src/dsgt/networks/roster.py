"""Who takes part in a job that is started by hand: peers.toml, the same file on every machine, and each node's secret.

    [[peer]]
    address = "tcp://10.0.0.1:7000"
    key = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"

The first is node 0. ``key`` is the node's public key; its secret is in a file of its own, which nobody else may read.
Without keys nothing is encrypted, and every address must be on 127.0.0.1.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsgt.networks.zeromq import Keys, is_key
from dsgt.text import nearest

HERE = "127.0.0.1"
LIMIT = 1 << 22
"""Bytes that a reader of peers.toml is willing to read: forty thousand peers."""
NEW = "make both anew with dsgt peers init"


@dataclass(frozen=True)
class Peer:
    """A node of a job: where it listens, and its public key; empty where nothing is encrypted."""

    address: str
    key: str = ""


@dataclass(frozen=True)
class Roster:
    """All nodes of a job, and which of them this process is."""

    peers: tuple[Peer, ...]
    node: int
    keys: Keys | None = None

    def __post_init__(self) -> None:
        check(self.peers)
        if not 0 <= self.node < len(self.peers):
            raise ValueError(f"node is {self.node}, but there are {len(self.peers)} peers, numbered from 0 on")
        own = self.peers[self.node].key
        if own != ("" if self.keys is None else self.keys.public):
            raise ValueError(
                f"the public key of node {self.node} in the list of peers is not that of its secret; {NEW}"
            )


def read_roster(path: Path, *, secret: Path | None = None, node: int | None = None) -> Roster:
    """peers.toml, and this process's place in it: that of its secret, or ``node`` where there are no keys."""
    peers = read_peers(path)
    encrypted = bool(peers[0].key)
    if not encrypted:
        if secret is not None:
            raise ValueError(f"a secret was given, but {path} has no keys; {NEW}")
        if node is None:
            raise ValueError(f"{path} has no keys, so say which of its {len(peers)} nodes this process is: give --node")
        return Roster(peers, node)
    if secret is None:
        raise ValueError(f"{path} has keys, so this process needs the secret of its node: give --secret FILE")
    keys = Keys.of(read_secret(secret))
    mine = next((i for i, peer in enumerate(peers) if peer.key == keys.public), None)
    if mine is None:
        raise ValueError(f"{secret} is not the secret of any of the {len(peers)} nodes of {path}; {NEW}")
    if node not in (None, mine):
        raise ValueError(f"node is {node}, but {secret} is the secret of node {mine}; leave --node out")
    return Roster(peers, mine, keys)


def read_peers(path: Path) -> tuple[Peer, ...]:
    """Those of a peers.toml, checked."""
    if path.stat().st_size > LIMIT:
        raise ValueError(f"{path} is longer than {LIMIT} bytes; a list of peers is three lines a node")
    try:
        table = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    for name in table:
        if name != "peer":
            raise ValueError(f"{path}: {nearest(name, ['peer'], 'table')}")
    entries = table.get("peer")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{path} lists no peers; expected one [[peer]] for each node, with address and key")
    peers = tuple(_peer(path, i, entry) for i, entry in enumerate(entries))
    try:
        check(peers)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return peers


def check(peers: Sequence[Peer]) -> None:
    """Refuse a list that cannot work, or that would send models in the open."""
    if not peers:
        raise ValueError("there are no peers; expected one for each node")
    for i, peer in enumerate(peers):
        host = _host(i, peer.address)
        if peer.key and not is_key(peer.key):
            raise ValueError(f"the key of node {i} is no public key: expected 40 characters of Z85; {NEW}")
        if bool(peer.key) != bool(peers[0].key):
            raise ValueError(f"nodes 0 and {i}: one has a key and one has none; give all of them keys, or none")
        if not peer.key and host != HERE:
            raise ValueError(
                f"node {i} has no key and the address {peer.address}: without keys nothing is encrypted, and only "
                f"{HERE} is allowed; {NEW}"
            )
    for what, values in (("address", [p.address for p in peers]), ("key", [p.key for p in peers if p.key])):
        for i, value in enumerate(values):
            if (first := values.index(value)) != i:
                raise ValueError(f"nodes {first} and {i} have the same {what}; every node needs its own")


def create(folder: Path, addresses: Sequence[str]) -> Path:
    """Make peers.toml and one secret a node in the folder, and nothing where one of them is there already."""
    keys = [Keys.new() for _ in addresses]
    peers = [Peer(address, pair.public) for address, pair in zip(addresses, keys, strict=True)]
    check(peers)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "peers.toml"
    secrets = [folder / f"node-{i}.secret" for i in range(len(peers))]
    for file in (path, *secrets):
        if file.exists() or file.is_symlink():
            raise FileExistsError(f"{file} is there already; give another folder, or remove it with all its secrets")
    for file, pair in zip(secrets, keys, strict=True):
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(pair.secret + "\n")
    path.write_text("".join(f'[[peer]]\naddress = "{p.address}"\nkey = "{p.key}"\n\n' for p in peers).rstrip() + "\n")
    return path


def read_secret(path: Path) -> str:
    """The secret of a file that only its owner may read."""
    with path.open() as file:
        about = os.fstat(file.fileno())  # of the file that is read, whatever the name means a moment later
        if sys.platform != "win32" and about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(
                f"{path} holds a secret, but others may read or write it (mode {stat.S_IMODE(about.st_mode):o}): if "
                f"nobody has, chmod 600 {path}; else {NEW}"
            )
        secret = file.read(100).strip()
    if not is_key(secret):
        raise ValueError(f"{path} holds no secret: expected 40 characters of Z85, as dsgt peers init writes them")
    return secret


def _peer(path: Path, i: int, entry: dict[str, Any]) -> Peer:
    for name, value in entry.items():
        if name not in ("address", "key"):
            raise ValueError(f"{path}, node {i}: {nearest(name, ['address', 'key'], 'entry')}")
        if not isinstance(value, str):
            raise ValueError(f"{path}, node {i}: {name} is {value!r}; expected text in quotes")
    if "address" not in entry:
        raise ValueError(f"{path}, node {i} has no address; expected one such as tcp://{HERE}:7000")
    return Peer(**entry)


def _host(i: int, address: str) -> str:
    found = re.fullmatch(r"tcp://([a-zA-Z0-9.\-]+):([0-9]{1,5})", address)
    if found is None or not 0 < int(found[2]) < 1 << 16:
        raise ValueError(
            f"the address of node {i} is {address!r}; expected tcp://HOST:PORT, where the others reach it, such as "
            f"tcp://{HERE}:7000"
        )
    return found[1]
