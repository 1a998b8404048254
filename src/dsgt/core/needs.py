"""What a method asks of the weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Needs:
    """What a method asks of every W it is given. rho < 1, so that the network agrees at all, is asked by everyone."""

    rows: bool = True
    """Each row sums to 1: equal models stay equal."""
    columns: bool = True
    """Each column sums to 1: mixing keeps the sum."""
    mean_columns: bool = False
    """Where W is random, columns sum to 1 in the mean only: a method that remembers no sum may lose messages."""
    symmetric: bool = False
    floor: float | None = None
    """The smallest eigenvalue must lie above it."""
    average: bool = False
    """W is 1/n everywhere."""
    static: bool = False
    """W must not change from round to round."""
    graph: Literal["any", "tree", "complete"] = "any"
    """tree: no circle of links. complete: everybody hears everybody, in some round at least."""
    rooted: bool = False
    """Messages need not get both ways between all nodes: somebody reaches all in W, and is reached by all in the second
    matrix."""
    push: Needs | None = None
    """What is asked of the second matrix, where the method uses one."""

    def __str__(self) -> str:
        if self.push is not None:
            return f"{replace(self, push=None)}; second matrix {self.push}"
        if self.average:
            return "W = 1/n everywhere"
        kind = {(True, True): "doubly", (True, False): "row", (False, True): "column"}[self.rows, self.columns]
        words = ["static"] * self.static + ["symmetric"] * self.symmetric + [f"{kind} stochastic"]
        words = [f"{self.graph} graph,"] * (self.graph != "any") + ["rooted"] * self.rooted + words
        if self.floor is not None:
            words[-1] += f", smallest eigenvalue > {self.floor:.3g}"
        return " ".join(words)
