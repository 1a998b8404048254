"""Corrupted network files: only ValueError comes out, and no file of a few bytes fills the memory."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsgt.topologies import metropolis, read_network, write_network
from dsgt.topologies.files import READERS

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
