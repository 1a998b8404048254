"""The arrows of the design point one way: between rooms in the order below, between files without a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

import dsgt

ROOT = Path(dsgt.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

ROOMS = """
    _version text late
    extras paper_figure factories notebook source randomness threads processes buffers flat layout statistics
    constraints schedules
    core
    oracles
    topologies
    compression
    gossip
    algorithms
    networks
    data
    problems
    metrics
    divergence
    engine
    checkpoint
    measuring
    run
    asynchronous
    optim
    theory
    fit
    comparison
    report
    commands
    reproduce
    commands.reproduce
    cli __init__
    __main__
"""
"""Lowest first. A file imports from rooms above its own in this list, or from its own; never from one below it, not
inside a function and not for types either. Rooms on one line do not know each other."""


def name_of(file: Path) -> str:
    """``topologies.graphs`` for the file of that module, ``topologies`` for the room's own."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {name_of(file): file for file in FILES}
LEVEL = {room: level for level, line in enumerate(ROOMS.strip().splitlines()) for room in line.split()}


def imports(file: Path) -> set[str]:
    """Every module that a file imports, at any depth of its code."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def reaches(file: Path, *modules: str) -> set[str]:
    return {name for name in imports(file) for m in modules if name == m or name.startswith(m + ".")}


def arrows(file: Path) -> set[str]:
    """The files of this package that a file imports: ``from dsgt.data import digits`` means the file digits."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {ours(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file} has a relative import; say from where"
            whole = {ours(f"{node.module}.{alias.name}") for alias in node.names}
            found |= {name if name in MODULES else ours(node.module or "") for name in whole}
    return {name for name in found if name}


def ours(module: str) -> str:
    return "__init__" if module == "dsgt" else module.removeprefix("dsgt.") if module.startswith("dsgt.") else ""


ARROWS = {(name, other) for name, file in MODULES.items() for other in arrows(file)}


def room(name: str) -> str:
    return name if name in LEVEL else name.split(".")[0]


def circles() -> Iterator[set[str]]:
    graph = nx.DiGraph(ARROWS)
    yield from (part for part in nx.strongly_connected_components(graph) if len(part) > 1)
    yield from ({name} for name in nx.nodes_with_selfloops(graph))


def test_every_file_is_in_a_room_of_the_list():
    assert {room(name) for name in MODULES} <= LEVEL.keys()


def test_no_arrow_points_against_the_order_of_the_rooms():
    wrong = {(a, b) for a, b in ARROWS if room(a) != room(b) and LEVEL[room(b)] >= LEVEL[room(a)]}
    assert not wrong


def test_no_files_import_each_other_in_a_circle():
    assert not list(circles())


def test_modules_are_imported_by_name_where_the_text_does_not_say_it_in_five_places_only():
    """An import that is not a statement would be invisible to the tests above."""
    late = [name for name, file in MODULES.items() if reaches(file, "importlib", "importlib.import_module")]
    called = [name for name in late if "import_module(" in MODULES[name].read_text()]
    loads = [name for name, file in MODULES.items() if reaches(file, "dsgt.late.load")]
    assert {*called, *loads} - {"late"} <= {"__init__", "cli", "factories", "processes", "reproduce"}
    assert not [name for name, file in MODULES.items() if "__import__(" in file.read_text()]


@pytest.mark.parametrize("file", [f for f in FILES if f.parent.name == "algorithms"], ids=lambda f: f.stem)
def test_algorithms_know_the_core_and_what_networks_are_made_of_only(file: Path):
    assert not reaches(file, "dsgt") - reaches(
        file,
        "dsgt.core",
        "dsgt.oracles",
        "dsgt.randomness",
        "dsgt.topologies",
        "dsgt.gossip",
        "dsgt.compression",
        "dsgt.constraints",
        "dsgt.algorithms",
        "dsgt.asynchronous.algorithms",
        "dsgt.asynchronous.core",
        "dsgt.asynchronous.mail",
        "dsgt.asynchronous.push_sum",
        "dsgt.text",
        "dsgt.factories",
    )


@pytest.mark.parametrize("file", [f for f in FILES if f.parent.name == "networks"], ids=lambda f: f.stem)
def test_networks_know_no_algorithm_and_no_loop(file: Path):
    assert not reaches(file, "dsgt.algorithms", "dsgt.run", "dsgt.optim", "dsgt.problems", "dsgt.metrics")


def test_the_core_knows_nobody():
    reached = {name for file in (ROOT / "core").iterdir() if file.suffix == ".py" for name in reaches(file, "dsgt")}
    assert all(name.startswith("dsgt.core") for name in reached)


def test_only_one_file_speaks_to_each_transport():
    assert [f.name for f in FILES if reaches(f, "mpi4py")] == ["mpi.py"]
    assert [f.name for f in FILES if reaches(f, "torch.distributed")] == ["torchdist.py"]
    assert [f.name for f in FILES if reaches(f, "zmq")] == ["zeromq.py"]


def test_only_its_command_imports_what_reproduces_the_paper():
    assert {a for a, b in ARROWS if room(b) == "reproduce" and room(a) != "reproduce"} == {"commands.reproduce"}


METHOD_FILES = [f for f in FILES if f.parent.name == "algorithms" and f.stem not in ("named", "sliding", "__init__")]


@pytest.mark.parametrize("file", METHOD_FILES, ids=lambda f: f.stem)
def test_a_method_fits_on_a_screen(file: Path):
    assert len(file.read_text().splitlines()) <= 60


def test_every_method_says_what_it_guarantees_and_who_published_it():
    for file in METHOD_FILES:
        doc = ast.get_docstring(ast.parse(file.read_text()))
        assert "Guarantee:" in doc, file.name
        assert "20" in doc, f"{file.name} cites no paper"
