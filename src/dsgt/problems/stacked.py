"""Modules made of known layers: all nodes go through each layer at once, by one batched product a linear layer.

It starts a third of the operations that a vmap starts, with the same numbers (benchmarks/problems.py mlp).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional

Stack: TypeAlias = Callable[[Sequence[Tensor], Tensor], Tensor]
"""(every parameter at all nodes (n, *shape), inputs (n, b, ...)) -> outputs (n, b, ...)."""
Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Scale: TypeAlias = Tensor | float
"""What each node's loss is multiplied with, (n,); a number where it is the same for all."""

ELEMENTWISE = {
    *(nn.Identity, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh),
    *(nn.Sigmoid, nn.LogSigmoid, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.Softshrink),
}


def stack(module: nn.Module, parameters: Sequence[nn.Parameter]) -> Stack | None:
    """The module for all nodes at once; None where one of its layers is not known."""
    number = {id(p): i for i, p in enumerate(parameters)}
    layers: list[Stack] = []
    for layer in _layers(module):
        stacked = None if _is_hooked(layer) else _stacked(layer, number)
        if stacked is None:
            return None
        layers.append(stacked)

    def forward(values: Sequence[Tensor], z: Tensor) -> Tensor:
        for layer in layers:
            z = layer(values, z)
        return z

    return forward


def _layers(module: nn.Module) -> list[nn.Module]:
    if type(module) is not nn.Sequential or _is_hooked(module):
        return [module]
    return [layer for child in module for layer in _layers(child)]


def _is_hooked(layer: nn.Module) -> bool:
    """Whether somebody looks at what goes through it, or computes its parameters."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks)


def _stacked(layer: nn.Module, number: dict[int, int]) -> Stack | None:
    if type(layer) in ELEMENTWISE or (type(layer) is nn.Dropout and not (layer.training and layer.p)):
        return lambda values, z: layer(z)
    if type(layer) is nn.Flatten and layer.start_dim >= 1:
        first, last = layer.start_dim + 1, layer.end_dim + (layer.end_dim >= 0)
        return lambda values, z: z.flatten(first, last)
    if type(layer) is nn.Linear:
        return _linear(_value(layer.weight, number), None if layer.bias is None else _value(layer.bias, number))
    if type(layer) is nn.LayerNorm:
        return _layer_norm(layer, number)
    return None


Value: TypeAlias = Callable[[Sequence[Tensor], int], Tensor]
"""(parameters, n) -> one of them at all nodes, (n, *shape)."""


def _value(p: Tensor, number: dict[int, int]) -> Value:
    i = number.get(id(p))
    frozen = p.detach()
    return (lambda values, n: frozen.expand(n, *frozen.shape)) if i is None else (lambda values, n: values[i])


def _linear(weight: Value, bias: Value | None) -> Stack:
    def forward(values: Sequence[Tensor], z: Tensor) -> Tensor:
        n = z.shape[0]
        rows = z.flatten(1, -2) if z.ndim > 3 else z
        W, columns = weight(values, n), rows.mT  # samples last: the weight's gradient then comes as it is kept
        made = torch.bmm(W, columns) if bias is None else torch.baddbmm(bias(values, n)[..., None], W, columns)
        return made.mT.reshape(*z.shape[:-1], -1) if z.ndim > 3 else made.mT

    return forward


def _layer_norm(layer: nn.LayerNorm, number: dict[int, int]) -> Stack:
    shape, eps = layer.normalized_shape, layer.eps
    affine = [_value(p, number) for p in (layer.weight, layer.bias) if p is not None]

    def forward(values: Sequence[Tensor], z: Tensor) -> Tensor:
        normal = functional.layer_norm(z, shape, eps=eps)
        between = (1,) * (z.ndim - 1 - len(shape))
        weights = [value(values, len(z)).reshape(len(z), *between, *shape) for value in affine]
        if len(weights) == 2:
            return torch.addcmul(weights[1], normal, weights[0])
        return normal * weights[0] if weights else normal

    return forward


def weighted(losses: Tensor, scale: Scale) -> Tensor:
    """The sum of these (n,), each times its scale."""
    return losses.sum() * scale if isinstance(scale, float) else losses.dot(scale)


def total_loss(loss: Loss) -> Callable[[Tensor, Tensor, Scale], Tensor]:
    """Outputs and targets of all nodes (n, b, ...), and scales -> the sum of the nodes' mean losses times theirs."""
    plain = isinstance(loss, nn.CrossEntropyLoss | nn.MSELoss) and repr(vars(loss)) == repr(vars(type(loss)()))
    each: Callable[..., Tensor]
    if loss is functional.cross_entropy or (plain and type(loss) is nn.CrossEntropyLoss):
        each = functional.cross_entropy
    elif loss is functional.mse_loss or (plain and type(loss) is nn.MSELoss):
        each = functional.mse_loss
    else:
        return lambda z, t, scale: weighted(vmap(loss)(z, t), scale)

    def mean(z: Tensor, t: Tensor) -> Tensor:
        if each is functional.cross_entropy and z.ndim == 3 and t.ndim == 2:
            return each(z.mT, t)  # samples last, as a linear layer leaves them: no copy, and sums over whole vectors
        return each(z.flatten(0, 1), t.flatten(0, 1))

    def total(z: Tensor, t: Tensor, scale: Scale) -> Tensor:
        if isinstance(scale, float):  # then a mean over all samples is one over the nodes
            return mean(z, t) * (scale * len(z))
        losses = each(z.flatten(0, 1), t.flatten(0, 1), reduction="none")
        return weighted(losses.view(len(z), -1).mean(dim=1), scale)

    return total
