"""``dsgt network`` from a user's seat."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dsgt import topologies
from dsgt.cli import app

runner = CliRunner()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


def test_a_network_is_described_compared_drawn_and_written(here: Path) -> None:
    words = "network --graph random --nodes 24 --weights fdla --seed 3 --out net.json"
    result = runner.invoke(app, words.split())
    assert result.exit_code == 0, result.output
    assert "rho" in result.output
    assert all(rule in result.output for rule in topologies.WEIGHTS)
    assert (here / "network.png").exists()
    back = topologies.read_network(here / "net.json")
    assert len(back.graph) == 24
    again = runner.invoke(app, ["network", "--file", "net.json", "--picture", "again.svg"])
    assert again.exit_code == 0, again.output
    assert "the file's weights" in again.output


def test_a_directed_network_is_described(here: Path) -> None:
    result = runner.invoke(app, ["network", "--graph", "directed-exponential", "--nodes", "10", "--weights", "push"])
    assert result.exit_code == 0, result.output
    assert "not symmetric" in result.output


def test_a_network_is_designed(here: Path) -> None:
    result = runner.invoke(app, ["network", "design", "--nodes", "12", "--rho", "0.5", "--out", "designed.npz"])
    assert result.exit_code == 0, result.output
    assert "designed" in result.output
    assert topologies.rho(topologies.read_network(here / "designed.npz").W) <= 0.5 + 1e-6


@pytest.mark.parametrize(
    ("words", "say"),
    [
        ("--graph rng", "did you mean 'ring'"),
        ("--weights metropols", "did you mean 'metropolis'"),
        ("--nodes 0", "at least one node"),
        ("--graph random-regular --nodes 5 --degree 3", "even"),
        ("--graph ring --degree 3", "no degree to choose"),
        ("--graph directed-ring", "use push or pull"),
        ("--file missing.json", "there is no file"),
        ("--out net.txt", "must end in"),
        ("--picture nowhere/a.png", "no directory"),
        ("design --nodes 8", "exactly one"),
        ("design --nodes 8 --rho 2", "[0, 1)"),
    ],
)
def test_bad_input_is_refused_with_advice_and_without_a_traceback(words: str, say: str) -> None:
    result = runner.invoke(app, ["network", *words.split()])
    assert result.exit_code == 2
    assert say in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output


def test_a_disconnected_file_is_refused(here: Path) -> None:
    (here / "two.edges").write_text("0 1\n2 3\n")
    result = runner.invoke(app, ["network", "--file", "two.edges"])
    assert result.exit_code == 2
    assert "node 0 and node 2" in " ".join(result.output.replace("│", " ").split())
