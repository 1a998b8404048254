"""What a node remembers in torch's own form: a table for every parameter, of tensors in its shape.

torch.distributed.checkpoint, Accelerate, Lightning and Hugging Face carry what they find there, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Mix, Network, Pending, Sendable, tensors, value_of

Table = dict[str, Any]
FACTS = ("nodes", "node", "round")
"""Numbers that stand in every table beside the tensors."""


def tables(held: Mapping[str, Tensor], facts: Mapping[str, int], parameters: Sequence[Tensor]) -> list[Table]:
    """For every parameter its part of the flat tensors, which are not copied. What has another length than the model
    stands with the first parameter, one number a parameter with each."""
    made: list[Table] = [{name: facts[name] for name in FACTS} for _ in parameters]
    sizes = [p.numel() for p in parameters]
    for name, value in held.items():
        if value.shape[-1:] == (sum(sizes),):
            for table, part, p in zip(made, value.split(sizes, dim=-1), parameters, strict=True):
                table[name] = part.reshape(value.shape[:-1] + p.shape)
        elif name.startswith("inner."):
            for table, number in zip(made, value, strict=True):
                table[name] = number
        else:
            made[0][name] = value
    return made


def flat(given: Sequence[Table], parameters: Sequence[Tensor]) -> dict[str, Tensor]:
    """The inverse of ``tables``."""
    return {name: _joined(name, given, parameters) for name in given[0] if name not in FACTS}


def _joined(name: str, given: Sequence[Table], parameters: Sequence[Tensor]) -> Tensor:
    parts: list[Tensor] = [table[name] for table in given if name in table]
    if len(parts) < len(parameters):
        return parts[0]
    if all(v.shape[v.ndim - p.ndim :] == p.shape for v, p in zip(parts, parameters, strict=True)):
        flattened = [v.reshape(*v.shape[: v.ndim - p.ndim], -1) for v, p in zip(parts, parameters, strict=True)]
        return torch.cat(flattened, dim=-1)
    return torch.stack(parts) if parts[0].ndim == 0 else parts[0]


def read(state_dict: Mapping[str, Any], groups: Sequence[Table]) -> dict[str, Any]:
    """The entry ``dsgt`` of a state_dict that has lost it, from what stands with the parameters of these groups: they
    are told by their places, whatever they are called there."""
    saved = list(chain.from_iterable(group["params"] for group in state_dict.get("param_groups", ())))
    mine = list(chain.from_iterable(group["params"] for group in groups))
    state = state_dict.get("state", {})
    if len(saved) != len(mine):
        raise ValueError(f"this state_dict is of {len(saved)} parameters, but here there are {len(mine)}")
    trained = [(state.get(key, {}), p) for key, p in zip(saved, mine, strict=True) if p.requires_grad]
    found, parameters = [table for table, _ in trained], [p for _, p in trained]
    if not all(name in table for table in found for name in FACTS):
        raise ValueError(
            "this state_dict was not saved by a dsgt.Optimizer: it has no entry 'dsgt', nor its numbers with every "
            "parameter"
        )
    facts = {name: _one(name, found) for name in FACTS}
    method = state_dict["param_groups"][0].get("method")
    return {"algorithm": method, **facts, "tensors": flat(found, parameters) if facts["round"] else {}}


def _one(name: str, found: Sequence[Table]) -> int:
    said = sorted({int(table[name]) for table in found})
    if len(said) > 1:
        raise ValueError(f"this state_dict holds parts of {name} {' and '.join(map(str, said))}. {SAVE_APART}")
    return said[0]


SAVE_APART = (
    "torch.distributed.checkpoint writes only once what has the same name in all processes: give every node a name of "
    "its own, dcp.save({f'node {network.node}': {'model': ..., 'optimizer': ...}})"
)


class _Silence(Mix):
    """A mixing in which nothing is sent and zeros arrive at once."""

    def __init__(self, real: Mix) -> None:
        self._real = real

    def start(self, v: Sendable) -> Pending:
        return Done(torch.zeros_like(value_of(v)))

    def start_flow(self, v: Sendable) -> Pending:
        return Done(torch.zeros_like(value_of(v)))

    def start_exchange(self, v: Tensor) -> Pending:
        return Done(v.new_zeros(*v.shape[:-2], self.hears.shape[-1], v.shape[-1]))

    @property
    def push(self) -> Mix:
        return _Silence(self._real.push)

    k = property(lambda self: self._real.k)
    nodes = property(lambda self: self._real.nodes)
    rows = property(lambda self: self._real.rows)
    hears = property(lambda self: self._real.hears)
    tells = property(lambda self: self._real.tells)
    weights = property(lambda self: self._real.weights)
    own = property(lambda self: self._real.own)


def blank(algorithm: Algorithm[Any], x: Tensor, network: Network) -> dict[str, Tensor]:
    """What the method will remember, before it has begun: for those who load into tensors that must be there."""
    silence = _Silence(network.round(0, network.weights))
    return {name: v.clone() for name, v in tensors(algorithm.init(torch.zeros_like(x), silence)).items()}
