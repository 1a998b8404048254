"""A site's own files as data: tables, tensors, folders of images."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import dsgt
from dsgt.cli import app
from dsgt.data.files import images, split, table, tensors

N = 30


@pytest.fixture
def frame() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(N, 2))
    kinds = np.where(values[:, 0] > 0, "yes", "no")
    return pd.DataFrame({"a": values[:, 0], "b": values[:, 1] * 100 + 7, "kind": kinds, "size": values.sum(axis=1)})


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_table_gives_its_numbers_and_its_target_as_classes(frame: pd.DataFrame, tmp_path: Path, suffix: str):
    path = tmp_path / f"mine{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="\t" if suffix == ".tsv" else ",", index=False)
    train, rest = table(path, target="kind", test=0)
    assert rest is None
    assert train.features.shape == (N, 3)
    found = {tuple(row): label for row, label in zip(train.features.tolist(), train.targets.tolist(), strict=True)}
    for _, row in frame.iterrows():
        assert found[row["a"], row["b"], row["size"]] == (row["kind"] == "yes")


def test_a_real_target_is_for_regression_and_scaling_uses_the_training_rows(frame: pd.DataFrame, tmp_path: Path):
    frame.drop(columns="kind").to_csv(tmp_path / "mine.csv", index=False)
    train, test = table(tmp_path / "mine.csv", target="size", scale=True)
    assert not train.labelled
    assert (len(train), len(test)) == (24, 6)
    # sums of 24 numbers of size one, in double precision
    assert train.features.mean(dim=0).abs().max() < 1e-12
    assert (train.features.std(dim=0) - 1).abs().max() < 1e-12
    assert test.features.mean(dim=0).abs().max() > 1e-3


def test_a_test_table_of_its_own_has_the_same_classes(frame: pd.DataFrame, tmp_path: Path):
    frame[frame.kind == "yes"].to_csv(tmp_path / "train.csv", index=False)
    frame[frame.kind == "no"].to_csv(tmp_path / "test.csv", index=False)
    train, test = table(tmp_path / "train.csv", target="kind", test="test.csv")
    assert set(train.targets.tolist()) == {1}
    assert set(test.targets.tolist()) == {0}


def test_columns_are_left_out_and_one_says_who_made_each_sample(frame: pd.DataFrame, tmp_path: Path):
    wards = ["north", "south", "east"]
    frame = frame.assign(name="text", ward=[wards[i % 3] for i in range(N)])
    frame.to_csv(tmp_path / "mine.csv", index=False)
    train, rest = table(tmp_path / "mine.csv", target="kind", without="name/size", groups="ward", test=0)
    assert rest is None
    assert train.features.shape == (N, 2)
    whose = {tuple(row): ward for *row, ward in frame[["a", "b", "ward"]].itertuples(index=False)}
    found = zip(train.features.tolist(), train.groups.tolist(), strict=True)
    assert len({(whose[tuple(row)], group) for row, group in found}) == 3, "a number for each ward"
    given = {"nodes": 2, "graph": "path", "batch": 4}
    words = f"{tmp_path / 'mine.csv'}:target=kind,without=name/size,groups=ward,scale=true"
    problem = dsgt.Settings(data=words, partition="groups", **given).problem(0)
    held = [set(problem.data.groups[shard].tolist()) for shard in problem.shards]
    assert sorted(map(len, held)) == [1, 2]
    assert not held[0] & held[1]
    assert problem.data.features.shape[1] == 2


def test_a_column_with_a_slash_in_its_name_can_be_left_out(tmp_path: Path):
    (tmp_path / "mine.csv").write_text("a,km/h,kind\n1,2,x\n3,4,y\n")
    train, _ = table(tmp_path / "mine.csv", target="kind", without="km/h", test=0)
    assert sorted(train.features.tolist()) == [[1.0], [3.0]]


def test_a_test_table_may_lack_what_is_left_out(frame: pd.DataFrame, tmp_path: Path):
    frame.assign(name="text").to_csv(tmp_path / "train.csv", index=False)
    frame[:7].to_csv(tmp_path / "test.csv", index=False)
    train, test = table(tmp_path / "train.csv", target="kind", without="name", test="test.csv")
    assert torch.equal(test.features, train.features[:7])


@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_tensors_are_found_by_their_names_and_bytes_are_pixels(tmp_path: Path, suffix: str):
    path = tmp_path / f"mine{suffix}"
    draw = np.random.default_rng(0)
    pixels, labels = draw.integers(0, 256, (N, 8, 8, 3), dtype=np.uint8), draw.integers(0, 3, (N, 1))
    held = {"x_train": pixels, "y_train": labels, "x_test": pixels[:5], "y_test": labels[:5]}
    if suffix == ".npz":
        np.savez(path, **held)
    else:
        torch.save({name: torch.from_numpy(value) for name, value in held.items()}, path)
    train, test = tensors(path)
    assert train.features.shape == (N, 3, 8, 8)
    assert torch.equal(train.features[4, 2], torch.from_numpy(pixels[4, :, :, 2]).float() / 255)
    assert train.targets.shape == (N,)
    assert len(test) == 5


@pytest.mark.parametrize(("word", "scaled"), [("yes", True), ("1", True), ("no", False), ("0", False)])
def test_truth_is_told_in_words(frame: pd.DataFrame, tmp_path: Path, word: str, scaled: bool):
    frame.to_csv(tmp_path / "mine.csv", index=False)
    train, _ = table(tmp_path / "mine.csv", target="kind", scale=word)
    assert (train.features.mean(dim=0).abs().max() < 1e-12) == scaled  # sums of 24 numbers, in double precision


@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_images_and_labels_that_are_bytes_can_be_trained_on(tmp_path: Path, model: str):
    draw = np.random.default_rng(0)
    pixels, labels = draw.integers(0, 256, (N, 4, 4), dtype=np.uint8), draw.integers(0, 3, N, dtype=np.uint8)
    np.savez(tmp_path / "mine.npz", x_train=pixels, y_train=labels, x_test=pixels[:5], y_test=labels[:5])
    given = {"nodes": 2, "graph": "path", "batch": 8, "partition": "equal", "model": model}
    problem = dsgt.Settings(data=str(tmp_path / "mine.npz"), **given).problem(0)
    x = problem.start(0).expand(2, -1)
    assert problem.oracle(0)(x, 0).isfinite().all()
    assert problem.accuracy(x).isfinite().all()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["x_train", "y_train", "x_test"], "mine.npz holds x_test but no y_test; give both of them"),
        (["features", "targets", "test_targets"], "mine.npz holds test_targets but no test_features; give both"),
        (["x_train", "x_test", "y_test"], "mine.npz holds x_train but no y_train; give both of them"),
        (["x_train", "y_train", "X_test", "y_test"], "mine.npz holds X_test; did you mean x_test?"),
        (["X_train", "Y_train"], "mine.npz holds X_train; did you mean x_train?"),
        (
            ["x_train", "y_train", "test_features", "test_targets"],
            "test_features, test_targets beside x_train and y_train; call them x_train, y_train, x_test and y_test",
        ),
    ],
)
def test_test_samples_that_nobody_would_look_at_are_refused(tmp_path: Path, names: list[str], message: str):
    np.savez(tmp_path / "mine.npz", **{name: np.zeros((N, 2)) for name in names})
    with pytest.raises(ValueError, match=re.escape(message)):
        tensors(tmp_path / "mine.npz")


def test_other_arrays_may_stand_beside_those_that_are_known(tmp_path: Path):
    held = {"features": np.zeros((N, 2)), "targets": np.arange(N) % 2, "Features": np.zeros(3), "weights": np.zeros(3)}
    np.savez(tmp_path / "mine.npz", **held)
    assert [len(part) for part in tensors(tmp_path / "mine.npz")] == [24, 6]


def test_a_pair_of_pairs_of_tensors_is_train_and_test(tmp_path: Path):
    pair = (torch.randn(N, 3), torch.arange(N) % 2)
    torch.save((pair, (pair[0][:4], pair[1][:4])), tmp_path / "a.pt")
    torch.save(pair, tmp_path / "b.pt")
    assert [len(part) for part in tensors(tmp_path / "a.pt")] == [N, 4]
    assert [len(part) for part in tensors(tmp_path / "b.pt")] == [24, 6]


def pictures(folder: Path, count: int) -> None:
    for kind, grey in (("dark", 20), ("light", 230)):
        (folder / kind).mkdir(parents=True)
        for i in range(count):
            Image.new("RGB", (12, 9), (grey, grey, i)).save(folder / kind / f"{i}.png")


def test_a_folder_of_images_is_a_class_per_folder(tmp_path: Path):
    pictures(tmp_path / "all", 10)
    train, test = images(tmp_path / "all", size=8)
    assert train.features.shape == (16, 3, 8, 8)
    assert ((train.features[:, 0].mean(dim=(1, 2)) > 0.5) == train.targets.bool()).all()
    for part, count in (("train", 3), ("test", 2)):
        pictures(tmp_path / "two" / part, count)
    train, test = images(tmp_path / "two", size=4, grey=True)
    assert (len(train), len(test)) == (6, 4)
    assert train.features.shape[1:] == (1, 4, 4)


def test_a_split_loses_no_sample_and_depends_on_its_seed_only():
    data = dsgt.data.Samples(torch.arange(10.0)[:, None], torch.arange(10))
    train, test = split(data, 0.3, seed=1)
    assert sorted([*train.targets.tolist(), *test.targets.tolist()]) == list(range(10))
    assert train.targets.tolist() == split(data, 0.3, seed=1)[0].targets.tolist()
    assert train.targets.tolist() != split(data, 0.3, seed=2)[0].targets.tolist()


FLAGS = ["--nodes", "2", "--graph", "path", "--epochs", "1", "--batch", "8", "--partition", "equal"]


@pytest.fixture
def here(frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    frame.to_csv(tmp_path / "mine.csv", index=False)
    frame.drop(columns=["a", "b", "size"]).assign(note="text").to_csv(tmp_path / "words.csv", index=False)
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    (tmp_path / "broken.npz").write_bytes(b"no zip file")
    (tmp_path / "broken.pt").write_bytes(b"no zip file")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")
    (tmp_path / "head.csv").write_text("a,b,kind\n")
    (tmp_path / "only.csv").write_text("kind\n0\n1\n")
    (tmp_path / "twice.csv").write_text("a,a,kind\n1,2,0\n3,4,1\n")
    (tmp_path / "holes.csv").write_text("a,b,ward,kind\n1,0,n,x\n2,1,,y\n3,0,n,\n4,1,s,x\n")
    (tmp_path / "one.csv").write_text("a,kind\n" + "1,0\n2,0\n" * 8)
    pictures(tmp_path / "photos", 10)
    pictures(tmp_path / "gaps", 10)
    (tmp_path / "gaps" / "grey" / "old").mkdir(parents=True)
    (tmp_path / "hollow" / "a").mkdir(parents=True)
    (tmp_path / "hollow" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.mark.parametrize(
    ("data", "model"), [("mine.csv:target=kind,scale=true", "logistic"), ("photos:size=16", "lenet")]
)
def test_the_commands_take_files(here: Path, data: str, model: str):
    for command in (["compare", "dsgt", "--seeds", "1", "--workers", "1"], ["train", "dsgt"]):
        done = CliRunner().invoke(
            app, [*command, *FLAGS, "--data", data, "--model", model, "--lr", "0.1", "--out", "out"]
        )
        assert done.exit_code == 0, done.output
        assert f"{model} on {data}" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("mine.csv", "mine.csv needs a target: write mine.csv:target=COLUMN, one of a, b, kind, size"),
        ("mine.csv:target=knd", "there is no column of mine.csv called 'knd'; did you mean 'kind'?"),
        ("mine.csv:goal=kind", "unexpected keyword argument 'goal'; mine.csv takes target, test, scale, seed"),
        ("mine.csv:taget=kind", "did you mean 'target'? mine.csv takes target, test, scale, seed"),
        ("mine.csv:target=kind,scale=maybe", "scale is 'maybe'; give true or false"),
        ("mine.csv:target=kind,seed=-1", "seed is -1; seeds are whole numbers from 0 on"),
        ("head.csv:target=kind", "head.csv has no rows below its header"),
        ("only.csv:target=kind", "only.csv has no column besides the target kind"),
        ("twice.csv:target=kind", "twice.csv has several columns called a; give each a name of its own"),
        ("one.csv:target=kind", "all training samples have the label 0, and nothing can be learned from one class"),
        ("broken.pt", "broken.pt holds no tensors, or other things beside them (a module, objects)"),
        ("module.pt", "module.pt holds no tensors, or other things beside them (a module, objects)"),
        ("photos:grey=2", "grey is 2; give true or false"),
        ("mine.csv:target=kind,test=2", "test is 2.0, but it is the share of samples kept for testing"),
        ("words.csv:target=kind", "note in words.csv are not numbers"),
        ("nowhere.csv:target=kind", "there is no file nowhere.csv in"),
        ("other.npz", "other.npz holds a; expected ('x_train', 'y_train', 'x_test', 'y_test') or"),
        ("broken.npz", "the data 'broken.npz' failed: broken.npz is not an .npz file"),
        ("words.csv:target=kind", "leave these columns out, without=note, or encode them"),
        ("words.csv:target=kind,without=note", "words.csv has no column besides the target kind; give it columns"),
        ("mine.csv:target=kind,without=a/sise", "there is no column of mine.csv called 'sise'; did you mean 'size'?"),
        ("mine.csv:target=kind,without=kind", "kind is the target and cannot be left out"),
        ("mine.csv:target=kind,groups=sise", "there is no column of mine.csv for groups called 'sise'; did you mean"),
        ("mine.csv:target=kind,groups=kind", "there is no column of mine.csv for groups called 'kind'"),
        ("mine.csv:target=kind,groups=a,without=a", "there is no column of mine.csv for groups called 'a'"),
        ("holes.csv:target=kind,without=ward", "kind is missing in 1 of the 4 rows of holes.csv, first in row 3"),
        (
            "holes.csv:target=b,groups=ward,without=kind",
            "ward is missing in 1 of the 4 rows of holes.csv, first in row 2 (an empty field, NA or None)",
        ),
        ("hollow", "hollow has no pictures in a and b (files that end in .bmp, .gif, "),
        ("gaps", "gaps has no pictures in grey (files that end in .bmp, .gif, "),
        ("hollow/a", "hollow/a has 0 folders; expected one folder of pictures for each of several classes"),
        ("gaps/grey", "gaps/grey has 1 folder; expected one folder of pictures for each of several classes"),
    ],
)
def test_files_that_cannot_be_used_are_named_before_any_run(here: Path, monkeypatch, data: str, message: str):
    monkeypatch.setattr("dsgt.comparison.job.run", None)
    done = CliRunner().invoke(app, ["compare", "dsgt", *FLAGS, "--data", data, "--out", "out"])
    says = " ".join(done.output.split())
    assert done.exit_code == 2, says
    assert message in says
    assert says.count("error:") == 1
