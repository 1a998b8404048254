"""Least squares over parts of shards, each factored once: after that every equation is two small products.

    A_j sqrt(w) = U S V',    so    (own I + weight w A_j' A_j)^-1 = V diag(1 / (own + weight S^2)) V'

for any own and weight, and 1 / own in the directions that no sample of the part has. V is as large as the part itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dsgt.data.parts import Parts
from dsgt.problems.inverse import Number, column


@dataclass(frozen=True, eq=False)
class Factored:
    """The q parts of every node here, stacked: n is 1 on a real node."""

    V: Tensor
    """(n, q, k, m), with rows of zeros where a part has fewer than k samples."""
    S2: Tensor
    """(n, q, k): the squares of the singular values, that is, the curvatures of a part without its penalty."""
    c: Tensor
    """(n, q, m): w A' t."""
    complete: Tensor
    """(n, q, 1): whether the samples of a part have all directions."""
    lead: tuple[int, ...]

    def solved(self, r: Tensor, j: Tensor, own: Number, weight: Number) -> Tensor:
        """own x + weight (A_j' A_j x - A_j' t) w = r."""
        at = torch.arange(len(self.V), device=j.device), j.reshape(-1)
        V, S2 = self.V[at], self.S2[at]
        a, b = (column(number, r) for number in (own, weight))
        rhs = r.view(len(V), -1) + b * self.c[at]
        along = (V @ rhs[..., None])[..., 0]
        x = ((along / (a + b * S2))[:, None] @ V)[:, 0]
        rest = (rhs - (along[:, None] @ V)[:, 0]) / a  # in the directions that the part does not have
        return torch.where(self.complete[at], x, x + rest).view(r.shape)

    def lowest(self) -> Tensor:
        """The lowest curvature of a node with q = 1, (..., 1); 0 where it is not above rounding."""
        if self.V.shape[-2] < self.V.shape[-1]:
            return self.c.new_zeros(*self.lead, 1)
        high, low = self.S2[..., 0], self.S2.amin(dim=-1)
        rounding = self.V.shape[-1] * torch.finfo(low.dtype).eps * high
        return torch.where(low > rounding, low, 0.0).view(*self.lead, 1)

    def highest(self) -> Tensor:
        """The highest curvature of every part, (..., q)."""
        return self.S2.amax(dim=-1).view(*self.lead, -1)


def factored(rows: Tensor, targets: Tensor, parts: Parts, q: int, w: float, lead: tuple[int, ...]) -> Factored:
    """Of the parts of these samples, each of which counts w."""
    V, S2, c = [], [], []
    for j in range(q):
        which, counts = parts.ragged(torch.full((*lead, 1), j, device=rows.device))
        for samples in which.split(counts.tolist()):
            A = rows[samples]
            _, S, Vh = torch.linalg.svd(A, full_matrices=False)
            V.append(Vh)
            S2.append(w * S.square())
            c.append(w * (A.mT @ targets[samples]))

    def stacked(tensors: list[Tensor]) -> Tensor:
        """Node after node, filled up with zeros."""
        longest = max(len(t) for t in tensors)
        full = [torch.cat([t, t.new_zeros(longest - len(t), *t.shape[1:])]) for t in tensors]
        return torch.stack(full).view(q, -1, *full[0].shape).transpose(0, 1).contiguous()

    complete = [torch.tensor([len(s) == rows.shape[1]], device=rows.device) for s in S2]
    return Factored(stacked(V), stacked(S2), stacked(c), stacked(complete), lead)
