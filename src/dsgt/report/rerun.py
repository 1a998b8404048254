"""How to do a comparison again in Python; ``Settings.command`` says how in a shell."""

from __future__ import annotations

from dsgt.comparison import Settings


def python(settings: Settings) -> str:
    """The script, with every setting that is not by default; empty where an object stands for a name."""
    if not settings.repeatable:
        return ""
    given = {"methods": list(settings.methods)} | settings.changed()
    lines = [f"    {name}={value!r}," for name, value in given.items()]
    body = ["settings = dsgt.Settings(", *lines, ")", 'dsgt.report.save(dsgt.compare(settings), "runs/compare")']
    return "import dsgt\n\n" + "\n".join(body) + "\n"
