"""Corrupted settings, data and journals: only the documented errors come out, and nothing is believed that changed.

Checkpoints and networks have files of their own: test_checkpoint_fuzz and test_network_files_fuzz.
"""

from __future__ import annotations

import json
import pickle
import resource
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dsgt.checkpoint.journal import Journal
from dsgt.checkpoint.part import CheckpointWarning, DifferentError
from dsgt.comparison import Settings, read_settings
from dsgt.data.cifar import PIXELS, read_batch

MANY = settings(max_examples=1000, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

BATCH = pickle.dumps({b"data": np.arange(2 * PIXELS).astype(np.uint8).reshape(2, PIXELS), b"labels": [3, 9]}, 2)
TOML = Settings.of({"methods": ["dsgt", "sgd"]}).toml().encode()


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Some bytes changed, or a stretch replaced by other bytes."""
    if draw(st.booleans()):
        content = bytearray(whole)
        for _ in range(draw(st.integers(1, 4))):
            content[draw(st.integers(0, len(whole) - 1))] = draw(st.integers(0, 255))
        return bytes(content)
    begin, end = (draw(st.integers(0, len(whole))) for _ in range(2))
    return whole[:begin] + draw(st.binary(max_size=20)) + whole[end:]


@MANY
@given(content=damaged(TOML) | st.binary(max_size=200))
@example(b"a = " + b"[" * 100_000)
@example(b"rounds = 1" + b"0" * 5000)
def test_settings_are_read_or_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    try:
        Settings.of(read_settings(path))
    except ValueError:
        return


@MANY
@given(content=damaged(BATCH[:120]).map(lambda head: head + BATCH[120:]) | damaged(BATCH) | st.binary(max_size=200))
@example(b"\x80\x02}r\xff\xff\xff\x7f.")  # the number of a memo that does not exist
@example(b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little"))  # bytes that do not come
@example(b"cos\nsystem\n(S'touch pwned'\ntR.")
def test_images_are_read_or_refused(tmp_path: Path, content: bytes):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of kinds of numbers that are going out of use
            pixels, labels = read_batch(path)
        assert pixels.shape == (len(labels), PIXELS)
    except ValueError:
        pass
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes
    assert not Path("pwned").exists()


@MANY
@given(draw=st.data())
def test_a_journal_believes_no_line_that_changed(tmp_path: Path, draw: st.DataObject):
    path, about = tmp_path / "finished.jsonl", {"kind": "test"}
    path.unlink(missing_ok=True)
    journal = Journal(path, about, resume=False)
    pieces = [{"key": "a", "rows": [{"loss": 0.25, "round": 3}]}, {"key": "b", "rows": [{"loss": float("inf")}]}]
    for piece in pieces:
        journal.append(piece)
    path.write_bytes(draw.draw(damaged(path.read_bytes())))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        try:
            found = Journal(path, about, resume=True).finished
        except DifferentError:
            return
    assert all(piece in pieces for piece in found)


def test_a_digit_that_changed_is_told(tmp_path: Path):
    path = tmp_path / "finished.jsonl"
    Journal(path, {}, resume=False).append({"key": "a", "rows": [{"loss": 0.25}]})
    path.write_text(path.read_text().replace("0.25", "0.15"))
    with pytest.warns(CheckpointWarning, match="line 2 .*its checksum is wrong"):
        assert Journal(path, {}, resume=True).finished == []
    assert json.loads(path.read_text().splitlines()[0])["settings"] == {}
