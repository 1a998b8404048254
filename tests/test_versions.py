"""What is promised is what was run: the lower bounds in pyproject.toml are the versions of constraints-oldest.txt."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = (ROOT / ".github" / "workflows" / "test.yml").read_text()
OF_DEVELOPERS = ("docs", "integrations", "test")
"""Extras whose tools come in the versions of constraints.txt."""


def promised() -> dict[str, str]:
    extras = {name: wanted for name, wanted in PROJECT["optional-dependencies"].items() if name not in OF_DEVELOPERS}
    wanted = [*PROJECT["dependencies"], *(one for some in extras.values() for one in some)]
    return dict(re.match(r"([\w-]+)>=([\d.]+)", one).groups() for one in wanted if not one.startswith("dsgt["))


def test_the_lower_bounds_are_the_oldest_versions_that_were_run():
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    oldest = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert {name: oldest[name] for name in promised()} == promised()


def test_the_workflow_runs_every_python_that_is_promised():
    pythons = {c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: Python :: 3\.\d+$", c)}
    assert set(re.findall(r'"(3\.\d+)"', WORKFLOW)) == pythons
    assert PROJECT["requires-python"] == f">={min(pythons, key=lambda p: int(p.split('.')[1]))}"
