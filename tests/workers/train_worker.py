"""``dsgt train`` in double precision, where rounding cannot hide a difference; otherwise as a user starts it.

Where NOTES names a folder, every process leaves its number there, for the fault suite.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dsgt.cli import app
from dsgt.networks.launched import launched

if __name__ == "__main__":
    sys.argv += ["--dtype", "float64"]
    if "NOTES" in os.environ:
        (Path(os.environ["NOTES"]) / f"pid-{launched().rank}").write_text(str(os.getpid()))
    app()
