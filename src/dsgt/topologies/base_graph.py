"""The Base-(k + 1) graph: few rounds, in each of which a node hears k others at most, and then all have the mean.

Takezawa, Sato, Bao, Niwa and Yamada, Beyond exponential graph: communication-efficient topologies for decentralized
learning via finite-time convergence, 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from typing import TypeAlias

from dsgt.core import Matrix
from dsgt.topologies.assemble import assemble

Nodes: TypeAlias = "Sequence[int]"
Round: TypeAlias = "list[tuple[int, int, float]]"
"""Edges and their weights. The rest of a node's weight is its own."""


def base_graph(n: int, k: int = 1) -> list[Matrix]:
    """One symmetric matrix per round, to be repeated: their product is 11'/n, for every n.

    A node hears at most k others in a round, and there are at most 2 log(n) / log(k + 1) + 2 rounds.
    """
    if n < 1:
        raise ValueError(f"n is {n}, but a network has at least one node")
    if k < 1:
        raise ValueError(f"k is {k}; expected at least 1, the most nodes that a node hears in a round")
    rounds = min(_in_parts(range(n), k), _in_groups(n, k), key=len) or [[]]
    return [assemble(n, *([edge[c] for edge in edges] for c in range(3))) for edges in rounds]


def _in_groups(n: int, k: int) -> list[Round]:
    """Groups of nodes, as many as a cube can have, agree by themselves, and then each node with one of every group."""
    size = _factors(n, k)[1]
    groups = [range(first, first + size) for first in range(0, n, size)]
    across = [range(first, n, size) for first in range(size)]
    return _beside([_in_parts(group, k) for group in groups]) + _beside([_cube(nodes, k) for nodes in across])


def _in_parts(nodes: Nodes, k: int) -> list[Round]:
    """Parts of a (k + 1)^p nodes, a <= k, one for each digit of the number of nodes. Each agrees by itself first."""
    if _factors(len(nodes), k)[1] == 1:
        return _cube(nodes, k)
    parts: list[list[Nodes]] = []
    power = 1
    while power * (k + 1) <= len(nodes):
        power *= k + 1
    while len(nodes):
        whole = len(nodes) // power * power
        if whole:
            parts.append([nodes[first : first + power] for first in range(0, whole, power)])
        nodes, power = nodes[whole:], power // (k + 1)
    return _beside([_cube(list(chain(*part)), k) for part in parts]) + _joined(parts, k)


def _joined(parts: list[list[Nodes]], k: int) -> list[Round]:
    """Rounds after which all agree, where each part does by itself.

    Every node of the smaller parts takes the mean with one node of each cube of the largest. That leaves the right sum
    in each cube, and in the smaller parts together; so each cube goes on alone, and the smaller parts likewise.
    """
    if len(parts) == 1:
        return []
    cubes, smaller = parts[0], list(chain(*chain(*parts[1:])))
    power = len(cubes[0])
    weight = power / (power * len(cubes) + len(smaller))
    bridges = [(i, cube[t], weight) for t, i in enumerate(smaller) for cube in cubes]
    idle = list(chain(*(cube[len(smaller) :] for cube in cubes)))
    beside = [idle[first : first + k + 1] for first in range(0, len(idle), k + 1)]
    bridges += chain(*(_averaged(group) for group in beside))
    return [bridges, *_beside([*(_cube(cube, k) for cube in cubes), _joined(parts[1:], k)])]


def _cube(nodes: Nodes, k: int) -> list[Round]:
    """The nodes as the points of a box with sides of at most k + 1: one round for each side averages along it."""
    rounds, stride = [], 1
    for side in _factors(len(nodes), k)[0]:
        corners = [i for i in range(len(nodes)) if i // stride % side == 0]
        lines = [[nodes[i + stride * step] for step in range(side)] for i in corners]
        rounds.append(list(chain(*(_averaged(line) for line in lines))))
        stride *= side
    return rounds


def _averaged(nodes: Nodes) -> Round:
    return [(i, j, 1 / len(nodes)) for i, j in combinations(nodes, 2)]


def _beside(several: list[list[Round]]) -> list[Round]:
    """At the same time. Who is done begins anew, which changes nothing among nodes that agree already."""
    longest = max(len(rounds) for rounds in several)
    return [list(chain(*(rounds[t % len(rounds)] for rounds in several if rounds))) for t in range(longest)]


def _factors(n: int, k: int) -> tuple[list[int], int]:
    """Numbers from 2 to k + 1 whose product divides n, the largest first, and what is left of n."""
    found = []
    for f in range(k + 1, 1, -1):
        while n % f == 0:
            found.append(f)
            n //= f
    return found, n
