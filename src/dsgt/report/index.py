"""Many comparisons on one page: what each found, and any two of them side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsgt.report.parts import asset, policy, scripts, template
from dsgt.report.summary import FILE, read
from dsgt.text import short


def index(folders: Sequence[Path | str], path: Path | str) -> Path:
    """Write the page over all comparisons in these folders, and in the folders within them; its path.

    A comparison is a folder in which ``dsgt.report.save``, or ``dsgt compare``, has written.
    """
    path = Path(path)
    found = sorted({file.parent for folder in folders for file in _within(Path(folder))})
    if not found:
        raise ValueError(
            f"there is no comparison in {', '.join(map(str, folders)) or 'no folder'}; give folders that dsgt compare "
            f"has written {FILE} into"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    names = _names(found)
    path.write_text(page({name: read(f) | {"href": _link(f, path)} for name, f in zip(names, found, strict=True)}))
    return path


def page(comparisons: dict[str, dict[str, Any]]) -> str:
    """By name, the summaries; each may have an ``href``."""
    settings = [one["settings"] for one in comparisons.values()]
    keys = list(dict.fromkeys(key for one in settings for key in one))
    varying = [key for key in keys if len({one.get(key) for one in settings}) > 1]
    same = {key: settings[0][key] for key in keys if key not in varying}
    colours: dict[str, int] = {}
    for one in comparisons.values():
        for method in one["methods"]:
            if not method["reference"]:
                colours.setdefault(method["name"], len(colours))
    rows = [
        {
            "name": name,
            "href": one.get("href", ""),
            "values": [one["settings"].get(key, "–") for key in varying],
            "best": "–" if one["best"] is None else f"{one['best']['name']} ({short(one['best']['loss'])})",
            "verdict": one["verdict"][0],
        }
        for name, one in comparisons.items()
    ]
    data = {"names": list(comparisons), "comparisons": list(comparisons.values()), "colours": colours}
    texts = scripts("index.js")
    return template("index.html").render(
        rows=rows, varying=varying, same=same, data=data, scripts=texts, policy=policy(texts), style=asset("style.css")
    )


def _within(folder: Path) -> list[Path]:
    return [folder / FILE] if (folder / FILE).is_file() else sorted(folder.rglob(FILE))


def _names(folders: Sequence[Path]) -> list[str]:
    """As short as they can be told apart: without what all paths begin with."""
    if len(folders) == 1:
        return [folders[0].name or str(folders[0])]
    top = Path(os.path.commonpath([f.resolve() for f in folders]))
    return [str(f.resolve().relative_to(top)) if f.resolve() != top else f.name for f in folders]


def _link(folder: Path, page: Path) -> str:
    return Path(os.path.relpath(folder.resolve() / "report.html", page.resolve().parent)).as_posix()
