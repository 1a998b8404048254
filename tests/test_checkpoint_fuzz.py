"""Thousands of corrupted files: only the documented errors come out, and what is accepted is what was written."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dsgt import checkpoint
from dsgt.checkpoint.part import Part, read, write
from dsgt.networks import Dense

PART = Part(
    7, None, 3, {"method": "DSGT()", "seed": 3}, {"seconds": 1.5}, {"x": torch.arange(6.0), "g": torch.ones(2, 2)}
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
MANY = settings(max_examples=1000, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

SOME = settings(MANY, max_examples=300)
"""Where making up the examples is what takes long."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("fuzz") / "part"
    write(path, PART)
    return path.read_bytes()


def accepted(path: Path, content: bytes) -> bool:
    """Whether a file with this content is read as the part that was written; anything else must be refused."""
    path.write_bytes(content)
    try:
        found = read(path)
    except checkpoint.CheckpointError:
        return False
    assert (found.k, found.node, found.nodes) == (PART.k, PART.node, PART.nodes)
    assert (found.settings, found.extra) == (PART.settings, PART.extra)
    assert all(torch.equal(found.tensors[name], t) for name, t in PART.tensors.items())
    return True


@MANY
@given(draw=st.data())
def test_bytes_that_changed_are_refused(tmp_path: Path, whole: bytes, draw):
    content = bytearray(whole)
    for _ in range(draw.draw(st.integers(1, 4))):
        content[draw.draw(st.integers(0, len(content) - 1))] = draw.draw(st.integers(0, 255))
    accepted(tmp_path / "part", bytes(content))


@MANY
@given(begin=st.integers(0, 2000), end=st.integers(0, 2000), junk=st.binary(max_size=20))
def test_bytes_that_are_missing_or_inserted_are_refused(
    tmp_path: Path, whole: bytes, begin: int, end: int, junk: bytes
):
    content = whole[:begin] + junk + whole[end:]
    assert accepted(tmp_path / "part", content) == (content == whole)


@MANY
@given(content=st.binary(max_size=300))
@example(b"")
@example((2).to_bytes(8, "little") + b"{}")
@example((1 << 63).to_bytes(8, "little") + b"{}")
@example((60_000).to_bytes(8, "little") + b"[" * 60_000)
def test_noise_is_refused(tmp_path: Path, content: bytes):
    assert not accepted(tmp_path / "part", content)


@SOME
@given(about=JSON, told=JSON, entry=JSON)
@example({"format": 1}, "0", {"dtype": "F64", "shape": [1 << 62], "data_offsets": [0, 0]})
@example({"format": 1}, "0", {"dtype": "F64", "shape": [1 << 40, 0], "data_offsets": [0, 0]})
@example({"format": 1}, "0", {"dtype": "F64", "shape": [-1], "data_offsets": [0, 0]})
@example("[" * 50_000, "0", {"dtype": "F32", "shape": [], "data_offsets": [0, 4]})
def test_well_formed_headers_that_say_nonsense_are_refused(tmp_path: Path, about, told, entry):
    text = about if isinstance(about, str) else json.dumps(about)
    header = json.dumps({"__metadata__": {"dsgt": text, "sha256": told}, "x": entry}).encode()
    assert not accepted(tmp_path / "part", len(header).to_bytes(8, "little") + header + bytes(4))


@SOME
@given(about=st.dictionaries(st.sampled_from(["format", "round", "node", "nodes", "settings", "extra"]), JSON))
def test_nonsense_with_a_right_checksum_is_refused_or_read(tmp_path: Path, about):
    import hashlib

    text = json.dumps({"format": 1, "round": 1, "node": None, "nodes": 3, "settings": {}, "extra": {}} | about)
    told = hashlib.sha256(text.encode()).hexdigest()
    header = json.dumps({"__metadata__": {"dsgt": text, "sha256": told}}).encode()
    path = tmp_path / "round-000000001-node-all-of-3.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", checkpoint.CheckpointWarning)
        try:
            found = checkpoint.load(tmp_path, network=Dense(np.eye(3)), settings={})
        except checkpoint.CheckpointError:
            return
    assert found is None or (found.k, found.nodes) == (1, 3)


@SOME
@given(name=st.text(st.sampled_from("round-node-al-of0123456789./\\x safetensors"), max_size=40))
def test_file_names_lead_nowhere_else(tmp_path: Path, name: str):
    path = tmp_path / name.replace("/", "_")
    if path.name in ("", ".", "..", tmp_path.name):
        return
    path.write_bytes(b"?")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", checkpoint.CheckpointWarning)
        assert checkpoint.latest(tmp_path) is None
    path.unlink()
