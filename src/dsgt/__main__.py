"""``dsgt`` in a shell, and ``python -m dsgt``."""

from __future__ import annotations

import atexit
import gc
import sys

from dsgt.extras import how_to_install


def main() -> None:
    try:
        from dsgt.cli import app
    except ModuleNotFoundError as error:
        if not (said := how_to_install(error.name or "")):
            raise
        sys.exit(f"error: {said}")
    atexit.register(gc.freeze)  # looking for garbage in all of torch would take a third of a second
    app(prog_name="dsgt")


if __name__ == "__main__":
    main()
