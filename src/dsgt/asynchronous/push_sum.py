"""Push-sum over mail: what two asynchronous methods have in common.

A node that wakes often while it hears nothing would give all its weight away, and u / w explodes; and where a neighbour
comes back from an old checkpoint, what was taken from it is taken back, and w may fall below 0. So a node whose weight
is below ``floor`` is *light*: it keeps its x, and neither steps nor gives until enough has come; sum(w) stays n.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dsgt.asynchronous.mail import Mail


def of_all_runs(v: Tensor) -> float:
    """A weight or a clock: it does not depend on the numbers, so it is the same in all runs."""
    return float(v[(0,) * v.ndim])


def is_light(w: Tensor, floor: float) -> bool:
    return of_all_runs(w) < floor


def push(u: Tensor, w: Tensor, mail: Mail) -> tuple[Tensor, Tensor]:
    """(P u + taken, P w + taken), the two in one letter."""
    return _parted(mail.push(joined(u, w)) + mail.take())


def take(u: Tensor, w: Tensor, mail: Mail) -> tuple[Tensor, Tensor]:
    """What has come is added, and nothing given."""
    return _parted(joined(u, w) + mail.take())


def quotient(u: Tensor, w: Tensor, floor: float, x: Tensor) -> Tensor:
    """The model; x, as it was, where the weight is too small to tell."""
    return x if is_light(w, floor) else u / w


def joined(u: Tensor, w: Tensor) -> Tensor:
    """What a node holds."""
    return torch.cat((u, w), dim=-1) if isinstance(u, Tensor) else np.concatenate((u, w), axis=-1)


def _parted(v: Tensor) -> tuple[Tensor, Tensor]:
    return v[..., :-1], v[..., -1:]
