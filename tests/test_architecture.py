"""The arrows of the design point one way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dsgt

ROOT = Path(dsgt.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


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


@pytest.mark.parametrize("file", [f for f in FILES if f.parent.name == "algorithms"], ids=lambda f: f.stem)
def test_algorithms_know_the_core_only(file: Path):
    assert not reaches(file, "dsgt") - reaches(file, "dsgt.core", "dsgt.algorithms")


@pytest.mark.parametrize("file", [f for f in FILES if f.parent.name == "networks"], ids=lambda f: f.stem)
def test_networks_know_no_algorithm_and_no_loop(file: Path):
    assert not reaches(file, "dsgt.algorithms", "dsgt.run", "dsgt.optim", "dsgt.problems", "dsgt.metrics")


def test_the_core_knows_nobody():
    assert not reaches(ROOT / "core.py", "dsgt")


def test_only_one_file_speaks_to_each_transport():
    assert [f.name for f in FILES if reaches(f, "mpi4py")] == ["mpi.py"]
    assert [f.name for f in FILES if reaches(f, "torch.distributed")] == ["torchdist.py"]


@pytest.mark.parametrize("file", [f for f in FILES if f.parent.name == "algorithms"], ids=lambda f: f.stem)
def test_a_method_fits_on_a_screen(file: Path):
    assert len(file.read_text().splitlines()) <= 60


def test_every_method_says_what_it_guarantees_and_who_published_it():
    for file in (ROOT / "algorithms").glob("[a-z]*.py"):
        doc = ast.get_docstring(ast.parse(file.read_text()))
        assert "Guarantee:" in doc, file.name
        assert "20" in doc, f"{file.name} cites no paper"
