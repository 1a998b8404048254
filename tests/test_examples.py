"""The examples run in processes of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.launch import HANGING, TESTS, environment, launch

EXAMPLES = TESTS.parent / "examples"
QUICK = {
    "resnet": ("EPOCHS, WARM_UP = 10, 2", "EPOCHS, WARM_UP = 2, 1"),
    "gpt": ("STEPS, WARM_UP, BATCH, PARTS = 301, 20, 16, 2", "STEPS, WARM_UP, BATCH, PARTS = 3, 1, 2, 2"),
    "accelerate": ("EPOCHS = 8", "EPOCHS = 1"),
    "lightning": ("STEPS = 200", "STEPS = 3"),
    "trainer": ("STEPS, CONTEXT = 200, 32", "STEPS, CONTEXT = 3, 8"),
}
"""What makes an example quick."""
SAID = r"(?:epoch|step) +(\d+)  test (?:accuracy 0|loss \d)\.\d{3}"


def run(kind: str, name: str, folder: Path, *, replacing: tuple[str, str] | None = None) -> list[str]:
    """Run an example in this folder and return the numbers of the epochs or steps that it tells."""
    text = (EXAMPLES / f"{kind}_{name}.py").read_text()
    for old, new in [QUICK[name], *([replacing] if replacing else [])]:
        assert old in text
        text = text.replace(old, new)
    script = folder / f"{kind}_{name}.py"
    script.write_text(text)
    words = [str(script), str(folder / kind)]
    if kind == "plain":
        done = subprocess.run(
            [sys.executable, *words], env=environment(), capture_output=True, text=True, timeout=HANGING, check=False
        )
    else:
        nodes = re.search(r"--nproc-per-node (\d)", text)
        assert nodes is not None
        done = launch("torch", int(nodes[1]), *words)
    assert done.returncode == 0, done.stderr[-3000:]
    return re.findall(SAID, done.stdout)


@pytest.mark.parametrize("kind", ["plain", "torchrun"])
def test_the_residual_network_trains_and_goes_on_from_its_checkpoint(kind: str, tmp_path: Path):
    one_epoch = ("range(scheduler.last_epoch, EPOCHS)", "range(scheduler.last_epoch, 1)")
    assert run(kind, "resnet", tmp_path, replacing=one_epoch) == ["0"]
    assert run(kind, "resnet", tmp_path) == ["1"]


@pytest.mark.parametrize("kind", ["plain", "torchrun"])
def test_the_small_gpt_trains(kind: str, tmp_path: Path):
    assert run(kind, "gpt", tmp_path) == ["0"]


@pytest.mark.parametrize("kind", ["plain", "torchrun"])
@pytest.mark.parametrize(("name", "said"), [("accelerate", "0"), ("lightning", "3"), ("trainer", "3")])
def test_a_trainer_of_others_trains(name: str, said: str, kind: str, tmp_path: Path):
    assert run(kind, name, tmp_path) == [said]


def test_everything_at_once_and_killed_equals_its_undisturbed_self_bit_for_bit(tmp_path: Path):
    """Groups, AdamW inside, clipping, accumulation, autocast, warm-up, BatchNorm, workers of a loader, kill -9."""
    done = launch("torch", 4, "--max-restarts=1", str(TESTS / "workers" / "everything_worker.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(re.findall(r"node (\d) is equal", done.stdout)) == ["0", "1", "2", "3"]
