"""Section 2.3: nodes whose gradients differ without bound. D-PSGD diverges at every step size, DSGT does not.

Node i of a ring of four has f_i(x) = h_i x^2 / 2 with h = (1, 1, -1, -1): non-convex, their sum is 0, and the
difference of two gradients grows like |x|. Every round is linear in X, so what a run must do is an eigenvalue.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from dsgt import topologies
from dsgt.algorithms import ALGORITHMS
from dsgt.divergence import DivergedError
from dsgt.networks import Dense
from dsgt.reproduce import style
from dsgt.reproduce.cases import Row
from dsgt.reproduce.lab import Experiment, Lab, Plan, Tables, records
from dsgt.run import iterate

METHODS = ("dsgt", "d2", "dpsgd", "atc-dpsgd")
CURVATURE = (1.0, 1.0, -1.0, -1.0)


def weights() -> np.ndarray[Any, Any]:
    """Of the ring; lazy, so that D² may use them too."""
    return np.asarray(topologies.lazy_metropolis(topologies.ring(len(CURVATURE))))


def factor(method: str, lr: float) -> float:
    """By how much X grows in a round in the long run, exactly: the largest modulus among the eigenvalues."""
    W, H, one = weights(), np.diag(CURVATURE), np.eye(len(CURVATURE))
    match method:
        case "dpsgd":
            A = W - lr * H
        case "atc-dpsgd":
            A = W @ (one - lr * H)
        case "dsgt":  # of (X, Y), with S = H X
            A = np.block([[W, -lr * W], [H @ (W - one), W - lr * H @ W]])
        case _:  # D², of (X', X)
            A = np.block([[W @ (2 * one - lr * H), W @ (lr * H - one)], [one, 0 * one]])
    return float(np.abs(np.linalg.eigvals(A)).max())


@dataclass(frozen=True)
class Grows:
    """One run from equal models; its rows are how large the nodes' models are."""

    method: str
    lr: float
    rounds: int

    def __call__(self) -> list[Row]:
        h = torch.tensor(CURVATURE, dtype=torch.float64)[:, None]
        states = iterate(
            ALGORITHMS[self.method](), lambda x, k: h * x, Dense(weights()), torch.ones(1, dtype=torch.float64), self.lr
        )
        rows: list[Row] = []
        try:
            for k, state in enumerate(islice(states, self.rounds + 1)):
                if k % max(1, self.rounds // 100) == 0:
                    rows.append({"round": k, "size": float(state.x.abs().max())})
        except DivergedError:
            pass  # beyond all floating-point numbers: the rows end here
        return rows


@dataclass(frozen=True)
class Steps(Plan):
    lrs: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)
    rounds: int = 4000


FULL = Steps()
QUICK = Steps(rounds=1000)


def measure(lab: Lab, plan: Steps) -> Tables:
    curves = lab.table([Grows(method, lr, plan.rounds) for lr in plan.lrs for method in METHODS])
    ends = curves.groupby(["method", "lr"], sort=False).tail(1).reset_index(drop=True)
    return {"curves": curves, "ends": ends.assign(factor=[factor(r["method"], r["lr"]) for r in records(ends)])}


def figure(tables: Tables, plan: Steps) -> Figure:
    picture, panels = style.panels(1, 2)
    for axes, lr in zip(panels, (plan.lrs[0], plan.lrs[-1]), strict=True):
        for method in METHODS:
            some = tables["curves"]
            some = some[(some["method"] == method) & (some["lr"] == lr) & (some["size"] < 1e100)]
            axes.plot(some["round"], some["size"], color=style.COLOURS[method], label=style.NAMES[method],
                      ls=style.LINES.get(method, "-"))  # fmt: skip
        axes.set(xlabel="round", ylabel="largest |x| of a node", yscale="log", title=f"lr {lr:g}")
    panels[0].legend()
    picture.suptitle("f(x) = x²/2 at two nodes of a ring, −x²/2 at the two others")
    return picture


def findings(tables: Tables, plan: Steps) -> list[str]:
    return [
        f"{style.NAMES[r['method']]} at lr {r['lr']:g}: exact factor a round {r['factor']:.5f}; the largest model "
        f"after {r['round']} rounds is {r['size']:.3g}"
        for r in records(tables["ends"])
    ]


EXPERIMENT = Experiment(
    claim="Where the difference of the nodes' gradients is not bounded D-PSGD may diverge; DSGT does not",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
