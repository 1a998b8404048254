"""Data sets: checked once, read safely, fetched whole or not at all."""

import functools
import hashlib
import http.server
import io
import os
import pickle
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from dsgt.data import Full, Samples, cifar10, digits, partition, synthetic
from dsgt.data.cifar import CIFAR10, TEST, TRAIN, read_batch
from dsgt.data.published import VARIABLE
from dsgt.data.samples import as_samples
from dsgt.problems import LeastSquares, Logistic

FEATURES, LABELS = torch.arange(12.0).view(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])


def test_digits_are_real_split_by_seed_and_scaled() -> None:
    train, test = digits()
    assert (len(train), len(test)) == (1438, 359)
    assert train.features.shape == (1438, 64)
    assert digits(images=True)[0].features.shape == (1438, 1, 8, 8)
    assert float(train.features.max()) == 1
    assert train.classes == 10
    assert torch.equal(digits(seed=1)[0].targets, digits(seed=1)[0].targets)
    assert not torch.equal(digits(seed=1)[0].targets, train.targets)


@pytest.mark.parametrize("way", ["file", "loader"])
def test_digits_are_those_of_scikit_learn_with_and_without_importing_it(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "loader":
        monkeypatch.setattr(sys.modules["dsgt.data.digits"], "find_spec", lambda name: None)
    pixels, labels = load_digits(return_X_y=True)
    train, test = digits(dtype=torch.float64)
    order = np.random.default_rng(0).permutation(len(labels))
    assert torch.equal(torch.cat([test.features, train.features]), torch.from_numpy(pixels[order]) / 16)
    assert torch.equal(torch.cat([test.targets, train.targets]), torch.from_numpy(labels[order]).long())


@pytest.mark.parametrize("kind", ["least squares", "classification"])
def test_heterogeneity_is_how_much_the_nodes_disagree(kind: str) -> None:
    def disagreement(h: float) -> float:
        if kind == "least squares":
            problem: Any = LeastSquares(*synthetic.least_squares([200] * 5, 3, heterogeneity=h), Full())
        else:
            problem = Logistic(*synthetic.classification([200] * 5, 3, heterogeneity=h), Full())
        x = torch.zeros(5, problem.dim)
        g = problem.oracle(0)(x, 0)
        return float((g - g.mean(dim=0)).norm())

    assert disagreement(0.0) < 0.5 * disagreement(1.0) < 0.5 * disagreement(4.0)


class Squares(Dataset[tuple[torch.Tensor, int]]):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        if i >= 5:
            raise IndexError
        return torch.tensor([float(i), float(i * i)]), i % 2


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([])


def test_a_pair_of_tensors_and_any_torch_dataset_are_samples() -> None:
    assert torch.equal(as_samples((FEATURES, LABELS)).features, FEATURES)
    assert torch.equal(as_samples(TensorDataset(FEATURES, LABELS)).targets, LABELS)
    squares = as_samples(Squares())
    assert squares.features.tolist() == [[0, 0], [1, 1], [2, 4], [3, 9], [4, 16]]
    assert squares.targets.tolist() == [0, 1, 0, 1, 0]
    assert Logistic(Squares(), partition.equal(5, 2), Full()).dim == 3


def with_nan(i: int) -> torch.Tensor:
    bad = FEATURES.clone()
    bad[i, 1] = float("nan")
    return bad


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: Samples(with_nan(4), LABELS), "features of sample 4 are not finite"),
    (lambda: Samples(FEATURES, with_nan(3)[:, 1]), "targets of sample 3 are not finite"),
    (lambda: Samples(FEATURES.long(), LABELS), "real tensor"),
    (lambda: Samples(FEATURES[:, 0], LABELS), r"features\[:, None\]"),
    (lambda: Samples(FEATURES, LABELS[:4]), "one target per sample"),
    (lambda: Samples(FEATURES[:0], LABELS[:0]), "at least one sample"),
    (lambda: Samples(FEATURES, LABELS - 1), "sample 0 has the label -1"),
    (lambda: Samples(FEATURES, FEATURES[:, 0]).classes, "whole number"),
    (lambda: as_samples(Stream()), "no length"),
    (lambda: as_samples([1, 2]), "pair"),  # type: ignore[arg-type]
    (lambda: digits(test=1.5), "test is 1.5"),
    (lambda: synthetic.least_squares([3, 0], 2), "at least one"),
    (lambda: synthetic.classification([3], 2, classes=1), "at least 2"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_data_is_refused_with_a_reason(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


# --- CIFAR-10, from small made-up files -------------------------------------------------------------------------


def batch(count: int = 4, seed: int = 0) -> dict[bytes, Any]:
    rng = np.random.default_rng(seed)
    return {
        b"data": rng.integers(0, 256, (count, 3072), dtype=np.uint8),
        b"labels": rng.integers(0, 10, count).tolist(),
    }


def write(root: Path) -> Path:
    folder = root / CIFAR10.folder
    folder.mkdir(parents=True)
    for i, name in enumerate(TRAIN + TEST):
        (folder / name).write_bytes(pickle.dumps(batch(seed=i), protocol=2))
    return folder


def test_cifar10_reads_the_authors_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    train, test = cifar10(tmp_path)
    assert train.features.shape == (20, 3, 32, 32)
    assert test.targets.tolist() == batch(seed=5)[b"labels"]
    blue = batch(seed=1)[b"data"][2, 2048 + 32 * 5 + 7] / 255  # the second file's third image, plane 2, row 5, column 7
    assert float(train.features[6, 2, 5, 7]) == pytest.approx((blue - 0.4465) / 0.2616, rel=1e-5)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert torch.equal(cifar10(images=False)[0].features, train.features.flatten(1))


def test_cifar10_says_both_ways_out_when_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"Unpack https.*exists.*download=True"):
        cifar10(tmp_path, download=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(FileNotFoundError, match="DSGT_DATA"):
        cifar10()
    assert list(tmp_path.iterdir()) == []


def test_an_incomplete_folder_is_named(tmp_path: Path) -> None:
    (write(tmp_path) / "data_batch_3").unlink()
    with pytest.raises(FileNotFoundError, match="has no data_batch_3"):
        cifar10(tmp_path)


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("evil-was-here",)


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda good: good[: len(good) // 2],
    "not a pickle": lambda _: b"<html>404</html>",
    "empty": lambda _: b"",
    "runs code": lambda _: pickle.dumps({b"data": Evil(), b"labels": []}),
    "wrong shape": lambda _: pickle.dumps({b"data": np.zeros((2, 5), np.uint8), b"labels": [0, 1]}),
    "wrong labels": lambda _: pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]}),
    "no labels": lambda _: pickle.dumps({b"data": np.zeros((1, 3072), np.uint8)}),
    "a list": lambda _: pickle.dumps([1, 2, 3]),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_batch_is_refused_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data_batch_1"
    path.write_bytes(DAMAGED[damage](pickle.dumps(batch(), protocol=2)))
    with pytest.raises(ValueError, match=r"data_batch_1 .*download the data set again"):
        read_batch(path)
    assert not (tmp_path / "evil-was-here").exists()


def test_pickles_of_old_and_new_numpy_are_read(tmp_path: Path) -> None:
    new = pickle.dumps(batch(), protocol=2)
    for name in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        path = tmp_path / "batch"
        path.write_bytes(new.replace(b"numpy._core.multiarray", name).replace(b"numpy.core.multiarray", name))
        assert np.array_equal(read_batch(path)[0], batch()[b"data"])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """An address on this machine, and the folder it serves."""
    served = tmp_path / "served"
    served.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(served))) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{web.server_port}/archive.tar.gz", served
        web.shutdown()
        thread.join()


def archive(root: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(write(root), arcname=CIFAR10.folder)
    return buffer.getvalue()


def test_a_missing_data_set_is_downloaded_checked_and_unpacked(tmp_path: Path, server: tuple[str, Path]) -> None:
    url, served = server
    content = archive(tmp_path / "made")
    (served / "archive.tar.gz").write_bytes(content)
    folder = replace(CIFAR10, urls={url: hashlib.md5(content).hexdigest()}).locate(tmp_path / "data", download=True)
    assert sorted(p.name for p in folder.iterdir()) == sorted(TRAIN + TEST)
    assert [p.name for p in (tmp_path / "data").iterdir()] == [CIFAR10.folder]  # nothing temporary stays
    assert len(cifar10(tmp_path / "data")[0]) == 20


@pytest.mark.parametrize("agreed", [True, False])
def test_somebody_at_the_terminal_is_asked(
    tmp_path: Path, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, agreed: bool
) -> None:
    url, served = server
    content = archive(tmp_path / "made")
    (served / "archive.tar.gz").write_bytes(content)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "y" if agreed else "")
    call = functools.partial(
        replace(CIFAR10, urls={url: hashlib.md5(content).hexdigest()}).locate, tmp_path / "data", download=None
    )
    if agreed:
        assert call().is_dir()
    else:
        with pytest.raises(FileNotFoundError, match="download=True"):
            call()


@pytest.mark.parametrize("damage", ["wrong checksum", "truncated archive", "other archive", "not found", "no server"])
def test_a_failed_download_says_why_and_leaves_nothing(tmp_path: Path, server: tuple[str, Path], damage: str) -> None:
    url, served = server
    content = archive(tmp_path / "made")
    md5 = hashlib.md5(content).hexdigest()
    expected = {
        "wrong checksum": "but 0123 is published",
        "truncated archive": "cannot be unpacked",
        "other archive": f"holds no folder {CIFAR10.folder}",
        "not found": "cannot be reached",
        "no server": "Either try again with a network, or download it on another machine",
    }[damage]
    if damage == "wrong checksum":
        md5 = "0123"
    if damage == "truncated archive":
        content = content[: len(content) // 2]
        md5 = hashlib.md5(content).hexdigest()
    if damage == "other archive":
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            tar.addfile(tarfile.TarInfo("something"))
        content = buffer.getvalue()
        md5 = hashlib.md5(content).hexdigest()
    if damage != "not found":
        (served / "archive.tar.gz").write_bytes(content)
    if damage == "no server":
        url = "http://127.0.0.1:9/archive.tar.gz"
    with pytest.raises((ValueError, ConnectionError), match=expected):
        replace(CIFAR10, urls={url: md5}).locate(tmp_path / "data", download=True)
    assert list((tmp_path / "data").iterdir()) == []
