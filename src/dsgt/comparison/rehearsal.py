"""Two rounds of a person's own method on a few numbers: what is wrong with it comes out before any run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dsgt.core import Algorithm, Gradient, Weights, settle, tensors, without_oracle
from dsgt.networks.dense import Dense
from dsgt.problems.training import same
from dsgt.source import attributes, value

NUMBERS = 5
"""Of the model that is moved."""
EXPECTED = "expected init(self, x, mix) and update(self, s, g, mix, lr), which give a NamedTuple whose first field is x"


def rehearse(name: str, algorithm: Algorithm[Any], weights: Weights) -> None:
    """A ValueError says in a sentence what a run would stumble over, or silently compute from what was written over."""
    for dtype in (torch.float64, torch.float32):  # a method that makes one of the other is found in one of them
        _rehearse(name, algorithm, weights, dtype)


def _rehearse(name: str, algorithm: Algorithm[Any], weights: Weights, dtype: torch.dtype) -> None:
    method = without_oracle(algorithm)
    given_to = value(attributes(method))
    network = method.over(Dense(weights))
    x = torch.linspace(-1, 1, network.nodes * NUMBERS, dtype=dtype).view(network.nodes, NUMBERS)
    given = x.clone()
    state = _state(name, "init", lambda: method.init(given, network.at(0)), x)
    _unchanged(name, "init", [("x", x, given)])
    if type(method.asks) is not Gradient:  # whose answers only a problem can give
        return
    for k in range(2):
        held = {n: t.clone() for n, t in tensors(state).items()}
        g = 0.1 * state[0]
        slope = g.clone()
        following = _state(name, "update", partial(method.update, state, g, network.at(k), 0.01), x)
        fields = [(f"s.{n}", held[n], t) for n, t in tensors(state).items()]  # a field may be called g too
        _unchanged(name, "update", [("g", slope, g), *fields])
        _alike(name, held, tensors(following))
        state = following
    if value(attributes(method)) != given_to:
        raise ValueError(
            f"the method {name!r} changes its own attributes in init or update, but one object serves many runs, and a "
            "resumed run knows nothing of them; keep what changes in the state"
        )


def _state(name: str, where: str, act: Callable[[], Any], x: Tensor) -> Any:
    try:
        made = act()
        made = settle(made) if hasattr(made, "_fields") else made
    except (Exception, SystemExit) as error:  # whatever a person's own code does
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
    if others := [f"{n} ({type(t).__name__})" for n, t in tensors(made).items() if not isinstance(t, Tensor)]:
        raise ValueError(
            f"the state that the method {name!r} gives in {where} holds {', '.join(others)}; a state is made of "
            "tensors and messages: let it be a tensor, or a parameter of the method"
        )
    if not first.isfinite().all():
        raise ValueError(
            f"the method {name!r} gives an x that is not finite (NaN or infinite) in {where}, from models and "
            "gradients between -1 and 1 with lr = 0.01; look for a division by zero or a factor that is NaN"
        )
    return made


def _alike(name: str, before: dict[str, Tensor], after: dict[str, Tensor]) -> None:
    """A state's fields keep their names, shapes and dtypes, as checkpoints and compiled rounds expect."""
    if before.keys() != after.keys():
        raise ValueError(
            f"update of the method {name!r} gives a state of {', '.join(after)} for one of {', '.join(before)}; let it "
            "have the same fields in every round"
        )
    for field, old in before.items():
        new = after[field]
        if (old.dtype, old.shape) != (new.dtype, new.shape):
            raise ValueError(
                f"update of the method {name!r} makes {field} of the state {new.dtype} {tuple(new.shape)}, but it was "
                f"{old.dtype} {tuple(old.shape)}; keep the dtype and the shape of every field, as they are in init"
            )


def _unchanged(name: str, where: str, arguments: list[tuple[str, Tensor, Tensor]]) -> None:
    if written := [n for n, before, after in arguments if not same(before, after)]:
        raise ValueError(
            f"{where} of the method {name!r} writes into its arguments ({', '.join(written)}), which are used again; "
            "let it make new tensors, as in x - lr * g"
        )
