"""MNIST, Fashion-MNIST, CIFAR-100 and FEMNIST, from small made-up files of the real ones' format."""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsgt.data import cifar100, fashion_mnist, femnist, mnist
from dsgt.data.cifar import CIFAR10, CIFAR100, PIXELS
from dsgt.data.femnist import read_json
from dsgt.data.mnist import FASHION, FILES, MNIST, read_bytes
from dsgt.data.names import DATA, named_data, named_partition

RNG = np.random.default_rng(0)
IMAGES, LABELS = RNG.integers(0, 256, (7, 28, 28), dtype=np.uint8), np.arange(7, dtype=np.uint8)
TEST_IMAGES, TEST_LABELS = RNG.integers(0, 256, (3, 28, 28), dtype=np.uint8), np.array([9, 0, 4], dtype=np.uint8)


def idx(array: np.ndarray[Any, np.dtype[np.uint8]]) -> bytes:
    """As yann.lecun.com described it: zero, zero, 8 for bytes, the number of dimensions, their lengths, the bytes."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder: Path, *, compressed: bool) -> Path:
    folder.mkdir(parents=True)
    for name, array in zip(FILES, (IMAGES, LABELS, TEST_IMAGES, TEST_LABELS), strict=True):
        path = folder / (f"{name}.gz" if compressed else name)
        path.write_bytes(gzip.compress(idx(array)) if compressed else idx(array))
    return folder


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize(("reader", "which"), [(mnist, MNIST), (fashion_mnist, FASHION)])
def test_mnist_is_read_and_standardised(tmp_path: Path, reader: Any, which: Any, compressed: bool) -> None:
    write_mnist(tmp_path / which.folder, compressed=compressed)
    train, test = reader(tmp_path, dtype=torch.float64)
    assert train.targets.tolist() == LABELS.tolist()
    assert test.targets.tolist() == TEST_LABELS.tolist()
    expected = (TEST_IMAGES[2, 5, 9] - IMAGES.mean()) / IMAGES.std()
    assert test.features.shape == (3, 1, 28, 28)
    assert float(test.features[2, 0, 5, 9]) == pytest.approx(expected, rel=1e-12)
    assert torch.equal(reader(tmp_path, images=False, dtype=torch.float64)[0].features, train.features.flatten(1))


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda good: good[:-1],
    "too long": lambda good: good + b"\0",
    "of labels": lambda good: idx(LABELS),
    "of another kind": lambda good: good[:2] + b"\x0d" + good[3:],
    "of too many": lambda good: good[:4] + b"\xff\xff\xff\xff" + good[8:],
    "empty": lambda good: b"",
    "of none": lambda good: good[:4] + b"\0\0\0\0" + good[8:],
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_of_images_is_refused(tmp_path: Path, damage: str) -> None:
    (tmp_path / "images").write_bytes(DAMAGED[damage](idx(IMAGES)))
    with pytest.raises(ValueError, match=r"images is no file of images.*download the data set again"):
        read_bytes(tmp_path, "images", 3)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(head=st.binary(max_size=20), rest=st.binary(max_size=40))
def test_bytes_of_any_kind_are_read_or_refused(tmp_path: Path, head: bytes, rest: bytes) -> None:
    (tmp_path / "images.gz").write_bytes(head + rest)
    (tmp_path / "labels").write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, len(rest)) + rest)
    with pytest.raises(ValueError, match="damaged"):
        read_bytes(tmp_path, "images", 3)
    if rest:
        assert read_bytes(tmp_path, "labels", 1).tolist() == list(rest)


def test_labels_that_do_not_fit_their_images_are_refused(tmp_path: Path) -> None:
    folder = write_mnist(tmp_path / MNIST.folder, compressed=False)
    (folder / FILES[1]).write_bytes(idx(LABELS[:-1]))
    with pytest.raises(ValueError, match=r"7 images of .* and 6 labels"):
        mnist(tmp_path)


def test_files_are_downloaded_together_or_not_at_all(tmp_path: Path) -> None:
    served = write_mnist(tmp_path / "served", compressed=True)
    urls = {path.as_uri(): hashlib.md5(path.read_bytes()).hexdigest() for path in sorted(served.iterdir())}
    folder = replace(MNIST, urls=urls).locate(tmp_path / "good", download=True)
    assert sorted(p.name for p in folder.iterdir()) == sorted(f"{name}.gz" for name in FILES)
    assert len(mnist(tmp_path / "good")[0]) == 7
    wrong = urls | {next(reversed(urls)): "0123"}
    with pytest.raises(ValueError, match="but 0123 is published"):
        replace(MNIST, urls=wrong).locate(tmp_path / "bad", download=True)
    assert [p for p in (tmp_path / "bad").rglob("*") if p.is_file()] == []
    with pytest.raises(FileNotFoundError, match=r"MNIST is not in .* Put 4 files of https://ossci.*download=True"):
        mnist(tmp_path / "bad", download=False)


@pytest.mark.parametrize("which", [MNIST, FASHION, CIFAR10, CIFAR100], ids=lambda p: p.title)
def test_every_address_has_a_checksum_and_names_a_file_of_the_set(which: Any) -> None:
    assert all(len(md5) == 32 and int(md5, 16) for md5 in which.urls.values())
    if len(which.urls) > 1:
        assert [url.rpartition("/")[2] for url in which.urls] == [f"{name}.gz" for name in which.files]


def test_cifar100_is_read_with_its_fine_labels(tmp_path: Path) -> None:
    folder = tmp_path / CIFAR100.folder
    folder.mkdir()
    held = {name: RNG.integers(0, 256, (4, PIXELS), dtype=np.uint8) for name in ("train", "test")}
    for name, pixels in held.items():
        batch = {b"data": pixels, b"fine_labels": [99, 0, 5, 7], b"coarse_labels": [1, 2, 3, 4]}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    train, test = cifar100(tmp_path, dtype=torch.float64)
    assert train.targets.tolist() == [99, 0, 5, 7]
    green = held["train"].reshape(4, 3, 1024)[:, 1]
    assert float(test.features[3, 1, 2, 4]) == pytest.approx(
        (held["test"].reshape(4, 3, 32, 32)[3, 1, 2, 4] - green.mean()) / green.std(), rel=1e-12
    )


def leaf(users: dict[str, list[int]], grey: float) -> dict[str, Any]:
    data = {u: {"x": [[grey] * 783 + [t / 61] for t in y], "y": y} for u, y in users.items()}
    return {"users": list(users), "num_samples": [len(y) for y in users.values()], "user_data": data}


def write_leaf(folder: Path) -> None:
    files = {
        "train/all_data_0_niid_0_keep_0_train_9.json": {"f0001_41": [3, 61, 0], "f0002_10": [5]},
        "train/all_data_1_niid_0_keep_0_train_9.json": {"f0003_07": [1, 1], "f0004_00": []},
        "test/all_data_0_niid_0_keep_0_test_9.json": {"f0001_41": [3], "f0003_07": [2]},
    }
    for name, users in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(leaf(users, 1.0)))


@pytest.mark.parametrize("place", ["femnist", "data/femnist/data", "."])
def test_femnist_is_read_with_its_writers(tmp_path: Path, place: str) -> None:
    write_leaf(tmp_path / place)
    train, test = femnist(tmp_path, dtype=torch.float64)
    assert train.features.shape == (6, 1, 28, 28)
    assert train.targets.tolist() == [3, 61, 0, 5, 1, 1]
    assert train.groups is not None
    assert test.groups is not None
    assert train.groups.tolist() == [0, 0, 0, 1, 2, 2]
    assert test.groups.tolist() == [0, 2]
    assert float(train.features[3, 0, 27, 27]) == 5 / 61
    assert float(train.features[3, 0, 27, 26]) == 1.0
    shards = named_partition("groups", train, 2, seed=1)
    for shard in shards:  # who wrote a sample here wrote none elsewhere
        assert set(train.groups[shard].tolist()).isdisjoint(
            train.groups[[i for i in range(6) if i not in shard.tolist()]].tolist()
        )
    with pytest.raises(ValueError, match="3 groups cannot be dealt to 4 nodes"):
        named_partition("groups", train, 4, seed=1)


def test_groups_need_to_be_known() -> None:
    with pytest.raises(ValueError, match="do not say who made them"):
        named_partition("groups", named_data("digits", images=False)[0], 2, seed=0)


WRONG: dict[str, Callable[[Any], Any]] = {
    "no table": lambda good: [good],
    "no data": lambda good: {"users": []},
    "a class too many": lambda good: leaf({"a": [62]}, 0.0),
    "a row too short": lambda good: {"user_data": {"a": {"x": [[0.0] * 783], "y": [1]}}},
    "words for numbers": lambda good: {"user_data": {"a": {"x": [["0"] * 784], "y": [1]}}},
    "fewer classes": lambda good: {"user_data": {"a": {"x": [[0.0] * 784] * 2, "y": [1]}}},
    "nobody": lambda good: {"user_data": {}},
}


@pytest.mark.parametrize("damage", WRONG)
def test_a_damaged_file_of_leaf_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(WRONG[damage](leaf({"a": [1]}, 0.0))))
    with pytest.raises(ValueError, match=r"x\.json .*make it again"):
        read_json(path)
    path.write_bytes(b'{"user_data": ')
    with pytest.raises(ValueError, match="is no file of LEAF's FEMNIST"):
        read_json(path)


def test_who_has_no_files_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSGT_DATA", raising=False)
    for name in DATA[1:]:
        with pytest.raises(FileNotFoundError, match=r"where is .*--data-dir"):
            named_data(name, images=True)
    with pytest.raises(FileNotFoundError, match=f"it is not in {tmp_path}"):
        femnist(tmp_path)
