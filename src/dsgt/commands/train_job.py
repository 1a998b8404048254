"""What ``dsgt train`` does around a run: agree on what is trained, and write what was measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from dsgt._version import __version__
from dsgt.comparison import Job
from dsgt.comparison.measured import Row
from dsgt.comparison.own import alike, sample_of
from dsgt.core import Network
from dsgt.networks.agreement import gather_numbers, together
from dsgt.networks.launched import Launched
from dsgt.problems.base import Problem


def prepare(job: Job, network: Network, out: Path) -> Problem:
    """The problem, and a place for the rows; or a ValueError, the same at every node, before work starts."""

    def place() -> None:
        if not network.node:
            out.mkdir(parents=True, exist_ok=True)
            (out / "rows.jsonl").touch()

    problem = job.settings.problem_at(job.seed, network)
    together(network, place)
    about = json.dumps(job.settings.model_dump(mode="json", exclude={"data_dir"}) | {"seed": job.seed})
    mine = int.from_bytes(hashlib.sha256(about.encode()).digest()[:6], "big")  # exact in a float64
    told = gather_numbers(network, [mine, *sample_of(problem, job.seed).tolist()])
    first = told[0]
    for node, numbers in enumerate(told):
        if numbers[0] != first[0]:
            raise ValueError(f"nodes 0 and {node} were given different flags; give all of them the same")
        if not alike(numbers[1:], first[1:]):
            raise ValueError(
                f"nodes 0 and {node} have other samples, or another start of the model: give them the same files, and "
                "let what is drawn be drawn from torch's, NumPy's or Python's own streams, which are seeded, or from a "
                "generator with a seed of its own"
            )
    return problem


def write(job: Job, launched: Launched, out: Path, rows: Sequence[Row]) -> None:
    label = {"method": job.method, "lr": job.lr, "seed": job.seed}
    about = job.settings.model_dump(mode="json", exclude={"methods", "lrs", "seeds", "target"}) | label
    about |= {"backend": launched.kind, "versions": {"dsgt": __version__, "torch": torch.__version__}}
    (out / "settings.json").write_text(json.dumps(about, indent=2) + "\n")
    (out / "rows.jsonl").write_text("".join(json.dumps(label | row) + "\n" for row in rows))
