"""``dsgt train`` in double precision, where rounding cannot hide a difference; otherwise as a user starts it.

Where NOTES names a folder, every process leaves its number there, for the fault suite.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import torch

from dsgt.cli import app
from dsgt.comparison import settings
from dsgt.networks.launched import launched
from dsgt.problems.named import named_problem

in_doubles = partial(named_problem, dtype=torch.float64)

if __name__ == "__main__":
    settings.named_problem = in_doubles
    if "NOTES" in os.environ:
        (Path(os.environ["NOTES"]) / f"pid-{launched().rank}").write_text(str(os.getpid()))
    app()
