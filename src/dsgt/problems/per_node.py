"""Ways to compute every node's gradient of one torch model. They give the same numbers; which is fastest is measured.

On two cores, a loop over the nodes suits convolutions, all nodes stacked suit small dense layers, by one vmap where the
layers are not known, and threads that take one node each suit everything that is large enough.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from dsgt.flat import flattened, link
from dsgt.layout import Place
from dsgt.problems.stacked import Scale, stack, total_loss, weighted
from dsgt.threads import threads as threads_of_torch

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Batch:
    """One round's draw: the samples of all nodes, node after node, and how many and how heavy each node's are."""

    rows: Tensor
    counts: Sequence[int]
    scales: Sequence[float]
    """What each node's mean gradient is multiplied with."""


Gradients: TypeAlias = Callable[[Tensor, Batch], Tensor]
"""(n, m) models and a batch -> (n, m) gradients, in a fresh tensor."""


class Flat:
    """A private copy of a module whose trainable parameters are read from a flat vector, without copying it."""

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        self.module = copy.deepcopy(module)
        self.loss = loss
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]

    def names(self) -> Iterator[tuple[str, int]]:
        """Every place in the module that holds a trainable parameter, and which one; a shared one is in many places."""
        number = {id(p): i for i, p in enumerate(self.parameters)}
        for prefix, layer in self.module.named_modules():
            for name, p in layer.named_parameters(recurse=False):
                if id(p) in number:
                    yield f"{prefix}.{name}" if prefix else name, number[id(p)]

    def places(self) -> Iterator[Place]:
        """Every trainable parameter by all its names, and where in the vector it is."""
        offsets = accumulate((p.numel() for p in self.parameters), initial=0)
        begin = {id(p): offset for p, offset in zip(self.parameters, offsets, strict=False)}
        for name, p in self.module.named_parameters(remove_duplicate=False):
            if p.requires_grad:
                yield Place.next_to(name, p.shape, begin[id(p)])

    def vector(self) -> Tensor:
        return flattened(self.parameters)

    def at(self, x: Tensor) -> nn.Module:
        """The module at the model x (m,)."""
        link(self.parameters, x.detach())
        return self.module

    def gradient(self, x: Tensor, features: Tensor, targets: Tensor, scale: float, out: Tensor) -> None:
        """out (m,) = scale times the gradient of the mean loss of these samples at x (m,)."""
        module = self.at(x)
        with torch.enable_grad():
            value = self.loss(module(features), targets)
            grads = torch.autograd.grad(value if scale == 1 else scale * value, self.parameters, materialize_grads=True)
        torch.cat([g.reshape(-1) for g in grads], out=out)


def gather(values: Tensor, rows: Tensor) -> Tensor:
    """values[rows], which for several axes of rows is much slower than this."""
    return values.index_select(0, rows.reshape(-1)).view(*rows.shape, *values.shape[1:])


def loop(flat: Flat, features: Tensor, targets: Tensor) -> Gradients:
    """One node after the other, each with all of torch's threads."""

    def gradients(x: Tensor, batch: Batch) -> Tensor:
        g = torch.empty_like(x)
        for i, rows in enumerate(batch.rows.split(list(batch.counts))):
            _one(flat, features, targets, x, g, i, rows, batch.scales[i])
        return g

    return gradients


def threads(flat: Flat, features: Tensor, targets: Tensor) -> Gradients:
    """As many nodes at a time as torch has threads, each node with one thread."""
    workers = [flat, *(Flat(flat.module, flat.loss) for _ in range(torch.get_num_threads() - 1))]
    pool = ThreadPoolExecutor(len(workers), thread_name_prefix="dsgt-node")

    def gradients(x: Tensor, batch: Batch) -> Tensor:
        g = torch.empty_like(x)
        shards = batch.rows.split(list(batch.counts))
        todo = iter(sorted(range(len(x)), key=lambda i: -batch.counts[i]))  # long ones first; ``next`` is atomic

        def work(worker: Flat) -> None:
            torch.set_num_threads(1)  # of this thread only
            with torch.no_grad():
                for i in todo:
                    _one(worker, features, targets, x, g, i, shards[i], batch.scales[i])

        with threads_of_torch(1):
            list(pool.map(work, workers))
        return g

    return gradients


def vectorised(flat: Flat, features: Tensor, targets: Tensor) -> Gradients:
    """All nodes with equally many samples in one vmap."""
    flat = Flat(flat.module, flat.loss)  # where vmap fails half-way it leaves the module unusable
    places = list(flat.names())

    def one(parameters: dict[str, Tensor], a: Tensor, t: Tensor) -> Tensor:
        return flat.loss(functional_call(flat.module, parameters, (a,), tie_weights=False), t)

    def total(values: Sequence[Tensor], a: Tensor, t: Tensor, scale: Scale) -> Tensor:
        return weighted(vmap(one)({name: values[j] for name, j in places}, a, t), scale)

    return _by_size(flat, features, targets, total)


def stacked(flat: Flat, features: Tensor, targets: Tensor) -> Gradients:
    """All nodes with equally many samples at once, layer by layer."""
    forward, total = stack(flat.module, flat.parameters), total_loss(flat.loss)
    assert forward is not None, "whoever names it has looked"
    return _by_size(flat, features, targets, lambda values, a, t, scale: total(forward(values, a), t, scale))


def _by_size(
    flat: Flat, features: Tensor, targets: Tensor, total: Callable[[Sequence[Tensor], Tensor, Tensor, Scale], Tensor]
) -> Gradients:
    """``total`` gives the sum of some nodes' losses times their scale, from their parameters (g, *shape) and samples
    (g, b, ...)."""
    shapes, sizes = [p.shape for p in flat.parameters], [p.numel() for p in flat.parameters]

    def parts_of(x: Tensor) -> list[Tensor]:
        n = x.shape[0]
        return [v.view(n, *shape) for v, shape in zip(x.split(sizes, 1), shapes, strict=True)]

    def same_size(x: Tensor, rows: Tensor, scale: Scale) -> Tensor:
        a, t = gather(features, rows), gather(targets, rows)
        with torch.enable_grad():
            parts = [part.requires_grad_() for part in parts_of(x)]
            grads = torch.autograd.grad(total(parts, a, t, scale), parts, materialize_grads=True)
        return torch.cat([grad.reshape(len(x), -1) for grad in grads], dim=1)

    def gradients(x: Tensor, batch: Batch) -> Tensor:
        x = x.detach()
        kinds = sorted(set(batch.counts))
        if len(kinds) == 1 and kinds[0] and len(set(batch.scales)) == 1:
            return same_size(x, batch.rows.view(len(x), -1), batch.scales[0])
        scales = torch.tensor(batch.scales, dtype=x.dtype, device=x.device)
        g = torch.zeros_like(x)
        shards = batch.rows.split(list(batch.counts))
        for count in kinds:
            if count:
                nodes = [i for i, c in enumerate(batch.counts) if c == count]
                g[nodes] = same_size(x[nodes], torch.stack([shards[i] for i in nodes]), scales[nodes])
        return g

    return gradients


STRATEGIES: dict[str, Callable[[Flat, Tensor, Tensor], Gradients]] = {
    "loop": loop,
    "threads": threads,
    "vmap": vectorised,
    "stacked": stacked,
}


def fastest(candidates: dict[str, Gradients], x: Tensor, batch: Batch, *, repeats: int = 5) -> str:
    """The fastest by name: the best of a few interleaved runs after a warm-up; hopeless ones are not repeated, and
    those that do not agree with a loop, which is among them, are left out."""
    expected = candidates["loop"](x, batch)
    times = {name: _seconds(f, x, batch) for name, f in candidates.items() if _works(f, x, batch, expected)}
    for _ in range(repeats):
        best = min(times.values())
        for name in [name for name, t in times.items() if t < 3 * best]:
            times[name] = min(times[name], _seconds(candidates[name], x, batch))
    return min(times, key=lambda name: times[name])


def _works(gradients: Gradients, x: Tensor, batch: Batch, expected: Tensor) -> bool:
    try:
        found = gradients(x, batch)
    except RuntimeError:  # vmap cannot follow every module; a loop can
        return False
    return agree(found, expected)


def agree(found: Tensor, expected: Tensor) -> bool:
    """But for rounding, and where both are no numbers: a run that diverges is stopped elsewhere."""
    close = torch.finfo(expected.dtype).eps ** 0.5 * float(expected.abs().nan_to_num(0, 0, 0).max())
    return bool(torch.isclose(found, expected, rtol=0, atol=close, equal_nan=True).all())


def _seconds(gradients: Gradients, x: Tensor, batch: Batch) -> float:
    if x.is_cuda:
        torch.cuda.synchronize()
    begin = time.perf_counter()
    gradients(x, batch)
    if x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def _one(
    flat: Flat, features: Tensor, targets: Tensor, x: Tensor, g: Tensor, i: int, rows: Tensor, scale: float
) -> None:
    if len(rows):
        flat.gradient(x[i], features.index_select(0, rows), targets.index_select(0, rows), scale, g[i])
    else:
        g[i].zero_()  # a Bernoulli draw may be empty
