"""Corrupted network files: only ValueError comes out, and no file of a few bytes fills the memory."""

from __future__ import annotations

import json
import warnings
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsgt.topologies import metropolis, read_network, write_network
from dsgt.topologies.files import READERS, UNPACKED_LIMIT

SOME = settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
HUGE = 10**12


def refused_or_read(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read_network(path)
        except ValueError:
            return


@pytest.mark.parametrize("ending", sorted(READERS))
@SOME
@given(draw=st.data())
def test_corrupted_network_files_are_refused_or_read(tmp_path: Path, ending: str, draw):
    path = tmp_path / f"network{ending}"
    content = b"0 1\n1 2\n"
    if ending in (".json", ".npz"):
        write_network(path, nx.path_graph(4), metropolis(nx.path_graph(4)))
        content = path.read_bytes()
    elif ending == ".graphml":
        write_network(path, nx.path_graph(4))
        content = path.read_bytes()
    changed = bytearray(content)
    for _ in range(draw.draw(st.integers(0, 4))):
        changed[draw.draw(st.integers(0, len(changed) - 1))] = draw.draw(st.integers(0, 255))
    refused_or_read(path, bytes(changed[: draw.draw(st.integers(0, len(changed)))]) + draw.draw(st.binary(max_size=9)))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("n.json", json.dumps({"nodes": HUGE, "edges": [[0, 1]]})),
        ("n.edges", f"0 {HUGE}\n"),
        ("n.graphml", f'<graphml><graph edgedefault="undirected"><node id="{HUGE}"/></graph></graphml>'),
    ],
)
def test_a_small_file_cannot_ask_for_a_huge_graph(tmp_path: Path, name: str, content: str):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"it claims {HUGE}|is not a graph"):
        read_network(tmp_path / name)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "bomb.npz"
    write_network(path, nx.path_graph(4), metropolis(nx.path_graph(4)))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as packed, packed.open("more.npy", "w") as entry:
        for _ in range(1 + (UNPACKED_LIMIT >> 20)):
            entry.write(bytes(1 << 20))
    assert path.stat().st_size < UNPACKED_LIMIT / 500
    monkeypatch.setattr(np, "load", lambda path: pytest.fail("it was unpacked"))
    with pytest.raises(ValueError, match=f"it unpacks to .* bytes; at most {UNPACKED_LIMIT} are read"):
        read_network(path)


def test_a_zip_that_lies_about_its_size_gives_no_more_than_it_says(tmp_path: Path):
    path = tmp_path / "liar.npz"
    write_network(path, nx.path_graph(4))
    with zipfile.ZipFile(path) as packed:
        size = packed.getinfo("edges.npy").file_size
    content = path.read_bytes()
    told = size.to_bytes(4, "little")
    assert content.count(told) >= 1
    path.write_bytes(content.replace(told, (size // 2).to_bytes(4, "little")))
    with pytest.raises(ValueError, match="is not a graph in the format of its ending"):
        read_network(path)
