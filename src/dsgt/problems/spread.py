"""A problem whose data no process holds all of: each real node has loaded its own part, and they measure together."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from dsgt.core import Network
from dsgt.data.own import check_tests
from dsgt.layout import Layout
from dsgt.networks.agreement import gather_numbers
from dsgt.problems.base import GradientFunction, Problem
from dsgt.problems.erm import EmpiricalRisk, drawn_rows


class Spread(Problem):
    """What a real node sees of such a problem. Whatever is about all samples is asked of all nodes at once."""

    def __init__(self, own: EmpiricalRisk, network: Network) -> None:
        """``own`` is made of this node's samples and an ``OwnShard``."""
        assert network.node is not None
        self.own, self.network, self.node = own, network, network.node
        self.nodes, self.dim, self.samples = own.nodes, own.dim, own.samples
        self.epochs_per_round, self.batch, self.test = own.epochs_per_round, own.batch, own.test
        self._share = own.nodes * len(own.data) / own.samples
        here = 0 if own.test is None else len(own.test)
        tests = gather_numbers(network, [here])[:, 0]
        check_tests(tests.tolist())
        self._test_share = own.nodes * here / max(1.0, float(tests.sum()))
        self._tests = [int(count) for count in tests]

    def __getitem__(self, i: int) -> Problem:
        if i != self.node:
            raise IndexError(f"this is node {self.node}; it does not hold the data of node {i}")
        return self.own

    def start(self, seed: int) -> Tensor:
        return self.own.start(seed)

    def oracle(self, seed: int) -> GradientFunction:
        """This node's gradient at every row, for who asks how curved it is: the others' data are elsewhere."""
        own = self.own.oracle(seed)
        return lambda x, k: torch.stack([own(row, k) for row in x])

    def remembering(self, kept: Mapping[str, Tensor]) -> Problem:
        seen = copy.copy(self)
        seen.own = self.own.remembering(kept)
        return seen

    def measured_on(self, count: int, seed: int = 0) -> Spread:
        """So many of the samples of all nodes are drawn, as the simulator does, and each node looks at its own."""
        if count < 1:
            raise ValueError(f"{count} samples to measure on; give at least 1")
        seen, own = copy.copy(self), self.own
        mine = _of_node(self.node, own.shards.sizes.tolist(), count, seed)
        seen.own = own.measured_by(own.data.chosen(mine if len(mine) else torch.tensor([0])))
        seen._share = self.nodes * len(mine) / min(count, own.samples)
        if own.test is not None:
            together = [self._tests[0]] if self._same_test() else self._tests
            mine = _of_node(min(self.node, len(together) - 1), together, count, seed)
            seen.own.test = own.test.chosen(mine if len(mine) else torch.tensor([0]))
            looking = self.nodes if len(together) == 1 else 1
            seen._test_share = self.nodes * len(mine) / (looking * min(count, sum(together)))
        return seen

    def _same_test(self) -> bool:
        """Whether all nodes have one test set; the simulator then counts it once."""
        assert self.own.test is not None
        digest = hashlib.sha256(self.own.test.features.contiguous().cpu().numpy().tobytes())
        digest.update(self.own.test.targets.contiguous().cpu().numpy().tobytes())
        prints = gather_numbers(self.network, [int.from_bytes(digest.digest()[:6], "big")])[:, 0]  # exact in a float64
        return bool((prints == prints[0]).all())

    def loss(self, x: Tensor) -> Tensor:
        return self._over_all(self.own.loss(x) * self._share)

    def gradient(self, x: Tensor) -> Tensor:
        return self._over_all(self.own.gradient(x) * self._share)

    def accuracy(self, x: Tensor) -> Tensor:
        return self._over_all(self.own.accuracy(x) * self._test_share)

    def _over_all(self, part: Tensor) -> Tensor:
        return self.network.mean(part.reshape(-1)).reshape(part.shape)

    def identity(self) -> Mapping[str, Tensor | str]:
        """The same at every node: a print of the parts of all."""
        digest = hashlib.sha256()
        for name, value in self.own.identity().items():
            digest.update(name.encode())
            digest.update(value.contiguous().cpu().numpy().tobytes() if isinstance(value, Tensor) else value.encode())
        mine = int.from_bytes(digest.digest()[:6], "big")  # exact in a float64
        prints = gather_numbers(self.network, [mine])[:, 0]
        return {"parts": prints, "sampling": str(self.own.sampling), "l2": str(self.own.l2)}

    def made_of(self) -> Iterable[object]:
        return self.own.made_of()

    def layout(self) -> Layout:
        return self.own.layout()


def _of_node(node: int, sizes: Sequence[int], count: int, seed: int) -> Tensor:
    """Of ``count`` samples of all nodes, those of one, counted from its first."""
    rows = drawn_rows(sum(sizes), count, seed)
    first = sum(sizes[:node])
    return rows[(rows >= first) & (rows < first + sizes[node])] - first
