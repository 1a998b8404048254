"""The vocabulary: what a method, a mixing and a network are. Everything else speaks in these words.

Tensors are ``(..., m)``: ``(n, m)`` where all nodes live in one process, ``(m,)`` on a real node. A method uses
elementwise arithmetic, reductions over the last axis with ``keepdim=True``, and ``mix``; so one text serves both.
"""

from __future__ import annotations

from dsgt.core.algorithm import Algorithm, Eigenvalues, Polynomial, restart_tracking, without_oracle
from dsgt.core.inner import Inner
from dsgt.core.messages import Done, Packed, Pending, Sendable, WireError, value_of, wire_of
from dsgt.core.mix import Mix
from dsgt.core.needs import Needs
from dsgt.core.network import Around, Network, Over, Traffic
from dsgt.core.oracle import E, Gradient, Local, Nothing, Oracle
from dsgt.core.parameters import check_ranges, parameter, parameters
from dsgt.core.state import S, changed, settle, tensors, with_tensors
from dsgt.core.weights import Matrix, Weights

__all__ = [
    "Algorithm",
    "Around",
    "Done",
    "E",
    "Eigenvalues",
    "Gradient",
    "Inner",
    "Local",
    "Matrix",
    "Mix",
    "Needs",
    "Network",
    "Nothing",
    "Oracle",
    "Over",
    "Packed",
    "Pending",
    "Polynomial",
    "S",
    "Sendable",
    "Traffic",
    "Weights",
    "WireError",
    "changed",
    "check_ranges",
    "parameter",
    "parameters",
    "restart_tracking",
    "settle",
    "tensors",
    "value_of",
    "wire_of",
    "with_tensors",
    "without_oracle",
]
