"""What is loaded when, what a missing package looks like, and the list of public names."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import dsgt
from dsgt.cli import COMMANDS, app
from dsgt.extras import EXTRAS

HEAVY = ("matplotlib", "pandas", "pydantic", "rich", "plotly", "typer", "jinja2", "sklearn")
OF_TYPER = {"typer", "rich", "pydantic"}
PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def python(code: str, *words: str, without: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run this in a process of its own, as if some packages were not installed."""
    start = f"import sys\nfor name in {without!r}: sys.modules[name] = None\n"
    command = [sys.executable, "-c", start + code, *words]
    plain = os.environ | {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=plain)


def loaded(code: str, *words: str) -> set[str]:
    """The top-level packages that are loaded at the end."""
    last = "import atexit\natexit.register(lambda: print(*{name.split('.')[0] for name in sys.modules}))\n"
    found = python(last + code, *words)
    assert found.returncode == 0, found.stderr
    return set(found.stdout.splitlines()[-1].split())


def test_training_loads_nothing_that_draws_or_reports():
    names = (
        "Optimizer",
        "networks",
        "topologies",
        "data",
        "problems",
        "metrics",
        "checkpoint",
        "run",
        "iterate",
        "DSGT",
        "theory",
    )
    code = "import dsgt\n" + "".join(f"dsgt.{name}\n" for name in names)
    assert not loaded(code) & {*HEAVY, "networkx"}


def test_the_parts_of_scipy_come_when_they_are_used():
    code = "import sys, dsgt; dsgt.Optimizer; dsgt.run; dsgt.topologies; dsgt.problems\n"
    parts = ("scipy.sparse", "scipy.optimize", "scipy.special")
    assert python(f"{code}print([name for name in {parts} if name in sys.modules])").stdout == "[]\n"


@pytest.mark.parametrize("collects", [True, False])
def test_the_garbage_collector_works_after_an_import_as_before(collects: bool):
    code = f"import gc\nif not {collects}: gc.disable()\nimport dsgt; dsgt.DSGT; print(gc.isenabled())"
    assert python(code).stdout == f"{collects}\n"


def test_the_list_of_commands_does_without_torch():
    assert not loaded("from dsgt.__main__ import main; main()", "--help") & {"torch", "numpy"}


def test_the_list_of_methods_loads_torch_and_a_table():
    assert not loaded("from dsgt.__main__ import main; main()", "methods") & {*HEAVY, "networkx"} - OF_TYPER


def test_the_list_of_commands_says_of_each_what_its_own_help_says():
    for name, line in COMMANDS.items():
        module = __import__(f"dsgt.commands.{name}", fromlist=["app"])
        assert typer.main.get_command(module.app).help.split("\n\n")[0].replace("\n", " ") == line


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_shows_all_its_flags(name: str):
    shown = CliRunner().invoke(app, [name, "--help"])
    assert shown.exit_code == 0
    module = __import__(f"dsgt.commands.{name}", fromlist=["app"])
    for parameter in typer.main.get_command(module.app).params:
        assert all(flag in shown.output for flag in parameter.opts if flag.startswith("--"))


def test_the_command_line_knows_its_version():
    assert CliRunner().invoke(app, ["--version"]).output == f"dsgt {dsgt.__version__}\n"


@pytest.mark.parametrize(
    ("missing", "words", "extra"),
    [
        ("typer", ["--help"], "cli"),
        ("rich", ["methods"], "cli"),
        ("sklearn", ["compare", "sgd", "--epochs", "0.1"], "report"),
        ("plotly", ["compare", "sgd", "--epochs", "0.1"], "report"),
        ("tensorboard", ["compare", "sgd", "--tensorboard"], "tensorboard"),
    ],
)
def test_a_missing_package_is_named_in_one_line_with_what_installs_it(
    missing: str, words: list[str], extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    found = python("from dsgt.__main__ import main; main()", *words, without=(missing,))
    said = (found.stdout + found.stderr).strip()
    assert said == f"error: {missing} is not installed; have it with: pip install 'dsgt[{extra}]'"
    assert found.returncode in (1, 2)
    assert not list(tmp_path.iterdir())  # nothing was begun that could not be ended


@pytest.mark.parametrize(
    ("missing", "code"),
    [
        ("pydantic", "from dsgt.comparison import Settings"),
        ("sklearn", "import dsgt; dsgt.data.digits()"),
        (
            "matplotlib",
            "import dsgt; s, t = dsgt.data.digits(); dsgt.data.picture(dsgt.data.partition.equal(s, 2), s.targets)",
        ),
        ("matplotlib", "from dsgt.topologies import draw"),
        ("jinja2", "from dsgt.report import page"),
    ],
)
def test_in_python_the_error_says_the_same(missing: str, code: str):
    last = python(code, without=(missing,)).stderr.splitlines()[-1]
    assert last.endswith(f"{missing} is not installed; have it with: pip install 'dsgt[{EXTRAS[missing]}]'")


def test_the_digits_are_read_without_importing_scikit_learn():
    assert python("import sys, dsgt; dsgt.data.digits(); print('sklearn' in sys.modules)").stdout == "False\n"


def test_every_package_that_an_extra_brings_is_known_by_it():
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    for module, extra in EXTRAS.items():
        package = {"sklearn": "scikit-learn", "PIL": "pillow", "zmq": "pyzmq"}.get(module, module)
        assert any(line.startswith(f"{package}>") for line in extras[extra]), module


def test_installing_the_package_brings_nothing_that_draws_or_reports():
    needed = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    assert {line.split(">")[0] for line in needed} == {
        *("torch", "numpy", "scipy", "networkx", "safetensors"),
        "threadpoolctl",  # one small file: one thread for small eigenvalue problems
    }


def test_every_public_name_can_be_had():
    for name in dsgt.__all__:
        assert getattr(dsgt, name) is not None
        assert name in dir(dsgt)
    assert set(dsgt.algorithms.__all__) < set(dsgt.__all__)


def test_editors_and_python_are_given_the_same_names():
    tree = ast.parse(Path(dsgt.__file__).read_text())
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    names = {alias.name for node in typed.body for alias in node.names} - {"*"}
    assert names | set(dsgt.algorithms.__all__) | {"__version__"} == set(dsgt.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Optimiser'"):
        _ = dsgt.Optimiser


def test_run_is_the_function_whatever_was_imported_before():
    code = "import dsgt; from dsgt.optim import Optimizer; import dsgt.run; assert dsgt.run.__name__ == 'run', dsgt.run"
    assert python(code).returncode == 0
