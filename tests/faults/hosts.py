"""Two machines that are none: network namespaces of this one, joined by a cable that can be pulled.

All their traffic stays between them. They go away at the end, whatever happens.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

CABLE = "cable"
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Hosts:
    names: tuple[str, str]
    addresses: tuple[str, str] = ("10.77.0.1", "10.77.0.2")

    def on(self, host: int, *command: str) -> list[str]:
        """A command as that host would run it."""
        return ["ip", "netns", "exec", self.names[host], *command]

    def cut(self) -> None:
        """Pull the cable: nothing arrives any more, and nobody is told."""
        _ip("-n", self.names[0], "link", "set", CABLE, "down")

    def mend(self) -> None:
        _ip("-n", self.names[0], "link", "set", CABLE, "up")


@contextmanager
def two_hosts() -> Iterator[Hosts]:
    number = f"{os.getpid()}-{next(_NUMBERS)}"
    hosts = Hosts((f"dsgt-{number}-a", f"dsgt-{number}-b"))
    try:
        for name in hosts.names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        a, b = hosts.names
        _ip("link", "add", CABLE, "netns", a, "type", "veth", "peer", "name", CABLE, "netns", b)
        for name, address in zip(hosts.names, hosts.addresses, strict=True):
            _ip("-n", name, "address", "add", f"{address}/30", "dev", CABLE)
            _ip("-n", name, "link", "set", CABLE, "up")
        yield hosts
    finally:
        for name in hosts.names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def forbidden() -> str:
    """Why this machine has no such hosts; nothing where it has."""
    try:
        with two_hosts():
            return ""
    except FileNotFoundError:
        return "there is no command ip (iproute2)"
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not allowed: {error.stderr.strip()}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
