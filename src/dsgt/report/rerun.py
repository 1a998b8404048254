"""How to do a comparison again: as a command, and in Python."""

from __future__ import annotations

import platform
import shlex
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from dsgt._version import __version__

if TYPE_CHECKING:
    from dsgt.comparison import Settings


def fields(settings: Settings) -> dict[str, Any]:
    return dict(vars(settings))


def command(settings: Settings) -> str:
    """The command line, every setting said, because defaults may change."""
    given = fields(settings)
    words = [f"dsgt compare {shlex.join(given.pop('methods'))}"]
    for name, value in given.items():
        values = value if isinstance(value, tuple | list) else [value]
        flag = "--lr" if name == "lrs" else f"--{name.replace('_', '-')}"
        said = [f"{flag} {shlex.quote(_text(v))}" for v in values if v is not None]
        if said:
            words.append(" ".join(said))
    return " \\\n  ".join(words)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def python(settings: Settings) -> str:
    """The same as a script."""
    given = "".join(f"    {name}={value!r},\n" for name, value in fields(settings).items() if value is not None)
    return f"""\
import dsgt
from pathlib import Path

if __name__ == "__main__":
    settings = dsgt.Settings(
{"".join("    " + line + chr(10) for line in given.splitlines())}    )
    found = dsgt.compare(settings)
    found.save(Path("runs/compare"))
"""


def versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("torch", "numpy", "scipy")}
    return {"dsgt": __version__, "Python": platform.python_version(), **packages}
