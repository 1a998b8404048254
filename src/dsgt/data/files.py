"""Data sets from files: tables (.csv, .tsv, .parquet), tensors (.npz, .pt), folders of images.

Each gives (train, test). Where the files name no test samples, a share of all is kept for it, drawn with a seed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
import torch
from torch import Tensor

from dsgt.data.samples import Samples
from dsgt.extras import explained, require
from dsgt.factories import Factory, pairs, truth
from dsgt.text import nearest

Pair = tuple[Samples, Samples | None]
NAMES = (("x_train", "y_train", "x_test", "y_test"), ("features", "targets", "test_features", "test_targets"))
"""How tensors are called in a file: as Keras does, or as Samples do; the last two may be missing."""
PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}


def table(path: Path, *, target: str = "", test: float | str = 0.2, scale: bool = False, seed: int = 0) -> Pair:
    """A table with a column ``target`` and numbers in all others; whole numbers, words and truth values are classes.

    ``test`` is a share, or another table. With ``scale`` columns have mean 0 and deviation 1 over the training rows.
    """
    scale = truth("scale", scale)
    frame, target = _frame(path), str(target)
    if target not in frame.columns:
        if not target:
            raise ValueError(f"{path} needs a target: write {path}:target=COLUMN, one of {', '.join(frame.columns)}")
        raise ValueError(nearest(target, [str(c) for c in frame.columns], f"column of {path}"))
    if list(frame.columns) == [target]:
        raise ValueError(f"{path} has no column besides the target {target}; give it columns to learn from")
    words = [str(c) for c in frame.columns if c != target and frame[c].dtype.kind not in "biuf"]
    if words:
        raise ValueError(f"{', '.join(words)} in {path} are not numbers; leave these columns out, or encode them")
    other = None if not isinstance(test, str) else _frame(path.parent / test)
    if other is not None and list(other.columns) != list(frame.columns):
        raise ValueError(f"{test} has other columns than {path}; they must be the same, in the same order")
    columns = [part[target] for part in (frame, other) if part is not None]
    real = any(column.dtype.kind == "f" for column in columns)
    kinds = None if real else sorted({value for column in columns for value in column.tolist()})
    train, rest = _of_frame(frame, target, kinds), None if other is None else _of_frame(other, target, kinds)
    if rest is None:
        train, rest = split(train, float(test), seed)
    return _scaled(train, rest) if scale else (train, rest)


def _frame(path: Path) -> Any:
    with explained():
        import pandas as pd

    if path.suffix == ".parquet":
        require("pyarrow")
        frame = pd.read_parquet(path)
        names = [str(c) for c in frame.columns]
    else:
        separator = "\t" if path.suffix == ".tsv" else ","
        frame = pd.read_csv(path, sep=separator)
        head = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str)  # where names are as they were given
        names = head.iloc[0].dropna().tolist()
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{path} has several columns called {', '.join(twice)}; give each a name of its own")
    if frame.empty:
        raise ValueError(f"{path} has no rows below its header; give it at least one sample")
    return frame


def _of_frame(frame: Any, target: str, kinds: list[Any] | None) -> Samples:
    features = torch.from_numpy(frame.drop(columns=target).to_numpy(np.float64, copy=True))
    if kinds is None:
        return Samples(features, torch.from_numpy(frame[target].to_numpy(np.float64, copy=True)))
    place = {kind: i for i, kind in enumerate(kinds)}
    return Samples(features, torch.tensor([place[v] for v in frame[target].tolist()]))


def _scaled(train: Samples, test: Samples | None) -> Pair:
    mean, deviation = train.features.mean(dim=0), train.features.std(dim=0)
    deviation[deviation == 0] = 1.0

    def scaled(data: Samples) -> Samples:
        return Samples((data.features - mean) / deviation, data.targets)

    return scaled(train), None if test is None else scaled(test)


def tensors(path: Path, *, test: float = 0.2, seed: int = 0) -> Pair:
    """Arrays of a .npz file or of a dictionary in a .pt file, called x_train, y_train, x_test, y_test or features,
    targets, test_features, test_targets; or ((features, targets), (features, targets)) in a .pt file."""
    held = _npz(path) if path.suffix == ".npz" else _pt(path)
    if isinstance(held, tuple | list) and len(held) == 2:
        pairs = held if isinstance(held[0], tuple | list) else (held, None)
        held = dict(zip(NAMES[1], [*pairs[0], *(pairs[1] or ())], strict=False))
    if not isinstance(held, Mapping):
        raise ValueError(f"{path} holds a {type(held).__name__}; expected arrays called {' or '.join(map(str, NAMES))}")
    names = next((n for n in NAMES if {*n[:2]} <= held.keys()), None)
    if names is None:
        raise ValueError(
            f"{path} holds {', '.join(map(str, held)) or 'nothing'}; expected {' or '.join(map(str, NAMES))}"
        )
    train = Samples(_real(torch.as_tensor(held[names[0]])), torch.as_tensor(held[names[1]]).squeeze())
    if not {*names[2:]} <= held.keys():
        return split(train, test, seed)
    return train, Samples(_real(torch.as_tensor(held[names[2]])), torch.as_tensor(held[names[3]]).squeeze())


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
            f"{path} has {len(found)} folders; expected one folder of pictures for each of several classes"
        )
    return found


def _pictures(path: Path, kinds: list[str], size: int, grey: bool) -> Samples:
    with explained():
        from PIL import Image

    pixels, labels = [], []
    for number, kind in enumerate(kinds):
        for file in sorted(f for f in (path / kind).glob("*") if f.suffix.lower() in PICTURES):
            with Image.open(file) as picture:
                small = picture.convert("L" if grey else "RGB").resize((size, size))
            pixels.append(np.asarray(small, dtype=np.uint8).reshape(size, size, -1))
            labels.append(number)
    if not pixels:
        raise ValueError(f"{path} has no pictures; expected files that end in {', '.join(sorted(PICTURES))}")
    return Samples(_real(torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)), torch.tensor(labels))


def split(data: Samples, test: float, seed: int) -> Pair:
    """This share for testing, drawn with this seed; none where it is 0."""
    if not 0 <= test < 1:
        raise ValueError(f"test is {test}, but it is the share of samples kept for testing: 0 <= test < 1")
    if seed < 0:
        raise ValueError(f"seed is {seed}; seeds are whole numbers from 0 on")
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(data)))
    kept = round(test * len(data))
    train, rest = (Samples(data.features[i], data.targets[i]) if len(i) else None for i in (order[kept:], order[:kept]))
    if train is None:
        raise ValueError(f"of {len(data)} samples {kept} are kept for testing, and none is left to train with")
    return train, rest


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
