"""Files of checkpoints: what is written comes back, what is damaged is passed over, what is different is refused."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from dsgt import checkpoint
from dsgt.checkpoint import part as part_file
from dsgt.checkpoint.part import Part, read, write
from dsgt.core import Network
from dsgt.networks import Dense, agreement

SETTINGS = {"method": "DSGT", "seed": 3}


def some(k: int = 0) -> dict[str, Tensor]:
    return {"x": torch.full((3, 2), float(k), dtype=torch.float64), "empty": torch.zeros(0, 4)}


def saved(folder: Path, *rounds: int, network: Network | None = None, **options: object) -> None:
    for k in rounds:
        checkpoint.save(folder, some(k), k=k, network=network or Dense(np.eye(3)), settings=SETTINGS, **options)


def loaded(folder: Path, network: Network | None = None, settings: dict[str, object] = SETTINGS) -> Part | None:
    return checkpoint.load(folder, network=network or Dense(np.eye(3)), settings=settings)


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


class OneOf(Dense):
    """A node of several, whose fellows all answer what ``fellow`` makes of its own answer."""

    def __init__(self, node: int, nodes: int, fellow=lambda v: v) -> None:
        super().__init__(np.eye(nodes))
        self.node, self.fellow = node, fellow

    def gather(self, v: Tensor) -> Tensor:
        rows = [self.fellow(v.clone()) for _ in range(self.nodes)]
        rows[self.node] = v
        return torch.stack(rows)


def saying(text: str, numbers: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """What a fellow answers when numbers are asked for, and when words are."""

    def answer(v: Tensor) -> Tensor:
        if len(v) != agreement.LONGEST_TEXT:
            return numbers(v)
        v[: len(text)] = torch.tensor([float(c) for c in text.encode()])
        return v

    return answer


def test_words_of_every_length_and_alphabet_are_heard():
    for text in ("", "no space", "ﬂügel 'ß' — 漢字", "x" * 5000):
        heard = agreement.gather_text(OneOf(1, 3), text)
        assert len(heard) == 3
        assert text.startswith(heard[0])
        assert heard[0] == text or len(heard[0]) == agreement.LONGEST_TEXT


@pytest.mark.parametrize("dtype", list(part_file._NAMES))
def test_a_part_comes_back_bit_for_bit(tmp_path: Path, dtype: torch.dtype):
    bits = torch.arange(6, dtype=torch.uint8) % 2
    raw = bits.to(dtype) if dtype is torch.bool else torch.arange(48, dtype=torch.uint8).view(dtype)
    t = raw[: len(raw) // 2 * 2].reshape(2, -1).T  # not contiguous
    path = tmp_path / "part"
    write(path, Part(7, 1, 4, SETTINGS, {"a": [1, 2.5, None]}, {"t": t, "other": torch.ones(3)}))
    found = read(path)
    assert (found.k, found.node, found.nodes, found.settings, found.extra) == (7, 1, 4, SETTINGS, {"a": [1, 2.5, None]})
    assert found.tensors["t"].dtype == dtype
    assert torch.equal(found.tensors["t"].contiguous().view(torch.uint8), t.contiguous().view(torch.uint8))


def test_nan_and_infinity_and_negative_zero_survive(tmp_path: Path):
    t = torch.tensor([float("nan"), float("inf"), -0.0], dtype=torch.float64)
    write(tmp_path / "part", Part(0, None, 1, {}, {}, {"t": t}))
    assert torch.equal(read(tmp_path / "part").tensors["t"].view(torch.int64), t.view(torch.int64))


def test_any_safetensors_reader_opens_a_part(tmp_path: Path):
    saved(tmp_path, 5)
    with safe_open(files(tmp_path)[0], "np") as file:
        assert (file.get_tensor("x") == 5).all()
        assert json.loads(file.metadata()["dsgt"])["round"] == 5


def test_a_single_number_cut_out_of_a_larger_tensor_is_saved(tmp_path: Path):
    one = torch.arange(12).view(3, 4)[1:2, 2]
    assert one.stride() == (4,)
    write(tmp_path / "one", Part(0, None, 1, {}, {}, {"one": one}))
    assert read(tmp_path / "one").tensors["one"].tolist() == [6]


def test_the_newest_checkpoint_is_loaded_and_the_last_few_are_kept(tmp_path: Path):
    assert loaded(tmp_path) is None
    assert checkpoint.latest(tmp_path / "absent") is None
    saved(tmp_path, 1, 2, 10, 3_000_000_000, keep=2)
    assert len(files(tmp_path)) == 2
    found = loaded(tmp_path)
    assert found is not None
    assert (found.k, found.tensors["x"][0, 0]) == (3_000_000_000, 3e9)
    assert checkpoint.latest(tmp_path) == 3_000_000_000


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def claim_a_terabyte(path: Path) -> None:
    path.write_bytes((1 << 40).to_bytes(8, "little") + path.read_bytes()[8:])


def another_round(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(rb"\"round\": 20", rb"\"round\": 30"))


def link_elsewhere(path: Path) -> None:
    path.rename(path.parent.parent / "outside")
    path.symlink_to(path.parent.parent / "outside")


DAMAGES = [
    truncate,
    flip_a_bit,
    lengthen,
    claim_a_terabyte,
    another_round,
    link_elsewhere,
    lambda p: p.write_bytes(b""),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path: Path, damage):
    folder = tmp_path / "inside"
    saved(folder, 10, 20)
    damage(files(folder)[-1])
    with pytest.warns(checkpoint.CheckpointWarning, match="passing it over"):
        assert checkpoint.latest(folder) == 10
    with pytest.warns(checkpoint.CheckpointWarning, match="passing it over"):
        found = loaded(folder)
    assert found is not None
    assert found.k == 10
    assert len(files(folder)) == 1  # the damaged one will not be met again


def test_a_half_written_file_is_never_taken_for_a_checkpoint(tmp_path: Path, monkeypatch):
    saved(tmp_path, 10)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(part_file.os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        saved(tmp_path, 20)
    monkeypatch.undo()
    left = tmp_path / (files(tmp_path)[0].name.replace("10", "20") + ".tmp")
    left.write_bytes(b"what kill -9 leaves")
    found = loaded(tmp_path)
    assert found is not None
    assert found.k == 10
    assert not left.exists()


def test_a_checkpoint_that_is_written_again_is_the_old_one_until_the_new_one_is_whole(tmp_path: Path, monkeypatch):
    """Whenever the power goes."""
    path, sync, seen = tmp_path / "part", part_file.os.fsync, []

    def looking(file: int) -> None:
        seen.append(read(path).k)
        sync(file)

    write(path, Part(1, None, 1, {}, {}, some(1)))
    monkeypatch.setattr(part_file.os, "fsync", looking)
    write(path, Part(2, None, 1, {}, {}, some(2)))
    assert seen[0] == 1  # the content is safe on the disk before it gets its name
    assert read(path).k == 2


def test_a_header_beyond_the_limit_is_not_parsed(tmp_path: Path):
    """Though the file is whole, and as long as it says."""
    path = tmp_path / "part"
    write(path, Part(1, None, 1, {}, {}, some(1)))
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    for longer, taken in ((part_file.HEADER_LIMIT, True), (part_file.HEADER_LIMIT + 8, False)):
        spaces = b" " * (longer - length)
        path.write_bytes(longer.to_bytes(8, "little") + content[8 : 8 + length] + spaces + content[8 + length :])
        if taken:
            assert read(path).k == 1
        else:
            with pytest.raises(part_file.DamagedError, match=f"its header claims {longer} bytes"):
                read(path)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "EXTRA", "seed": 3}, "saved with method = DSGT, but here it is EXTRA"),
        ({"method": "DSGT", "seed": 4}, "saved with seed = 3, but here it is 4"),
        ({"method": "DSGT"}, "saved with seed = 3, but here it is None"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_by_name(tmp_path: Path, settings, words: str):
    saved(tmp_path, 10)
    with pytest.raises(checkpoint.DifferentError, match=words):
        loaded(tmp_path, settings=settings)
    assert len(files(tmp_path)) == 1


def test_a_checkpoint_of_another_network_is_refused_by_name(tmp_path: Path):
    saved(tmp_path, 10)
    with pytest.raises(checkpoint.DifferentError, match="3 nodes with all nodes in one process, but here there are 4"):
        loaded(tmp_path, Dense(np.eye(4)))
    with pytest.raises(checkpoint.DifferentError, match="here there are 3 nodes with a process for every node"):
        loaded(tmp_path, OneOf(0, 3))


def test_a_checkpoint_of_another_format_is_refused_by_name(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(part_file, "FORMAT", 2)
    saved(tmp_path, 10)
    monkeypatch.undo()
    with pytest.raises(checkpoint.DifferentError, match="format 2, but this version of dsgt reads format 1"):
        loaded(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_when_saving_fails_the_checkpoint_before_stays_valid(tmp_path: Path, monkeypatch, number: int):
    saved(tmp_path, 10)

    def full(*_: object) -> None:
        raise OSError(number, "the disk says no")

    monkeypatch.setattr(part_file.os, "fsync", full)
    with pytest.raises(checkpoint.SaveError, match=r"round 20 could not be written to .*the disk says no"):
        saved(tmp_path, 20, keep=1)
    monkeypatch.undo()
    assert [path.suffix for path in files(tmp_path)] == [".safetensors"]
    found = loaded(tmp_path)
    assert found is not None
    assert found.k == 10


def test_a_folder_that_is_a_file_is_a_failed_save_too(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(checkpoint.SaveError, match="could not be written"):
        saved(tmp_path / "file", 1)
    assert loaded(tmp_path / "file") is None


def test_what_one_node_could_not_save_no_node_keeps(tmp_path: Path):
    saved(tmp_path, 10, network=OneOf(1, 3))
    unlucky = OneOf(1, 3, fellow=saying("no space", lambda v: v + 1))
    with pytest.raises(checkpoint.SaveError, match=r"could not be written to .* at node 0: no space$"):
        saved(tmp_path, 20, network=unlucky, keep=1)
    assert [path.name for path in files(tmp_path)] == ["round-000000010-node-1-of-3.safetensors"]


def test_nodes_go_back_to_the_newest_round_that_all_of_them_have(tmp_path: Path):
    saved(tmp_path, 10, 20, 30, network=OneOf(1, 3))

    def lacks_30(v: Tensor) -> Tensor:
        return torch.where(v == 30, -1.0, v)

    with pytest.warns(
        checkpoint.CheckpointWarning, match="round 30 is not whole on every node; going back to round 20"
    ):
        found = loaded(tmp_path, OneOf(1, 3, fellow=lacks_30))
    assert found is not None
    assert found.k == 20
    assert len(files(tmp_path)) == 2  # a round 30 of two different futures cannot come together

    with pytest.warns(checkpoint.CheckpointWarning, match="the run starts over"):
        assert loaded(tmp_path, OneOf(1, 3, fellow=lambda v: torch.where(v > 0, -1.0, v))) is None


def test_when_one_node_refuses_all_do(tmp_path: Path):
    def refuses(v: Tensor) -> Tensor:
        v[0] = 1
        return v

    with pytest.raises(checkpoint.DifferentError, match=r"^saved with seed = 3, but here it is 8$"):
        loaded(tmp_path, OneOf(1, 3, fellow=saying("saved with seed = 3, but here it is 8", refuses)))


def test_latest_counts_a_round_only_when_every_nodes_part_is_there(tmp_path: Path):
    for node in range(3):
        saved(tmp_path, 10, network=OneOf(node, 3))
    for node in range(2):
        saved(tmp_path, 20, network=OneOf(node, 3))
    assert checkpoint.latest(tmp_path) == 10


def test_a_file_with_another_name_is_none_of_ours(tmp_path: Path):
    for name in ("round-1.safetensors", "../round-000000001-node-0-of-1.safetensors", "notes.txt"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_bytes(b"?")
    assert loaded(tmp_path / "in") is None
    assert len(files(tmp_path / "in")) == 2
