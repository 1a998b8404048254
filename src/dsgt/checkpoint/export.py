"""What a checkpoint is good for besides resuming: every node's model, and the mean model as an ordinary file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from dsgt.checkpoint.folder import parts_of
from dsgt.checkpoint.part import CheckpointError, DifferentError
from dsgt.flat import views


def models(folder: str | Path, *, without: Collection[int] = ()) -> tuple[int, Tensor]:
    """The newest round that is whole, and every node's model as rows (n, m), to look at or to start from.

    ``without`` names nodes that are gone for good with their disks: their parts need not be there, and the rows are
    the survivors', in order. A run of the survivors starts with ``x0=`` these.
    """
    k, parts = parts_of(folder, without)
    rows = []
    for part in parts:
        x = part.tensors.get("state.x", part.tensors.get("optimizer.x"))
        if x is None:
            raise CheckpointError(f"{folder} holds no models in round {k}; was it written by run or Training?")
        rows.append(x if part.node is None else x[None])
    stacked = torch.cat(rows)
    if parts[0].node is None:
        stacked = stacked[[i for i in range(len(stacked)) if i not in without]]
    return k, stacked


def export(folder: str | Path, path: str | Path, model: nn.Module | None = None) -> dict[str, Tensor]:
    """Write the mean model of the newest checkpoint as an ordinary state_dict, to .safetensors or .pt, and return it.

    What ``Training`` saved has names of its own. What ``run`` saved is a flat vector: give the ``model`` whose
    trainable parameters it holds, in their order; its other parameters and its buffers are copied.
    """
    path = Path(path)
    if path.suffix not in (".safetensors", ".pt"):
        raise ValueError(f"{path.name} ends in {path.suffix!r}, but a model is written to .safetensors or .pt")
    _, parts = parts_of(folder, ())
    names = [name for name in parts[0].tensors if name.startswith("model.")]
    if names:
        found = {name.removeprefix("model."): _mean([part.tensors[name] for part in parts]) for name in names}
    elif model is None:
        raise ValueError(f"{folder} holds flat vectors: give the model whose parameters they are, export(..., model)")
    else:
        found = _unflatten(models(folder)[1].double().mean(dim=0), model, folder)
    if path.suffix == ".pt":
        torch.save(found, path)
    else:
        save_file(found, path)
    return found


def _mean(values: list[Tensor]) -> Tensor:
    """In double precision; counters become rounded means, as in ``Optimizer.average``."""
    mean = torch.stack([v.double() for v in values]).mean(dim=0)
    return (mean if values[0].is_floating_point() else mean.round()).to(values[0].dtype)


def _unflatten(flat: Tensor, model: nn.Module, folder: str | Path) -> dict[str, Tensor]:
    trained = [p for p in model.parameters() if p.requires_grad]
    size = sum(p.numel() for p in trained)
    if size != len(flat):
        raise DifferentError(f"{folder} holds models of {len(flat)} parameters, but this one trains {size}")
    values = {id(p): part.to(p.dtype) for p, part in zip(trained, views(flat, trained), strict=True)}
    named = model.state_dict(keep_vars=True)  # a parameter that two layers share has two names
    return {name: values.get(id(v), v).detach().clone() for name, v in named.items()}
