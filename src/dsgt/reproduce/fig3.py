"""Figure 3: LeNet on CIFAR-10."""

from __future__ import annotations

from dsgt.reproduce import paper, paper_figure, paper_findings
from dsgt.reproduce.lab import Experiment
from dsgt.reproduce.paper import Task

FULL = Task(data="cifar10", model="lenet", seeds=3, counted_seeds=1, epochs=6.0, tuning_epochs=2.0, every=2.0)
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
