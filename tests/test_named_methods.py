"""Methods by name and with parameters: what is understood, what is refused, and where the parameters show."""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, is_dataclass

import pytest
from typer.testing import CliRunner

import dsgt
from dsgt.algorithms import ALGORITHMS
from dsgt.algorithms.named import label, method
from dsgt.checkpoint import fingerprint
from dsgt.cli import app
from dsgt.comparison import Job
from dsgt.core import parameter, parameters


@dataclass(frozen=True)
class Many(dsgt.AtcDPSGD):
    """Every kind of parameter."""

    beta: float = parameter(0.9, "how much is kept", least=0, below=1)
    steps: int = parameter(1, "how many", least=1)
    nesterov: bool = parameter(False, "whether it looks ahead")
    kind: str = "plain"


@pytest.fixture(autouse=True)
def many(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "many", Many)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("many", Many()),
        ("many:beta=0.5", Many(beta=0.5)),
        ("many:beta=1e-3,steps=4,nesterov=True,kind=other", Many(1e-3, 4, True, "other")),
        ("many:nesterov=false", Many()),
        ("dsgt", dsgt.DSGT()),
    ],
)
def test_a_name_and_its_parameters_are_understood_and_said_again_shortly(text: str, expected: object):
    found = method(text)
    assert found == expected
    assert type(found) is type(expected)
    assert method(label(found)) == expected


def test_a_label_says_what_is_not_by_default():
    assert label(Many()) == "many"
    assert label(Many(nesterov=True, beta=0.25)) == "many:beta=0.25,nesterov=true"

    @dataclass(frozen=True)
    class Mine(dsgt.GNSD):
        c: float = 1.0

    assert label(Mine()).endswith("Mine(c=1.0)")  # nobody gave it a name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mani", r"there is no method called 'mani'; did you mean 'many'\? Known: sgd, "),
        (
            "many:bet=0.5",
            r"no parameter of many called 'bet'; did you mean 'beta'\? Known: beta, steps",
        ),
        ("many:beta", r"'beta' in 'many:beta' is not key=value; write for example many:beta=0.9,steps=1"),
        ("many:", r"'' in 'many:' is not key=value"),
        ("many:beta=much", "beta of many is 'much'; expected a finite number"),
        ("many:beta=nan", "beta of many is 'nan'; expected a finite number"),
        ("many:beta=inf", "beta of many is 'inf'; expected a finite number"),
        ("many:steps=1.5", "steps of many is '1.5'; expected a whole number"),
        ("many:nesterov=maybe", "nesterov of many is 'maybe'; expected true or false"),
        ("many:beta=1", r"beta of Many is 1\.0; expected at least 0 and below 1"),
        ("many:beta=-0.1", r"beta of Many is -0\.1; expected at least 0 and below 1"),
        ("many:steps=0", "steps of Many is 0; expected at least 1"),
        ("many:beta=0.1,beta=0.2", "beta is given twice"),
        ("dsgt:beta=0.9", "dsgt has no parameters, but 'dsgt:beta=0.9' was given; write dsgt"),
    ],
)
def test_what_is_wrong_is_refused_with_what_was_expected(text: str, message: str):
    with pytest.raises(ValueError, match=message):
        method(text)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_is_a_frozen_dataclass_whose_parameters_have_defaults_and_meanings(name: str):
    algorithm = ALGORITHMS[name]()
    assert is_dataclass(algorithm)
    assert all(f.metadata["meaning"] and f.default is not MISSING for f in parameters(algorithm))
    assert getattr(dsgt, type(algorithm).__name__) is ALGORITHMS[name]
    assert type(algorithm).__name__ in dsgt.__all__
    with pytest.raises(FrozenInstanceError):
        algorithm.sends = 7


def test_settings_call_one_method_by_one_name_and_run_it_once():
    found = dsgt.Settings(methods=("many:beta=0.9", "many", "many:steps=2,beta=0.1", "dsgt"))
    assert found.methods == ("many", "many:beta=0.1,steps=2", "dsgt")
    assert dsgt.Settings.of({"methods": found.methods}) == found
    assert "many:beta=0.1,steps=2" in found.command()
    with pytest.raises(ValueError, match="no parameter of many called 'bet'"):
        dsgt.Settings.of({"methods": ["many:bet=1"]})


def test_a_finished_run_is_known_again_by_its_methods_parameters():
    settings = dsgt.Settings(methods=("many", "many:beta=0.1"), nodes=4, graph="ring")
    jobs = [Job(settings, name, 0.1, 0) for name in settings.methods]
    assert [job.key["method"].split("(")[1] for job in jobs] == [
        "beta=0.9, steps=1, nesterov=False, kind=plain)",
        "beta=0.1, steps=1, nesterov=False, kind=plain)",
    ]
    assert jobs[0].name != jobs[1].name


def test_a_comparison_shows_the_parameters_in_its_table_and_its_rows():
    settings = dsgt.Settings(
        methods=("atc-dpsgd", "many:beta=0.5"), nodes=3, graph="ring", epochs=0.2, lrs=(0.1,), seeds=1, evaluations=1
    )
    found = dsgt.compare(settings, workers=1)
    assert list(found.table().index) == ["atc-dpsgd", "many:beta=0.5"]
    assert {row["method"] for row in found.rows} == {"atc-dpsgd", "many:beta=0.5"}


def test_fingerprints_hold_the_parameters():
    assert fingerprint.method(Many()) == "Many(beta=0.9, steps=1, nesterov=False, kind=plain)"
    assert fingerprint.method(dsgt.DSGT()) == "DSGT()"


def test_the_command_line_lists_the_methods_and_describes_one():
    table = CliRunner().invoke(app, ["methods"], terminal_width=200).output
    assert all(name in table for name in ALGORITHMS)
    one = CliRunner().invoke(app, ["methods", "d2"]).output
    assert "X'' = W (2 X' - X" in one
    assert "Guarantee: O(sigma" in one
    assert "Tang, Lian, Yan, Zhang and Liu" in one
    assert "smallest eigenvalue > -0.333" in one
    many = CliRunner().invoke(app, ["methods", "many:beta=0.5"]).output
    assert all(word in many for word in ("many:beta=0.5", "dsgt.Many(beta=0.5", "float", "0.9", "how much is kept"))
    wrong = CliRunner().invoke(app, ["methods", "d3"])
    assert wrong.exit_code == 2
    assert "did you mean 'd2'?" in wrong.output


def test_the_command_line_trains_and_compares_with_parameters(tmp_path):
    some = ["--nodes", "3", "--graph", "ring", "--epochs", "0.2", "--evaluations", "1"]
    trained = CliRunner().invoke(app, ["train", "decentlam:beta=0.5", *some, "--out", str(tmp_path / "t")])
    assert trained.exit_code == 0, trained.output
    assert "decentlam:beta=0.5, metropolis weights" in trained.output
    assert '"method": "decentlam:beta=0.5"' in (tmp_path / "t" / "rows.jsonl").read_text()
    asked = ["compare", "decentlam", "decentlam:beta=0.5", *some, "--lr", "0.1", "--seeds", "1", "--workers", "1"]
    compared = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "c")])
    assert compared.exit_code == 0, compared.output
    assert "decentlam:beta=0.5" in compared.output
    assert "decentlam:beta=0.5" in (tmp_path / "c" / "report.html").read_text()
    refused = CliRunner().invoke(app, ["train", "decentlam:bta=0.5", *some])
    assert refused.exit_code == 2
    assert "no parameter of decentlam called 'bta'; did you mean 'beta'?" in refused.output
