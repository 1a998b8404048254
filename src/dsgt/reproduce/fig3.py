"""Figure 3: LeNet on CIFAR-10."""

from __future__ import annotations

from dsgt.reproduce import paper, paper_figure, paper_findings
from dsgt.reproduce.lab import Experiment
from dsgt.reproduce.paper import LADDER, Task

FULL = Task(
    data="cifar10", model="lenet", methods=("dsgt", "dpsgd", "d2", "sgd", "dsgt/metropolis"), seeds=3, counted_seeds=3,
    epochs=40.0, tuning_epochs=10.0, lrs=(0.1, 0.2, 0.3), ladder=LADDER, every=0.5, own_every=5.0, measured=10_000,
)  # fmt: skip
QUICK = Task(
    data="digits", model="lenet", seeds=2, counted_seeds=1, epochs=15.0, tuning_epochs=5.0, batch=128,
    lrs=(0.05, 0.1, 0.2), counts=(1, 6, 12),
)  # fmt: skip

EXPERIMENT = Experiment(
    claim="As figure 2, on a non-convex task",
    full=FULL,
    quick=QUICK,
    measure=paper.measure,
    figure=paper_figure.figure,
    findings=paper_findings.findings,
)
