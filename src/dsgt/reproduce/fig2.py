"""Figure 2: logistic regression on CIFAR-10."""

from __future__ import annotations

from dsgt.reproduce import paper, paper_figure, paper_findings
from dsgt.reproduce.lab import Experiment
from dsgt.reproduce.paper import LADDER, Task

METHODS = ("dsgt", "dpsgd", "atc-dpsgd", "d2", "sgd")
FULL = Task(
    data="cifar10", model="logistic", methods=(*METHODS, "dsgt/metropolis"), seeds=3, counted_seeds=3, epochs=60.0,
    tuning_epochs=10.0, lrs=(0.005, 0.01, 0.03), ladder=LADDER, every=0.5, own_every=5.0,
)  # fmt: skip
QUICK = Task(
    data="digits", model="logistic", methods=METHODS, seeds=2, counted_seeds=2, epochs=20.0, tuning_epochs=5.0,
    batch=256, lrs=(0.01, 0.05, 0.2, 0.5),
)  # fmt: skip

EXPERIMENT = Experiment(
    claim="DSGT converges faster than D-PSGD and D²; its iterations do not depend on n; its speedup is linear",
    full=FULL,
    quick=QUICK,
    measure=paper.measure,
    figure=paper_figure.figure,
    findings=paper_findings.findings,
)
