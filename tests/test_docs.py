"""What the documentation tells to type works: its Python is executed, its commands are known, its settings are read."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
import torch
from typer.main import get_command
from typer.testing import CliRunner

import dsgt
from dsgt import data, problems, topologies
from dsgt.cli import app
from dsgt.comparison import read_settings
from support import site
from support.launch import TESTS, launch
from support.markdown import Block, blocks, prose

ROOT = TESTS.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [block for page in PAGES for block in blocks(page)]
QUICK = {
    "compare": ["--epochs", "1.2", "--seeds", "1", "--lr", "0.1", "--evaluations", "2", "--workers", "1"],
    "train": ["--epochs", "1.2", "--evaluations", "2"],
}
"""What makes a command quick; the last flag wins."""


def of(*languages: str) -> list[Any]:
    found = [block for block in BLOCKS if block.runs and block.language in languages]
    return [pytest.param(block, id=f"{block.page.name}:{block.line}") for block in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_code_block_is_fenced_and_says_its_language(page: Path):
    assert not re.findall(r"\n\n {4}\S.*", prose(page)), "an indented block is not run; fence it"
    assert {block.language for block in blocks(page)} <= {"python", "sh", "toml", "text", "diff"}


def reliable() -> dict[str, Any]:
    """What docs/reliability.md takes for granted: a problem on a network of four nodes, and on one of three."""
    graph, module, samples = topologies.complete(4), torch.nn.Linear(64, 10), data.digits()[0]

    def shared_by(nodes: int) -> problems.Model:
        shards, draws = data.partition.equal(samples, nodes), data.WithReplacement(batch=8)
        return problems.Model(module, samples, shards, draws, strategy="loop")

    names = {"dsgt": dsgt, "graph": graph, "W": topologies.metropolis(graph), "module": module}
    return names | {"problem": shared_by(4), "problem_of_the_others": shared_by(3)}


def python_of(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python" and block.runs and not block.torchrun]


@pytest.mark.parametrize("page", [page for page in PAGES if python_of(page)], ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """From top to bottom, a block after the other, as a reader would."""
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    names = reliable() if page.name == "reliability.md" else {}
    for block in python_of(page):
        exec(compile(block.source, page, "exec"), names)


@pytest.mark.slow
def test_what_is_for_real_nodes_runs_under_torchrun(tmp_path: Path):
    """README's loop, those of docs/reliability.md, porting.md and others, and both examples, in one start of four."""
    done = launch("torch", 4, str(TESTS / "workers" / "docs_worker.py"), str(tmp_path), str(ROOT))
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_example_for_mpi_differs_from_the_other_by_its_network():
    torchrun, mpi = ((ROOT / "examples" / f"{name}_digits.py").read_text() for name in ("torchrun", "mpi"))
    code = [re.sub(r'^""".*?"""', "", text, flags=re.DOTALL) for text in (torchrun, mpi)]
    assert code[0].replace("TorchPeers", "MPIPeers") == code[1]


def difference(name: str) -> str:
    """Of a plain example and its other self: the lines that go and those that come, without their docstrings."""
    plain, other = ((ROOT / "examples" / f"{kind}_{name}.py").read_text() for kind in ("plain", "torchrun"))
    code = [text.split('"""\n', 1)[1].splitlines() for text in (plain, other)]
    lines = list(difflib.unified_diff(*code, lineterm="", n=0))[2:]
    return "".join("\n" if line.startswith("@@") else f"{line}\n" for line in lines).strip()


@pytest.mark.parametrize("name", ["resnet", "gpt", "accelerate", "lightning", "trainer"])
def test_the_documentation_shows_by_what_a_pair_of_examples_differs(name: str):
    page = ROOT / "docs" / "porting.md"
    shown = [block.text.strip() for block in blocks(page) if block.language == "diff"]
    assert difference(name) in shown, f"docs/porting.md should show:\n{difference(name)}"


def parse(arguments: list[str]) -> None:
    """By the command's own parser, without running it."""
    context: Any = get_command(app).make_context("dsgt", list(arguments))
    while hasattr(context.command, "resolve_command") and (rest := [*context._protected_args, *context.args]):
        name, command, rest = context.command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def known(words: list[str]) -> bool:
    """Whether a command of the documentation is one that can be given."""
    match words:
        case ["make", target]:
            return re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE) is not None
        case ["dsgt", *arguments]:
            parse(arguments)
            return True
        case ["torchrun" | "mpiexec", *rest] if "dsgt" in rest:
            return known(rest[rest.index("dsgt") :])
        case ["torchrun" | "mpiexec", *_, script]:
            return script == "train.py" or (ROOT / script).exists()
        case ["python", script, *_]:
            return (ROOT / script).exists()
        case ["pip", "install", what]:
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            return set(re.findall(r"\w+", what.partition("[")[2])) <= set(extras)
    return False


@pytest.mark.parametrize("block", of("sh"))
def test_every_command_of_a_block_is_known(block: Block):
    assert not [" ".join(words) for words in block.commands if not known(words)], "mark it as not run, with a reason"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_the_text_is_known(page: Path):
    """Where one is only named, its arguments may be missing."""
    for quoted in re.findall(r"`((?:dsgt|make|pip install) [^`]+)`", prose(page)):
        words = quoted.replace("'", "").split()
        if not {"...", "--help", "--version"} & set(words):
            try:
                assert known(words), quoted
            except Exception as error:
                if type(error).__name__ != "MissingParameter":
                    raise


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_of_the_package_in_the_text_exists(page: Path):
    """``topologies.ring(n)``, ``dsgt.DSGT()``: what begins with a public module, up to the first call."""
    rooms = "|".join(name for name in dsgt.__all__ if inspect.ismodule(getattr(dsgt, name)))
    quoted = "\n".join(re.findall(r"`([^`]+)`", prose(page)))
    for path in re.findall(rf"(?<![\w./])(?:dsgt|(?:dsgt\.)?(?:{rooms}))(?:\.[A-Za-z_]\w*)+", quoted):
        names = path.removeprefix("dsgt.").split(".")
        if names[-1] not in ("Name", "html", "json", "md", "py"):
            functools.reduce(getattr, names, dsgt)


RUNNING = [block for block in BLOCKS if block.runs]
RUN = [words for block in RUNNING for words in block.commands if words[0] == "dsgt" and words[1] in QUICK]


@pytest.mark.parametrize("words", RUN, ids=" ".join)
def test_a_command_that_compares_or_trains_does_so(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(site.made(tmp_path))
    quick = QUICK[words[1]][2 if "--seconds" in words else 0 :]  # a budget stands in the place of epochs
    done = CliRunner().invoke(app, [*words[1:], *quick, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert list(tmp_path.rglob("rows.jsonl"))  # a sweep's are one folder further down


@pytest.mark.parametrize("block", of("toml"))
def test_a_settings_file_is_read(block: Block, tmp_path: Path):
    file = tmp_path / "settings.toml"
    file.write_text(block.text)
    assert dsgt.Settings.of(read_settings(file)).methods


def test_contributing_names_every_folder_and_file_of_the_package():
    (tree,) = [block.text for block in blocks(ROOT / "CONTRIBUTING.md") if "core/ " in block.text]
    named = [line.split()[0].rstrip("/") for line in tree.splitlines()]
    there = [file.name for file in (ROOT / "src" / "dsgt").iterdir() if file.name != "__pycache__"]
    assert sorted(named) == sorted(there), "say in one line of CONTRIBUTING.md, Architecture, what it is for"


def test_every_check_that_the_errata_name_is_a_test():
    named = re.findall(r"(test_\w+):? ((?:`[^`|]+`(?:, )?)+)", (ROOT / "docs" / "errata.md").read_text())
    assert len(named) > 20
    for file, quoted in named:
        tests = re.findall(r"^def (test_\w+)", (TESTS / f"{file}.py").read_text(), flags=re.MULTILINE)
        for fragment in re.findall(r"\w{3,}", quoted):
            assert any(fragment.lower() in test.lower() for test in tests), f"{file}: {fragment}"
