"""Which methods may use a weight matrix."""

from __future__ import annotations

from dsgt.algorithms import ALGORITHMS, COMPOSITIONS
from dsgt.core import Needs, Weights
from dsgt.networks.dense import Dense
from dsgt.topologies.matrix import MatrixLike
from dsgt.topologies.needs import complaints


def usable(W: MatrixLike) -> dict[str, str]:
    """Every method by name: empty where it may use W, or what it makes of W, else why not and what to do."""
    network = Dense(W)
    said: dict[tuple[Needs, Weights], str] = {}  # many need the same, and eigenvalues of a large W are costly
    found = {}
    for name, method in (ALGORITHMS | COMPOSITIONS).items():
        try:
            algorithm = method()
        except Exception as error:  # of a method of the user's, which must not cost the others' answers
            found[name] = f"cannot be made without parameters: {error}"
            continue
        try:
            asked = algorithm.needs, algorithm.over(network).weights
        except ValueError as error:
            found[name] = str(error)
            continue
        if asked not in said:
            said[asked] = "; ".join(complaints(*asked))
        found[name] = said[asked]
    return found
