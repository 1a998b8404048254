"""``dsgt train`` with asynchronous methods under torchrun, ``--record`` and ``dsgt replay``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("zmq")

from dsgt.asynchronous import recorded
from dsgt.commands import replay, train
from dsgt.networks.roster import create
from support.launch import BIN, launch

FLAGS = ["--epochs", "0.5", "--graph", "ring", "--seed", "3"]


def say(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(train.app, [*words], env={"COLUMNS": "400"})
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two processes that torchrun started."""
    folder = tmp_path_factory.mktemp("job")
    places = ["--record", str(folder / "run.log"), "--out", str(folder / "out")]
    done = launch("torch", 2, "--no-python", str(BIN / "dsgt"), "train", "appg", *FLAGS, *places)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Node 0 of 2, encrypted: appg" in done.stdout
    assert "Node 1" not in done.stdout
    return folder / "run.log"


def test_a_recorded_job_of_torchrun_is_replayed_bit_for_bit(record: Path):
    wakes = 6
    rows = [json.loads(line) for line in (record.parent / "out" / "rows-1.jsonl").read_text().splitlines()]
    assert [row["wake"] for row in rows] == list(range(1, wakes + 1))
    said = CliRunner().invoke(replay.app, [str(record)], env={"COLUMNS": "400"})
    assert said.exit_code == 0, said.output
    assert (
        f"appg: all {2 * wakes} models after a wake and the 2 last ones are those of the run, bit for bit"
        in said.output
    )


def test_a_replay_that_differs_or_lacks_a_record_says_so(record: Path, tmp_path: Path):
    here = tmp_path / "run.log"
    for i in (0, 1):
        text = recorded.path_of(record, i).read_text()
        recorded.path_of(here, i).write_text(text.replace('"lr": 0.1', '"lr": 0.2'))
    said = CliRunner().invoke(replay.app, [str(here)], env={"COLUMNS": "400"})
    assert said.exit_code == 2
    assert "is not the one that the run had" in said.output
    text = recorded.path_of(record, 1).read_text()
    recorded.path_of(here, 1).write_text(text)
    assert "are of different runs" in CliRunner().invoke(replay.app, [str(here)], env={"COLUMNS": "400"}).output
    recorded.path_of(here, 1).unlink()
    assert "the job had 2 nodes" in CliRunner().invoke(replay.app, [str(here)], env={"COLUMNS": "400"}).output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["asy-sonata"], "every node is a process of its own; start it with torchrun"),
        (["dsgt", "--node", "1"], "are for asynchronous methods"),
        (["agp:ceiling=3", "--peers", "PEERS", "--secret", "SECRET"], "no parameter of agp called 'ceiling'"),
        (["agp", "--loss-limit", "3"], "--loss-limit is for synchronous methods"),
        (["agp", "--peers", "PEERS"], "give --secret FILE"),
        (["agp", "--peers", "PEERS", "--secret", "SECRET", "--nodes", "3"], "this job has 2 processes"),
        (["agp", "--peers", "PEERS", "--secret", "SECRET", "--budget", "9s"], "no virtual clock"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_any_work(words: list[str], said: str, tmp_path: Path):
    peers = create(tmp_path, ["tcp://127.0.0.1:7000", "tcp://127.0.0.1:7001"])
    named = {"PEERS": str(peers), "SECRET": str(tmp_path / "node-0.secret")}
    code, output = say(*(named.get(word, word) for word in words), "--out", str(tmp_path / "out"))
    assert code == 2
    assert said in output
    assert not (tmp_path / "out").exists()
