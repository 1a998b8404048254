"""MNIST (LeCun et al., 1998) and Fashion-MNIST (Xiao et al., 2017): 70,000 grey images of 28 x 28 pixels in 10 classes.

The files hold a few numbers, most significant byte first (how many dimensions, how long each is), and then bytes.
"""

from __future__ import annotations

import gzip
import zlib
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from dsgt.data.images import standardised
from dsgt.data.published import Published
from dsgt.data.samples import Samples

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
MNIST = Published(
    "MNIST",
    "MNIST/raw",
    FILES,
    {
        f"{_MNIST}train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        f"{_MNIST}train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        f"{_MNIST}t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        f"{_MNIST}t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
)
FASHION = Published(
    "Fashion-MNIST",
    "FashionMNIST/raw",
    FILES,
    {
        f"{_FASHION}train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        f"{_FASHION}train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        f"{_FASHION}t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        f"{_FASHION}t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    },
)
LIMIT = 1 << 28
"""Bytes that a reader is willing to read; the real files have 47 million."""


def mnist(
    root: Path | str | None = None,
    *,
    images: bool = True,
    dtype: torch.dtype = torch.float32,
    download: bool | None = None,
) -> tuple[Samples, Samples]:
    """Training and test samples: pixels of mean 0 and deviation 1, as images (N, 1, 28, 28) or as vectors (N, 784).

    ``root`` is the directory that holds ``MNIST/raw``, as torchvision lays it out; without it, the environment
    variable DSGT_DATA says. If the folder is missing it is downloaded when ``download`` is True, or when it is None and
    somebody at the terminal agrees.
    """
    return _read(MNIST, root, images, dtype, download)


def fashion_mnist(
    root: Path | str | None = None,
    *,
    images: bool = True,
    dtype: torch.dtype = torch.float32,
    download: bool | None = None,
) -> tuple[Samples, Samples]:
    """As ``mnist``; ``root`` holds ``FashionMNIST/raw``."""
    return _read(FASHION, root, images, dtype, download)


def _read(
    which: Published, root: Path | str | None, images: bool, dtype: torch.dtype, download: bool | None
) -> tuple[Samples, Samples]:
    folder = which.locate(root, download=download)
    pixels, test_pixels = (read_bytes(folder, name, 3) for name in FILES[::2])
    labels, test_labels = (read_bytes(folder, name, 1) for name in FILES[1::2])
    for some, told in ((pixels, labels), (test_pixels, test_labels)):
        if len(some) != len(told) or pixels.shape[1:] != some.shape[1:] or int(told.max()) > 9:
            raise ValueError(
                f"{folder} holds {len(some)} images of {tuple(some.shape[1:])} pixels and {len(told)} labels up to "
                f"{int(told.max())}; expected as many labels as images, 0 ... 9: {_AGAIN}"
            )
    train, test = standardised(pixels[:, None], test_pixels[:, None], images=images, dtype=dtype)
    return Samples(train, labels.long()), Samples(test, test_labels.long())


def read_bytes(folder: Path, name: str, dimensions: int) -> Tensor:
    """A file of bytes in so many dimensions, compressed or not; anything but that is refused."""
    path = folder / name
    try:
        with path.open("rb") if path.is_file() else gzip.open(path := folder / f"{name}.gz", "rb") as file:
            kind, *shape = (int.from_bytes(file.read(4), "big") for _ in range(1 + dimensions))
            if kind != 0x0800 + dimensions or not 0 < prod(shape) <= LIMIT:
                raise ValueError(f"its head is {[kind, *shape]}, not {[0x0800 + dimensions]} and {dimensions} lengths")
            content = bytearray(file.read(prod(shape) + 1))
        if len(content) != prod(shape):
            raise ValueError(f"its head tells of {prod(shape)} bytes, which are not what follows")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} is no file of images or labels, or is damaged ({error}); {_AGAIN}") from error
    return torch.frombuffer(content, dtype=torch.uint8).view(shape)


_AGAIN = "delete its folder and download the data set again"
