"""CIFAR-10 and CIFAR-100: 60,000 colour images of 32 x 32 pixels in 10 or 100 classes (Krizhevsky, 2009), as their
author ships them.

The files are pickles, which can run any code when they are loaded; here they are read by an unpickler that knows
arrays and nothing else.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dsgt.data.images import standardised
from dsgt.data.published import Published
from dsgt.data.samples import Samples

TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST = ("test_batch",)
CIFAR10 = Published(
    "CIFAR-10",
    "cifar-10-batches-py",
    TRAIN + TEST,
    {"https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"},
    " (170 MB)",
)
CIFAR100 = Published(
    "CIFAR-100",
    "cifar-100-python",
    ("train", "test"),
    {"https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85"},
)
PIXELS = 3 * 32 * 32
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Of each colour over the training images of CIFAR-10, on the scale 0 ... 1."""


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
    folder = CIFAR10.locate(root, download=download)
    mean, deviation = (torch.tensor(c, dtype=dtype).view(3, 1, 1) for c in (MEAN, DEVIATION))

    def samples(names: tuple[str, ...]) -> Samples:
        batches = [read_batch(folder / name) for name in names]
        pixels = torch.from_numpy(np.concatenate([p for p, _ in batches])).view(-1, 3, 32, 32)
        features = pixels.to(dtype).div_(255).sub_(mean).div_(deviation)
        labels = torch.tensor([t for _, some in batches for t in some])
        return Samples(features if images else features.flatten(1), labels)

    return samples(TRAIN), samples(TEST)


def cifar100(
    root: Path | str | None = None,
    *,
    images: bool = True,
    dtype: torch.dtype = torch.float32,
    download: bool | None = None,
) -> tuple[Samples, Samples]:
    """Training and test samples with their fine labels, as ``cifar10`` gives them; ``root`` holds
    ``cifar-100-python``. Every colour has mean 0 and deviation 1 over the training images."""
    folder = CIFAR100.locate(root, download=download)
    read = [read_batch(folder / name, labels=b"fine_labels", classes=100) for name in CIFAR100.files]
    pixels = [torch.from_numpy(p).view(-1, 3, 32, 32) for p, _ in read]
    train, test = standardised(*pixels, images=images, dtype=dtype)
    return Samples(train, torch.tensor(read[0][1])), Samples(test, torch.tensor(read[1][1]))


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


def read_batch(
    path: Path, *, labels: bytes = b"labels", classes: int = 10
) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], list[int]]:
    """Pixels (N, 3072) and labels of one file; anything but that is refused."""
    try:
        with path.open("rb") as file:
            batch = _ArraysOnly(file, encoding="bytes").load()
        pixels, found = batch[b"data"], batch[labels]
        good = isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.shape == (len(found), PIXELS)
        good = good and len(found) > 0 and all(isinstance(t, int) and 0 <= t < classes for t in found)
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise ValueError(f"{path} is no CIFAR-{classes} batch, or is damaged ({error}); {_AGAIN}") from error
    if not good:
        raise ValueError(f"{path} does not hold rows of {PIXELS} bytes with labels 0 ... {classes - 1}; {_AGAIN}")
    return pixels, found


_AGAIN = "delete its folder and download the data set again"
