"""What a checkpoint is good for besides resuming: every node's model, and the mean model as an ordinary file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from dsgt.checkpoint.folder import parts_of
from dsgt.checkpoint.part import CheckpointError, DifferentError, Part, under
from dsgt.layout import Layout
from dsgt.statistics import averaged

MODELS = ("output", "state.x", "optimizer.x")
"""Where a model is, what the method promises something of before the point where it asks for gradients."""
MOST_NAMED = 8
"""Parameters that an error names."""


def models(folder: str | Path, *, without: Collection[int] = ()) -> tuple[int, Tensor]:
    """The newest round that is whole, and every node's model as rows (n, m), to look at or to start from.

    ``without`` names nodes that are gone for good with their disks: their parts need not be there, and the rows are
    the survivors', in order. A run of the survivors starts with ``x0=`` these.
    """
    k, parts = parts_of(folder, without)
    rows = []
    for part in parts:
        x = next((part.tensors[name] for name in MODELS if name in part.tensors), None)
        if x is None:
            raise CheckpointError(f"{folder} holds no models in round {k}; was it written by run or Training?")
        rows.append(x if part.node is None else x[None])
    stacked = torch.cat(rows)
    if parts[0].node is None:
        stacked = stacked[[i for i in range(len(stacked)) if i not in without]]
    return k, stacked


def export(folder: str | Path, path: str | Path, model: nn.Module | None = None) -> dict[str, Tensor]:
    """Write the mean model of the newest checkpoint as an ordinary state_dict, to .safetensors or .pt, and return it.

    A checkpoint knows the names and shapes of the parameters it holds. They must be those of the ``model``, if one is
    given: its names and dtypes are used then. BatchNorm's running statistics are averaged over the nodes. What ``run``
    trained may have other buffers, and frozen parameters, that no checkpoint holds; they are copied from the ``model``,
    which therefore must be given.
    """
    path = Path(path)
    if path.suffix not in (".safetensors", ".pt"):
        raise ValueError(f"{path.name} ends in {path.suffix!r}, but a model is written to .safetensors or .pt")
    _, parts = parts_of(folder, ())
    trained = under("model.", parts[0].tensors)
    if trained:
        found = {name: _mean([_taken(part, name) for part in parts]) for name in trained}
        wanted = {} if model is None else model.state_dict()
    else:
        remembered = _statistics(parts)
        found = _unflattened(folder, parts[0], alone=model is None, beside=remembered) | remembered
        wanted = {} if model is None else _trainable(model) | _buffers(model, remembered)
    if model is not None:
        found = _as_in(model, found, wanted, folder)
    if path.suffix == ".pt":
        torch.save(found, path)
    else:
        save_file(found, path)
    return found


def layout_of(folder: str | Path) -> Layout:
    """The names and shapes of what ``run`` saved in the newest checkpoint."""
    part = parts_of(folder, ())[1][0]
    if under("model.", part.tensors):
        raise ValueError(f"{folder} was written by checkpoint.Training of a script; give the module of that script")
    return _layout(folder, part)


def _taken(part: Part, name: str) -> Tensor:
    return part.tensors.get(f"output.{name}", part.tensors[f"model.{name}"])


def _mean(values: list[Tensor]) -> Tensor:
    """In double precision; counters become rounded means, as in ``Optimizer.average``."""
    mean = torch.stack([v.double() for v in values]).mean(dim=0)
    return (mean if values[0].is_floating_point() else mean.round()).to(values[0].dtype)


def _statistics(parts: Sequence[Part]) -> dict[str, Tensor]:
    """What the nodes' modules remembered, for the mean model."""
    rows = [under("memory.kept.", part.tensors) for part in parts]
    return averaged({name: torch.cat([kept[name] for kept in rows]) for name in rows[0]}) if rows[0] else {}


def _unflattened(folder: str | Path, part: Part, *, alone: bool, beside: Collection[str]) -> dict[str, Tensor]:
    """The mean of the flat vectors that ``run`` saved, as parameters with names."""
    layout = _layout(folder, part)
    lacking = [name for name in layout.elsewhere if name not in beside]
    if alone and lacking:
        raise ValueError(
            f"{folder} holds what was trained, but not {', '.join(lacking)}: give the model that has them, "
            "export(..., model) or --model"
        )
    rows = models(folder)[1]
    flat = rows.double().mean(dim=0).to(rows.dtype)
    return {place.name: place.of(flat).clone(memory_format=torch.contiguous_format) for place in layout.places}


def _layout(folder: str | Path, part: Part) -> Layout:
    if "layout" not in part.extra:
        raise DifferentError(
            f"{folder} was saved before names and shapes were kept, so nobody knows which number is which parameter; "
            "resume its run for one round more, or take the rows themselves with checkpoint.models"
        )
    return Layout.from_json(part.extra["layout"])


def _trainable(model: nn.Module) -> dict[str, Tensor]:
    """With both names of a parameter that two layers share."""
    return {name: p for name, p in model.named_parameters(remove_duplicate=False) if p.requires_grad}


def _buffers(model: nn.Module, remembered: Collection[str]) -> dict[str, Tensor]:
    """Those of the model that are among these, whatever comes before their names."""

    def same(a: str, b: str) -> bool:
        return a == b or a.endswith(f".{b}") or b.endswith(f".{a}")

    return {name: b for name, b in model.named_buffers() if any(same(name, other) for other in remembered)}


def _as_in(
    model: nn.Module, found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], folder: str | Path
) -> dict[str, Tensor]:
    """The state_dict of the model, with what was found in the place of what is wanted."""
    theirs = _names(found, wanted)
    if theirs is None:
        raise DifferentError(
            f"{folder} holds {_listed(found)}, but the model that was given has {_listed(wanted)}; give the model that "
            "was trained"
        )
    values = {name: found[theirs[name]].to(v.dtype) for name, v in wanted.items()}
    return {name: values.get(name, v).detach().clone() for name, v in model.state_dict().items()}


def _names(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, str] | None:
    """What each parameter that is wanted is called among those found; None where they are not the same ones.

    One model may be a layer of the other: "weight" and "bias" are "1.weight" and "1.bias" in a Sequential.
    """
    for outer in ("", *_prefixes(wanted)):
        for inner in ("", *_prefixes(found)):
            names = {name: inner + name.removeprefix(outer) for name in wanted}
            if set(names.values()) == set(found) and all(found[names[k]].shape == v.shape for k, v in wanted.items()):
                return names
    return None


def _prefixes(names: Collection[str]) -> list[str]:
    """What all names begin with, up to a dot."""
    first = next(iter(names), "")
    beginnings = (first[: i + 1] for i, letter in enumerate(first) if letter == ".")
    return [begin for begin in beginnings if all(name.startswith(begin) for name in names)]


def _listed(values: Mapping[str, Tensor]) -> str:
    some = [f"{name} {tuple(v.shape)}" for name, v in values.items()]
    return ", ".join(some[:MOST_NAMED]) + (f" and {len(some) - MOST_NAMED} more" if len(some) > MOST_NAMED else "")
