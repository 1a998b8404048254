"""What is minimised. A problem is samples, shards and a way of sampling; ``problem[i]`` is what node i alone knows."""

from dsgt.problems.base import Oracle, Problem
from dsgt.problems.constrained import constrained
from dsgt.problems.least_squares import LeastSquares
from dsgt.problems.lenet import lenet
from dsgt.problems.logistic import Logistic
from dsgt.problems.model import Model

__all__ = ["LeastSquares", "Logistic", "Model", "Oracle", "Problem", "constrained", "lenet"]
