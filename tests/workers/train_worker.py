"""``dsgt train`` in double precision, where rounding cannot hide a difference; otherwise as a user starts it.

Where NOTES names a folder, every process leaves its number there, for the fault suite.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dsgt.cli import app
from dsgt.comparison import settings
from dsgt.data import Samples
from dsgt.networks.launched import launched

_named = settings.named_data


def doubled(*args: Any, **options: Any) -> tuple[Samples, ...]:
    return tuple(Samples(s.features.double(), s.targets) for s in _named(*args, **options))


if __name__ == "__main__":
    settings.named_data = doubled
    if "NOTES" in os.environ:
        (Path(os.environ["NOTES"]) / f"pid-{launched().rank}").write_text(str(os.getpid()))
    app()
