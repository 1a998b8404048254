"""As many steps at every node, however many batches each has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

from dsgt.core import Network
from dsgt.networks.agreement import gather_numbers

UNKNOWN = -1


def epoch(network: Network, loader: Iterable[Any], steps: int | None = None) -> Iterator[Any]:
    """``steps`` batches, or as many as the longest loader has; a loader that ends before is begun again.

    Where some loader does not know its length, the nodes ask each other before every step whether all have another
    batch, and all end with the first that has none.
    """
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}; expected at least 1")
    length = len(loader) if isinstance(loader, Sized) else UNKNOWN
    lengths = gather_numbers(network, [length, UNKNOWN if steps is None else steps])
    asked = lengths[:, 1]
    if (asked != asked[0]).any():
        raise ValueError(f"the nodes were given different numbers of steps: {asked.long().tolist()}; give all the same")
    if empty := (lengths[:, 0] == 0).nonzero().flatten().tolist():
        raise ValueError(f"the loaders of nodes {empty} have no batch; give every node some data")
    if steps is None and (lengths[:, 0] == UNKNOWN).any():
        return _while_all_have_one(network, loader)
    return _exactly(network, loader, steps or int(lengths[:, 0].max()))


def _exactly(network: Network, loader: Iterable[Any], steps: int) -> Iterator[Any]:
    done = 0
    while done < steps:
        before = done
        for batch in loader:
            yield batch
            done += 1
            if done == steps:
                return
        if done == before:
            raise RuntimeError(f"node {network.node} has ended after {done} steps of {steps}: its loader gave no batch")


def _while_all_have_one(network: Network, loader: Iterable[Any]) -> Iterator[Any]:
    batches = iter(loader)
    nothing = object()
    while True:
        batch = next(batches, nothing)
        if bool(gather_numbers(network, [batch is nothing]).any()):
            return
        yield batch
