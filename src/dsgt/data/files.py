"""Data sets from files: tensors (.npz, .pt), folders of images, and tables (.csv, .tsv, .parquet).

Each gives (train, test). Where the files name no test samples, a share of all is kept for it, drawn with a seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
import torch
from torch import Tensor

from dsgt.data.samples import Samples
from dsgt.data.split import Pair, split
from dsgt.data.tables import table
from dsgt.extras import explained
from dsgt.factories import Factory, pairs, truth
from dsgt.text import listed

NAMES = (("x_train", "y_train", "x_test", "y_test"), ("features", "targets", "test_features", "test_targets"))
"""How tensors are called in a file: as Keras does, or as Samples do; the last two may be missing."""
PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}


def tensors(path: Path, *, test: float = 0.2, seed: int = 0) -> Pair:
    """Arrays of a .npz file or of a dictionary in a .pt file, called x_train, y_train, x_test, y_test or features,
    targets, test_features, test_targets; or ((features, targets), (features, targets)) in a .pt file."""
    held = _npz(path) if path.suffix == ".npz" else _pt(path)
    if isinstance(held, tuple | list) and len(held) == 2:
        pairs = held if isinstance(held[0], tuple | list) else (held, None)
        held = dict(zip(NAMES[1], [*pairs[0], *(pairs[1] or ())], strict=False))
    if not isinstance(held, Mapping):
        raise ValueError(f"{path} holds a {type(held).__name__}; expected arrays called {' or '.join(map(str, NAMES))}")
    _check_names(path, [*map(str, held)])
    names = next((n for n in NAMES if {*n[:2]} <= held.keys()), None)
    if names is None:
        raise ValueError(
            f"{path} holds {', '.join(map(str, held)) or 'nothing'}; expected {' or '.join(map(str, NAMES))}"
        )
    train = Samples(_real(torch.as_tensor(held[names[0]])), torch.as_tensor(held[names[1]]).squeeze())
    if not {*names[2:]} <= held.keys():
        return split(train, test, seed)
    return train, Samples(_real(torch.as_tensor(held[names[2]])), torch.as_tensor(held[names[3]]).squeeze())


def _check_names(path: Path, held: list[str]) -> None:
    """Test samples that nobody would look at: half of a pair, and names that are almost right."""
    known = [name for names in NAMES for name in names]
    for name in held:
        if name not in known and (meant := name.lower()) in known and meant not in held:
            raise ValueError(f"{path} holds {name}; did you mean {meant}?")
    for names in NAMES:
        if {*names[:2]} <= {*held} and (other := [name for name in held if name in known and name not in names]):
            raise ValueError(f"{path} holds {', '.join(other)} beside {listed(names[:2])}; call them {listed(names)}")
        for pair in (names[:2], names[2:]):
            if len(half := [name for name in pair if name in held]) == 1:
                lacking = next(name for name in pair if name not in held)
                raise ValueError(f"{path} holds {half[0]} but no {lacking}; give both of them")


def _npz(path: Path) -> dict[str, Any]:
    if not is_zipfile(path):
        raise ValueError(f"{path} is not an .npz file; write it with numpy.savez")
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def _pt(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch says in many lines what else it might load
        raise ValueError(
            f"{path} holds no tensors, or other things beside them (a module, objects); write it with torch.save, and "
            f"only tensors, called {' or '.join(map(str, NAMES))}"
        ) from None


def _real(features: Tensor) -> Tensor:
    """Bytes are pixels: in [0, 1], channels first."""
    if features.dtype != torch.uint8:
        return features if features.is_floating_point() else features.float()
    if features.ndim == 3:
        features = features[:, None]
    elif features.ndim == 4 and features.shape[-1] in (1, 3) and features.shape[1] not in (1, 3):
        features = features.permute(0, 3, 1, 2)
    return features.float() / 255


def images(path: Path, *, size: int = 32, grey: bool = False, test: float = 0.2, seed: int = 0) -> Pair:
    """A folder with one folder of pictures per class, or with two such, called train and test; size x size pixels."""
    grey, parts = truth("grey", grey), [path / "train", path / "test"]
    if not all(part.is_dir() for part in parts):
        return split(_pictures(path, _classes(path), size, grey), test, seed)
    kinds = _classes(parts[0])
    if unknown := set(_classes(parts[1])) - set(kinds):
        raise ValueError(f"{parts[1]} has the classes {', '.join(sorted(unknown))}, which {parts[0]} does not have")
    return _pictures(parts[0], kinds, size, grey), _pictures(parts[1], kinds, size, grey)


def _classes(path: Path) -> list[str]:
    found = sorted(folder.name for folder in path.iterdir() if folder.is_dir() and folder.name[0] != ".")
    if len(found) < 2:
        raise ValueError(
            f"{path} has {len(found)} folder{'s' * (len(found) != 1)}; expected one folder of pictures for each of "
            "several classes"
        )
    return found


def _pictures(path: Path, kinds: list[str], size: int, grey: bool) -> Samples:
    with explained():
        from PIL import Image

    pixels, labels = [], []
    files = {kind: sorted(f for f in (path / kind).glob("*") if f.suffix.lower() in PICTURES) for kind in kinds}
    if empty := [kind for kind in kinds if not files[kind] and (path / kind).is_dir()]:
        raise ValueError(
            f"{path} has no pictures in {listed(empty)} (files that end in {', '.join(sorted(PICTURES))}), but every "
            "folder is a class; fill it, or take it away"
        )
    for number, kind in enumerate(kinds):
        for file in files[kind]:
            with Image.open(file) as picture:
                small = picture.convert("L" if grey else "RGB").resize((size, size))
            pixels.append(np.asarray(small, dtype=np.uint8).reshape(size, size, -1))
            labels.append(number)
    return Samples(_real(torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)), torch.tensor(labels))


def data_file(text: str) -> Factory | None:
    """``PATH`` or ``PATH:KEY=VALUE,...``; None where that names neither a file of such a kind nor a folder."""
    return _data_file(text, os.getcwd())


@lru_cache(maxsize=8)  # the same object again, so that what it loaded once is found again
def _data_file(text: str, folder: str) -> Factory | None:
    name, colon, given = text.partition(":")
    path = Path(name)
    reader = images if path.is_dir() else READERS.get(path.suffix)
    if reader is None:
        return None
    if not path.exists():
        raise ValueError(f"there is no file {name} in {folder}")
    return Factory(text, "data", partial(reader, path), pairs(text, given) if colon else {})


READERS: dict[str, Callable[..., Pair]] = {
    ".csv": table, ".tsv": table, ".parquet": table, ".npz": tensors, ".pt": tensors, ".pth": tensors,
}  # fmt: skip
