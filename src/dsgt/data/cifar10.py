"""CIFAR-10: 60,000 colour images of 32 x 32 pixels in 10 classes (Krizhevsky, 2009), as its authors ship it.

The files are pickles, which can run any code when they are loaded; here they are read by an unpickler that knows
arrays and nothing else.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dsgt.data.download import download_archive
from dsgt.data.samples import Samples

FOLDER = "cifar-10-batches-py"
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
MD5 = "c58f30108f718f92721af3b95e74349a"
VARIABLE = "DSGT_DATA"
TRAIN = [f"data_batch_{i}" for i in range(1, 6)]
TEST = ["test_batch"]
YES = ("y", "Y", "yes", "Yes", "YES")
PIXELS = 3 * 32 * 32
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Of each colour over the training images, on the scale 0 ... 1."""


def cifar10(
    root: Path | str | None = None,
    *,
    images: bool = True,
    dtype: torch.dtype = torch.float32,
    download: bool | None = None,
) -> tuple[Samples, Samples]:
    """Training and test samples: normalised colours, as images (N, 3, 32, 32) or as vectors (N, 3072).

    ``root`` is the directory that holds ``cifar-10-batches-py``; without it, the environment variable DSGT_DATA says.
    If the folder is missing it is downloaded (170 MB) when ``download`` is True, or when it is None and somebody at
    the terminal agrees.
    """
    folder = locate(root, download=download)
    return tuple(_samples(folder, names, images, dtype) for names in (TRAIN, TEST))  # type: ignore[return-value]


def locate(root: Path | str | None, *, download: bool | None, url: str = URL, md5: str = MD5) -> Path:
    """The folder with the batches, downloaded first if it is missing and that is agreed to."""
    base = root if root is not None else os.environ.get(VARIABLE)
    if base is None:
        raise FileNotFoundError(
            f"where is CIFAR-10? Name the directory that holds or shall hold {FOLDER}: with --data-dir on the command "
            f"line, as cifar10(root) in Python, or in the environment variable {VARIABLE}"
        )
    folder = Path(base).expanduser() / FOLDER
    missing = [name for name in TRAIN + TEST if not (folder / name).is_file()]
    if not missing:
        return folder
    if folder.exists():
        raise FileNotFoundError(
            f"{folder} has no {', '.join(missing)}: the copy is incomplete; delete the folder to have it downloaded "
            f"again, or unpack {url} there"
        )
    if download is None and sys.stdin.isatty():
        download = input(f"CIFAR-10 is not in {folder.parent}. Download it from {url} (170 MB)? [y/N] ").strip() in YES
    if not download:
        raise FileNotFoundError(
            f"CIFAR-10 is not in {folder.parent}. Unpack {url} so that {folder} exists; or say yes when a command asks "
            "in a terminal; or call dsgt.data.cifar10(root, download=True) in Python"
        )
    download_archive(url, md5, folder)
    return folder


class _ArraysOnly(pickle._Unpickler):
    """Knows NumPy arrays and byte strings; everything else in a pickle is refused before it runs.

    Python's own reader, not C's: that one keeps a table as long as the largest number in the file says."""

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Any] = {
            ("multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],  # wherever this NumPy keeps it
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("_codecs", "encode"): lambda text, encoding: str(text).encode(str(encoding)),
        }
        short = "multiarray" if module in ("numpy.core.multiarray", "numpy._core.multiarray") else module
        if (short, name) not in known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which a batch of images never needs")
        return known[short, name]


def read_batch(path: Path) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], list[int]]:
    """Pixels (N, 3072) and labels of one file; anything but that is refused."""
    try:
        with path.open("rb") as file:
            batch = _ArraysOnly(file, encoding="bytes").load()
        pixels, labels = batch[b"data"], batch[b"labels"]
        good = isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.shape == (len(labels), PIXELS)
        good = good and len(labels) > 0 and all(isinstance(t, int) and 0 <= t < 10 for t in labels)
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise ValueError(f"{path} is no CIFAR-10 batch, or is damaged ({error}); {_AGAIN}") from error
    if not good:
        raise ValueError(f"{path} does not hold rows of {PIXELS} bytes with labels 0 ... 9; {_AGAIN}")
    return pixels, labels


_AGAIN = "delete its folder and download the data set again"


def _samples(folder: Path, names: list[str], images: bool, dtype: torch.dtype) -> Samples:
    batches = [read_batch(folder / name) for name in names]
    pixels = torch.from_numpy(np.concatenate([p for p, _ in batches])).view(-1, 3, 32, 32)
    mean, deviation = (torch.tensor(c, dtype=dtype).view(3, 1, 1) for c in (MEAN, DEVIATION))
    features = pixels.to(dtype).div_(255).sub_(mean).div_(deviation)
    labels = torch.tensor([t for _, some in batches for t in some])
    return Samples(features if images else features.flatten(1), labels)
