"""What is minimised. A problem is samples, shards and a way of sampling; ``problem[i]`` is what node i alone knows."""

from dsgt.problems.base import GradientFunction, Problem
from dsgt.problems.constrained import constrained
from dsgt.problems.least_squares import LeastSquares
from dsgt.problems.lenet import lenet
from dsgt.problems.logistic import Logistic
from dsgt.problems.mlp import mlp
from dsgt.problems.model import Model
from dsgt.problems.nonsmooth import AbsoluteDeviations, Hinge, Lasso
from dsgt.problems.resnet import resnet20
from dsgt.problems.transformer import transformer

__all__ = [
    "AbsoluteDeviations",
    "GradientFunction",
    "Hinge",
    "Lasso",
    "LeastSquares",
    "Logistic",
    "Model",
    "Problem",
    "constrained",
    "lenet",
    "mlp",
    "resnet20",
    "transformer",
]
