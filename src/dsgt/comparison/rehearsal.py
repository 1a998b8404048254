"""Two rounds of a person's own method on a few numbers: what is wrong with it comes out before any run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dsgt.core import Algorithm, Gradient, Weights, settle, tensors, without_oracle
from dsgt.networks.dense import Dense

NUMBERS = 5
"""Of the model that is moved."""
EXPECTED = "expected init(self, x, mix) and update(self, s, g, mix, lr), which give a NamedTuple whose first field is x"


def rehearse(name: str, algorithm: Algorithm[Any], weights: Weights) -> None:
    """A ValueError says in a sentence what a run would stumble over, or silently compute from what was written over."""
    method = without_oracle(algorithm)
    network = method.over(Dense(weights))
    x = torch.linspace(-1, 1, network.nodes * NUMBERS, dtype=torch.float64).view(network.nodes, NUMBERS)
    given = x.clone()
    state = _state(name, "init", lambda: method.init(given, network.at(0)), x)
    _unchanged(name, "init", {"x": (x, given)})
    if type(method.asks) is not Gradient:  # whose answers only a problem can give
        return
    for k in range(2):
        held = {n: t.clone() for n, t in tensors(state).items()}
        g = 0.1 * state[0]
        slope = g.clone()
        following = _state(name, "update", partial(method.update, state, g, network.at(k), 0.01), x)
        _unchanged(name, "update", {"g": (slope, g)} | {n: (held[n], t) for n, t in tensors(state).items()})
        state = following


def _state(name: str, where: str, act: Callable[[], Any], x: Tensor) -> Any:
    try:
        made = act()
        made = settle(made) if hasattr(made, "_fields") else made
    except Exception as error:  # whatever a person's own code does
        raise ValueError(
            f"the method {name!r} failed in {where}: {type(error).__name__}: {error}; {EXPECTED}"
        ) from error
    if not hasattr(made, "_fields"):
        raise ValueError(f"the method {name!r} gives a {type(made).__name__} in {where}; {EXPECTED}")
    first = made[0]
    if not isinstance(first, Tensor) or first.shape != x.shape or first.dtype != x.dtype:
        found = f"{first.dtype} {tuple(first.shape)}" if isinstance(first, Tensor) else type(first).__name__
        raise ValueError(
            f"the first field of the state that the method {name!r} gives in {where} is {found}, but the models are "
            f"{x.dtype} {tuple(x.shape)}; {EXPECTED}"
        )
    return made


def _unchanged(name: str, where: str, arguments: dict[str, tuple[Tensor, Tensor]]) -> None:
    if written := [n for n, (before, after) in arguments.items() if not torch.equal(before, after)]:
        raise ValueError(
            f"{where} of the method {name!r} writes into its arguments ({', '.join(written)}), which are used again; "
            "let it make new tensors, as in x - lr * g"
        )
